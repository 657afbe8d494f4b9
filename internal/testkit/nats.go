package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const natsModule = "github.com/nats-io/nats-server/v2"

// NATSOptions is the size of a NATS deployment.
type NATSOptions struct {
	// Nodes is 1 or 3; 0 is 1.
	Nodes int
}

// NATS is one nats-server with JetStream, or a cluster of three.
type NATS struct {
	ports []int
	nodes []*process
	// stores are the folders of JetStream.
	stores []string
}

// StartNATS starts servers that end with the test. They are processes of their
// own, built from the module that this one depends on, so that they can be
// killed; what a distribution packages is too old.
func StartNATS(t testing.TB, o NATSOptions) *NATS {
	t.Helper()
	requireBackend(t, "go")
	n, err := launch(func() (*NATS, error) { return newNATS(max(o.Nodes, 1)) })
	must(t, err)
	for _, p := range n.nodes {
		p.endWith(t)
		p.showOnFailure(t)
	}
	return n
}

func newNATS(nodes int) (*NATS, error) {
	if nodes != 1 && nodes != 3 {
		return nil, fmt.Errorf("%d nodes of NATS; want 1 or 3", nodes)
	}
	path, err := natsServer()
	if err != nil {
		return nil, fmt.Errorf("build nats-server: %w", err)
	}
	n := &NATS{}
	if n.ports, err = freePorts(nodes); err != nil {
		return nil, err
	}
	routePorts, err := freePorts(nodes)
	if err != nil {
		return nil, err
	}
	var routes []string
	for _, p := range routePorts {
		routes = append(routes, "nats://"+hostPort(p))
	}
	for i := range nodes {
		dir, err := newDir("nats")
		if err != nil {
			return nil, err
		}
		store := filepath.Join(dir, "store")
		args := []string{
			"--addr", "127.0.0.1", "--port", strconv.Itoa(n.ports[i]), "--name", fmt.Sprintf("node-%d", i+1),
			"--jetstream", "--store_dir", store,
		}
		if nodes > 1 {
			args = append(args, "--cluster_name", "seatflow", "--cluster", routes[i], "--routes", strings.Join(routes, ","))
		}
		n.stores = append(n.stores, store)
		n.nodes = append(n.nodes, &process{
			name: "nats " + hostPort(n.ports[i]), path: path, args: args, dir: dir, log: filepath.Join(dir, "log"),
		})
	}
	// A node of a cluster is ready when there is a leader, so all have to run
	// before one is waited for.
	err = inParallel(nodes, func(i int) error {
		return n.nodes[i].start(func() error { return n.ready(i) })
	})
	if err == nil && nodes > 1 {
		err = await("a replicated stream", func() error { return n.probe(nodes) })
	}
	if err != nil {
		for _, p := range n.nodes {
			p.kill()
		}
		return nil, err
	}
	return n, nil
}

// natsServer builds the server once for each version, module and Go release
// of the machine.
var natsServer = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	command := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", args[0], err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	version, err := command("list", "-m", "-f", "{{.Version}}", natsModule)
	if err != nil {
		return "", err
	}
	release, err := command("version")
	if err != nil {
		return "", err
	}
	dir, err := cached("nats-server", version+"\n"+release, func(dir string) error {
		_, err := command("build", "-o", filepath.Join(dir, "nats-server"), natsModule)
		return err
	})
	return filepath.Join(dir, "nats-server"), err
})

// moduleRoot walks up from the folder of the test to the one of go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod in the working directory or above")
		}
		dir = up
	}
}

// inParallel runs f for 0 to n-1 and joins the errors.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// with runs f, for as long as wait, on a connection to one node that does not
// go elsewhere.
func (n *NATS) with(i int, wait time.Duration, f func(ctx context.Context, js jetstream.JetStream) error) error {
	nc, err := nats.Connect("nats://"+n.Addr(i), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.Timeout(2*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return f(ctx, js)
}

// ready asks a node for JetStream, which a cluster has once it has a leader.
// Before, nobody answers, so the question is short and put again.
func (n *NATS) ready(i int) error {
	return n.with(i, 500*time.Millisecond, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.AccountInfo(ctx)
		return err
	})
}

// probe makes a stream with a copy on every node and removes it: that works
// once the leader knows all of them.
func (n *NATS) probe(replicas int) error {
	const name = "SEATFLOW_TESTKIT_PROBE"
	return n.with(0, 5*time.Second, func(ctx context.Context, js jetstream.JetStream) error {
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{"seatflow-testkit-probe"}, Replicas: replicas, Storage: jetstream.MemoryStorage,
		}); err != nil {
			return err
		}
		return js.DeleteStream(ctx, name)
	})
}

// Addr is host:port of one node.
func (n *NATS) Addr(i int) string { return hostPort(n.ports[i]) }

// URL lists all nodes: nats://host:port,nats://host:port.
func (n *NATS) URL() string {
	var urls []string
	for i := range n.ports {
		urls = append(urls, "nats://"+n.Addr(i))
	}
	return strings.Join(urls, ",")
}

// Nodes is how many nodes there are.
func (n *NATS) Nodes() int { return len(n.nodes) }

// PID is the number of a node's process, 0 when it does not run.
func (n *NATS) PID(i int) int { return n.nodes[i].id() }

// Kill ends a node as kill -9 does; it returns when the node is gone.
func (n *NATS) Kill(i int) { n.nodes[i].kill() }

// Pause stops a node's process: connections stay open, nothing answers.
func (n *NATS) Pause(i int) { n.nodes[i].pause() }

// Resume undoes Pause.
func (n *NATS) Resume(i int) { n.nodes[i].resume() }

// Restart kills a node if it runs, starts it on the same port and folder, and
// waits until it has JetStream: in a cluster a second node has to run.
func (n *NATS) Restart(t testing.TB, i int) {
	t.Helper()
	n.nodes[i].kill()
	must(t, n.nodes[i].restart(func() error { return n.ready(i) }))
}

// RestartAll is Restart of every node at the same time.
func (n *NATS) RestartAll(t testing.TB) {
	t.Helper()
	for _, p := range n.nodes {
		p.kill()
	}
	must(t, inParallel(len(n.nodes), func(i int) error {
		return n.nodes[i].restart(func() error { return n.ready(i) })
	}))
}

// WipeStore removes what a killed node has stored, as a lost disk would.
func (n *NATS) WipeStore(t testing.TB, i int) {
	t.Helper()
	if n.nodes[i].running() {
		t.Fatal("the store of a running node is to be wiped; kill it first")
	}
	must(t, os.RemoveAll(n.stores[i]))
}
