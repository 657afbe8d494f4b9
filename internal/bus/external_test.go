package bus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

// bare connects to a server without a bus.
func bare(t conformance.TB, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("JetStream: %v", err)
	}
	return js
}

// sweep removes the streams that an earlier test has left.
func sweep(t conformance.TB, js jetstream.JetStream) {
	t.Helper()
	for _, s := range specs {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for err := errors.New("not yet"); err != nil; {
			if err = js.DeleteStream(ctx, s.name); errors.Is(err, jetstream.ErrStreamNotFound) {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("deleting %s: %v", s.name, err)
			}
		}
		cancel()
	}
}

// external runs the suite on servers of their own, as two nodes.
func external(t *testing.T, servers, replicas int) {
	n := testkit.StartNATS(t, testkit.NATSOptions{Nodes: servers})
	down := func() {
		for i := range servers {
			n.Kill(i)
		}
	}
	conformance.Bus(t, func(ct conformance.TB) conformance.Buses {
		sweep(ct, bare(ct, n.URL()))
		o := Options{URL: n.URL(), Replicas: replicas, Patience: time.Minute}
		a, b := open(ct, o), open(ct, o)
		return conformance.Buses{
			Nodes: []seatflow.Bus{a, b},
			Drop:  drop(ct, b),
			Down:  down,
			Up:    func() { n.RestartAll(t) },
			Empty: func() {
				for i := range servers {
					n.WipeStore(t, i)
				}
				n.RestartAll(t)
			},
			MaxPayload: MaxPayload,
			Patience:   time.Minute,
		}
	})
}

func TestExternal(t *testing.T) { external(t, 1, 1) }

func TestCluster(t *testing.T) { external(t, 3, 3) }
