package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seatflow"
)

const (
	// A pull asks for so many messages and bytes; at most that waits in
	// memory for a slow subscriber.
	pullMessages = 512
	pullBytes    = 4 << 20
	pullExpires  = 30 * time.Second
	// heartbeat is how often a quiet consumer says that it is alive. After
	// two that did not come another consumer is made.
	heartbeat = 2 * time.Second
	// consumerExpires is when a server forgets a consumer that nobody asks.
	consumerExpires = time.Minute
	// inspectEvery is how often a stream is looked at for what was trimmed
	// before it was read.
	inspectEvery = 5 * time.Second
)

// Reasons to read on through another consumer.
var (
	errStale    = errors.New("bus: no heartbeat from the consumer")
	errSkipped  = errors.New("bus: a message of the consumer is missing")
	errReplaced = errors.New("bus: the stream is another one")
)

// Subscribe delivers messages whose subject matches, in order, until ctx ends;
// then it returns nil. It returns an error only when the subject cannot be or
// the bus is closed.
func (b *Bus) Subscribe(ctx context.Context, subject string, ready func(), deliver func([]seatflow.Message)) error {
	stream, err := checkSubject(subject, true)
	if err != nil {
		return err
	}
	leave, err := b.enter()
	if err != nil {
		return err
	}
	defer leave()
	b.subscriptions.Add(1)
	defer b.subscriptions.Add(-1)
	s := &subscription{b: b, stream: stream, subject: subject, ready: ready, deliver: deliver}
	for try := 1; ; try++ {
		seen := s.at.seq
		err := s.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case b.closing.Err() != nil:
			return ErrClosed
		case s.at.seq != seen:
			try = 1
		}
		b.o.Log.Debug("reading on through another consumer", "subject", subject, "error", err)
		if try > 1 || !errors.Is(err, errCut) {
			_ = b.rest(ctx, pause(try, firstPause, mostPause))
		}
	}
}

// subscription is a Subscribe that runs. Everything in it belongs to the
// goroutine of its caller.
type subscription struct {
	b       *Bus
	stream  *spec
	subject string
	ready   func()
	deliver func([]seatflow.Message)

	incarnation string // of the stream that is read; empty: none yet
	at          mark   // nothing that matches is missing up to here
	hole        uint64 // the first place skipped since the stream was last looked at; 0 if none
	before      mark   // the end of the stream when it was last looked at
}

// reader is a consumer that is read through.
type reader struct {
	consumer jetstream.Consumer
	ask      string // subject of pulls
	inbox    string
	msgs     chan *nats.Msg
	number   uint64 // of the newest message, by the consumer's count
	due      int    // messages asked for that are still to come
}

// follow makes a consumer and reads through it until something looks wrong.
func (s *subscription) follow(ctx context.Context) error {
	line, err := s.b.connected(ctx)
	if err != nil {
		return err
	}
	if err := s.resume(ctx); err != nil {
		return err
	}
	r := &reader{msgs: make(chan *nats.Msg, 2*pullMessages+64), inbox: s.b.nc.NewInbox()}
	sub, err := s.b.nc.ChanSubscribe(r.inbox, r.msgs)
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	defer s.discard(ctx, r)
	if err := s.open(ctx, r); err != nil {
		return err
	}
	if s.ready != nil {
		s.ready()
		s.ready = nil
	}
	return s.read(ctx, line, r)
}

// resume decides where to read on. What was seen last must be proven to be
// followed by that; else a gap is announced.
func (s *subscription) resume(ctx context.Context) error {
	ask, cancel := s.b.ask(ctx)
	defer cancel()
	st, err := s.b.look(ask, s.stream)
	if err != nil {
		return err
	}
	from := s.at
	whole := false
	switch {
	case s.incarnation == "": // the first time: from now on
		from, whole = st.last, true
	case st.incarnation != s.incarnation: // all that it has is new
		from = mark{}
	case s.at == st.last, s.at == mark{seq: st.last.seq}:
		whole = s.hole == 0 || st.first <= s.hole
	case s.at.seq >= st.last.seq: // it lost its end, and who knows what came since
		from = st.last
	case st.first > s.at.seq+1, s.at.time != 0 && st.first > s.at.seq: // it was trimmed
		from = mark{seq: st.first - 1}
	default:
		same, err := s.same(ask, st)
		if err != nil {
			return err
		}
		if whole = same && (s.hole == 0 || st.first <= s.hole); !same {
			from = st.last
		}
	}
	s.incarnation, s.at, s.hole, s.before = st.incarnation, from, 0, st.last
	if !whole {
		s.gap()
	}
	return nil
}

// same reports whether the stream still has the message that was seen last. A
// server that lost the end of its stream has given its number to another one,
// stored at another time.
func (s *subscription) same(ctx context.Context, st state) (bool, error) {
	if s.at.time == 0 { // nothing was seen yet
		return true, nil
	}
	raw, err := st.stream.GetMsg(ctx, s.at.seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("bus: message %d of %s: %w", s.at.seq, s.stream.name, err)
	}
	return nanos(raw.Time) == s.at.time, nil
}

