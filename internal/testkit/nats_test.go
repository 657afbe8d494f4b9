package testkit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	natsStream  = "K"
	natsSubject = "k"
	// askWait is short: a request that meets no leader is lost, and has to be
	// put again.
	askWait = 2 * time.Second
)

// publish makes the stream when there is none and stores one message in it.
func publish(t *testing.T, n *NATS, node int, replicas int) {
	t.Helper()
	must(t, n.with(node, patience, func(ctx context.Context, js jetstream.JetStream) error {
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: natsStream, Subjects: []string{natsSubject}, Replicas: replicas,
		}); err != nil {
			return err
		}
		_, err := js.Publish(ctx, natsSubject, []byte("v"))
		return err
	}))
}

// stored waits for the stream to have a number of messages; -1 is no stream.
func stored(t *testing.T, n *NATS, node, want int) {
	t.Helper()
	must(t, await("the stream", func() error {
		return n.with(node, askWait, func(ctx context.Context, js jetstream.JetStream) error {
			got := -1
			s, err := js.Stream(ctx, natsStream)
			switch {
			case err == nil:
				got = int(s.CachedInfo().State.Msgs)
			case !errors.Is(err, jetstream.ErrStreamNotFound):
				return err
			}
			if got != want {
				return errors.New("another number of messages")
			}
			return nil
		})
	}))
}

func TestNATSOneNode(t *testing.T) {
	t.Parallel()
	n := StartNATS(t, NATSOptions{})
	if n.URL() != "nats://"+n.Addr(0) || n.Nodes() != 1 {
		t.Errorf("one node at %s", n.URL())
	}
	publish(t, n, 0, 1)
	n.Kill(0)
	if n.ready(0) == nil || n.PID(0) != 0 {
		t.Fatal("a killed node answers")
	}
	n.Restart(t, 0)
	stored(t, n, 0, 1)
	n.Pause(0)
	if state := processState(n.PID(0)); state != "T" {
		t.Errorf("a paused node is in state %s, want T", state)
	}
	n.Resume(0)
	must(t, n.ready(0))
	n.Kill(0)
	n.WipeStore(t, 0)
	n.Restart(t, 0)
	stored(t, n, 0, -1)
}

func TestNATSCluster(t *testing.T) {
	t.Parallel()
	n := StartNATS(t, NATSOptions{Nodes: 3})
	publish(t, n, 0, 3)
	stored(t, n, 2, 1)
	n.Kill(1)
	n.WipeStore(t, 1)
	n.Restart(t, 1)
	stored(t, n, 1, 1)
	n.RestartAll(t)
	stored(t, n, 0, 1)
}
