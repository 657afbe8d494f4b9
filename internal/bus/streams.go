package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The streams.
const (
	SeatsStream  = "SEATFLOW_SEATS"
	OrdersStream = "SEATFLOW_ORDERS"
)

// spec is one of the streams.
type spec struct {
	name   string
	prefix string // of its subjects, the last dot included
	about  string
}

var specs = []*spec{
	{SeatsStream, "seatflow.seats.", "Changes of seats, by partition and show"},
	{OrdersStream, "seatflow.orders.", "Events of orders, by show and type"},
}

// specOf finds the stream that a subject belongs to.
func specOf(subject string) (*spec, bool) {
	for _, s := range specs {
		if strings.HasPrefix(subject, s.prefix) {
			return s, true
		}
	}
	return nil, false
}

// checkSubject holds a subject against NATS's rules, and finds its stream.
func checkSubject(subject string, wildcards bool) (*spec, error) {
	s, ok := specOf(subject)
	if !ok {
		return nil, fmt.Errorf("bus: no stream has the subject %q", subject)
	}
	start := 0
	for i := 0; i <= len(subject); i++ {
		if i < len(subject) && subject[i] != '.' {
			if c := subject[i]; c <= ' ' || c == 0x7f {
				return nil, fmt.Errorf("bus: the subject %q has a blank or a control character", subject)
			}
			continue
		}
		token := subject[start:i]
		wild := token == "*" || token == ">" && i == len(subject)
		if token == "" || !wild && strings.ContainsAny(token, "*>") || wild && !wildcards {
			return nil, fmt.Errorf("bus: the subject %q has a token that cannot be", subject)
		}
		start = i + 1
	}
	return s, nil
}

// config is what a stream should be.
func (b *Bus) config(s *spec) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        s.name,
		Description: s.about,
		Subjects:    []string{s.prefix + ">"},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      b.o.MaxAge,
		MaxBytes:    b.o.MaxBytes,
		MaxMsgSize:  MaxPayload,
		Duplicates:  b.o.Duplicates,
		Replicas:    b.o.Replicas,
	}
}

// state is what a stream looked like at one moment.
type state struct {
	stream      jetstream.Stream
	incarnation string
	first       uint64 // oldest message that is stored; last+1 if none is
	last        mark
}

// mark is a message's place and the time it was stored, by which it is known
// from another message of the same number.
type mark struct {
	seq  uint64
	time int64 // in nanoseconds; 0: not known
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func incarnation(info *jetstream.StreamInfo) string {
	return info.Config.Name + "@" + info.Created.UTC().Format(time.RFC3339Nano)
}

// look asks for a stream's state; the stream is made if it is missing.
func (b *Bus) look(ctx context.Context, s *spec) (state, error) {
	st, err := b.stateOf(ctx, s)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return st, err
	}
	b.o.Log.Warn("the stream is missing and is made again", "stream", s.name)
	if err := b.ensure(ctx, s); err != nil {
		return state{}, err
	}
	return b.stateOf(ctx, s)
}

func (b *Bus) stateOf(ctx context.Context, s *spec) (state, error) {
	stream, err := b.js.Stream(ctx, s.name)
	if err != nil {
		return state{}, fmt.Errorf("bus: stream %s: %w", s.name, explain(err))
	}
	info := stream.CachedInfo()
	st := state{stream, incarnation(info), info.State.FirstSeq, mark{info.State.LastSeq, nanos(info.State.LastTime)}}
	if info.State.Msgs == 0 {
		st.first = st.last.seq + 1
	}
	return st, nil
}

// ensure makes a stream, or brings its limits up to date. Any number of nodes
// may do so at once.
func (b *Bus) ensure(ctx context.Context, s *spec) error {
	want := b.config(s)
	for try := 1; ; try++ {
		err := b.ensureOnce(ctx, s, want)
		if err == nil {
			return nil
		}
		if try < 5 && (errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, jetstream.ErrStreamNotFound)) {
			continue // another node was faster
		}
		return fmt.Errorf("bus: stream %s: %w", s.name, explain(err))
	}
}

func (b *Bus) ensureOnce(ctx context.Context, s *spec, want jetstream.StreamConfig) error {
	stream, err := b.js.Stream(ctx, s.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = b.js.CreateStream(ctx, want)
	}
	if err != nil {
		return err
	}
	// What others set beside our own settings (placement, mirrors, metadata)
	// is theirs.
	have := stream.CachedInfo().Config
	next := have
	next.Subjects, next.Description, next.Discard = want.Subjects, want.Description, want.Discard
	next.MaxAge, next.MaxBytes, next.MaxMsgSize, next.Duplicates = want.MaxAge, want.MaxBytes, want.MaxMsgSize, want.Duplicates
	next.Replicas = max(have.Replicas, want.Replicas)
	if have.Storage != want.Storage || have.Retention != want.Retention {
		return errForeign
	}
	if slices.Equal(next.Subjects, have.Subjects) && next.Description == have.Description && next.Discard == have.Discard &&
		next.MaxAge == have.MaxAge && next.MaxBytes == have.MaxBytes && next.MaxMsgSize == have.MaxMsgSize &&
		next.Duplicates == have.Duplicates && next.Replicas == have.Replicas {
		return nil
	}
	_, err = b.js.UpdateStream(ctx, next)
	return err
}

var errForeign = errors.New("it exists with another storage or retention; delete it, and it is made again")

// Numbers of errors that are worth an explanation.
const (
	errNoPeers          = 10005
	errReplicasNeedMore = 10074
	errStorageExceeded  = 10047
)

func explain(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("JetStream is not on, or has no leader: %w", err)
	case errors.As(err, &api):
		switch api.ErrorCode {
		case errNoPeers, errReplicasNeedMore:
			return fmt.Errorf("too few servers for the replicas asked for: %w", err)
		case errStorageExceeded:
			return fmt.Errorf("the servers' store is too small for the bytes asked for: %w", err)
		}
	}
	return err
}