// gap says that messages may have been missed.
func (s *subscription) gap() {
	s.b.gaps.Add(1)
	s.b.o.Log.Info("messages may have been missed", "subject", s.subject, "stream", s.incarnation)
	s.deliver([]seatflow.Message{{Stream: s.incarnation, Gap: true}})
}

// open makes the consumer of a reader.
func (s *subscription) open(ctx context.Context, r *reader) error {
	ctx, cancel := s.b.ask(ctx)
	defer cancel()
	var err error
	r.consumer, err = s.b.js.CreateConsumer(ctx, s.stream.name, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       s.at.seq + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     s.subject,
		InactiveThreshold: consumerExpires,
		MemoryStorage:     true,
		Replicas:          1, // another is made sooner than a replica would take over
	})
	if err != nil {
		return fmt.Errorf("bus: consumer of %s: %w", s.stream.name, explain(err))
	}
	r.ask = "$JS.API.CONSUMER.MSG.NEXT." + s.stream.name + "." + r.consumer.CachedInfo().Name
	// The stream may have been made again since it was looked at: then the
	// consumer began in the middle of another one.
	st, err := s.b.stateOf(ctx, s.stream)
	if err != nil {
		return err
	}
	if st.incarnation != s.incarnation {
		return errReplaced
	}
	return nil
}

// discard removes the consumer, where that costs nothing; else the server
// forgets it by itself.
func (s *subscription) discard(ctx context.Context, r *reader) {
	if r.consumer == nil || !s.b.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.b.js.DeleteConsumer(ctx, s.stream.name, r.consumer.CachedInfo().Name)
}

// read delivers until something looks wrong.
func (s *subscription) read(ctx, line context.Context, r *reader) error {
	if err := r.pull(s.b.nc); err != nil {
		return err
	}
	const silence = 2*heartbeat + heartbeat/2
	stale := time.NewTimer(silence)
	defer stale.Stop()
	inspect := time.NewTicker(inspectEvery)
	defer inspect.Stop()
	for {
		select {
		case m := <-r.msgs:
			batch, err := s.gather(r, m)
			if err == nil {
				err = r.pull(s.b.nc)
			}
			if len(batch) > 0 {
				s.deliver(batch)
			}
			if err != nil {
				return err
			}
			stale.Reset(silence)
		case <-inspect.C:
			if err := s.inspect(ctx, r); err != nil {
				return err
			}
		case <-stale.C:
			return errStale
		case <-line.Done():
			return errCut
		case <-ctx.Done():
			return nil
		}
	}
}

// gather takes a message and those that have arrived behind it.
func (s *subscription) gather(r *reader, m *nats.Msg) ([]seatflow.Message, error) {
	var batch []seatflow.Message
	for {
		if m.Reply == "" {
			if err := r.status(m); err != nil {
				return batch, err
			}
		} else {
			meta, err := m.Metadata()
			if err != nil {
				return batch, fmt.Errorf("bus: %w", err)
			}
			if meta.Sequence.Consumer != r.number+1 {
				return batch, errSkipped
			}
			seq := meta.Sequence.Stream
			if s.hole == 0 && seq > s.at.seq+1 {
				s.hole = s.at.seq + 1
			}
			s.at = mark{seq, nanos(meta.Timestamp)}
			r.number++
			r.due--
			if batch == nil {
				batch = make([]seatflow.Message, 0, 1+len(r.msgs))
			}
			d := decode(m.Subject, m.Header, m.Data)
			d.Stream, d.Sequence = s.incarnation, seq
			batch = append(batch, d)
		}
		if len(batch) >= pullMessages {
			return batch, nil
		}
		select {
		case m = <-r.msgs:
		default:
			return batch, nil
		}
	}
}

// status reads what a server says of a pull.
func (r *reader) status(m *nats.Msg) error {
	text := m.Header.Get("Description")
	switch code := m.Header.Get("Status"); {
	case code == "100":
		return nil
	case code == "404", code == "408", code == "409" && (text == "Batch Completed" || text == "Message Size Exceeds MaxBytes"):
		left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			left = r.due
		}
		r.due = max(0, r.due-left)
		return nil
	default:
		return fmt.Errorf("bus: the consumer ends: %s %s", code, text)
	}
}

// pull asks for more messages when half of those asked for have come.
func (r *reader) pull(nc *nats.Conn) error {
	if r.due > pullMessages/2 {
		return nil
	}
	n := pullMessages - r.due
	request := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, n, pullBytes, pullExpires, heartbeat)
	if err := nc.PublishRequest(r.ask, r.inbox, request); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	r.due += n
	return nil
}

// inspect looks whether the stream is still the one that is read, and whether
// something was trimmed before it was read.
func (s *subscription) inspect(ctx context.Context, r *reader) error {
	ctx, cancel := s.b.ask(ctx)
	defer cancel()
	st, err := s.b.stateOf(ctx, s.stream)
	if err != nil {
		return err
	}
	if st.incarnation != s.incarnation || st.last.seq < s.at.seq {
		return errReplaced
	}
	if s.hole != 0 && st.first > s.hole {
		s.gap()
	}
	s.hole = 0
	ci, err := r.consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	// All that matches and was there at the last inspection has come.
	if ci.NumPending == 0 && ci.Delivered.Consumer == r.number && s.before.seq > s.at.seq {
		s.at = s.before
	}
	s.before = st.last
	return nil
}
