package redisseats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"seatflow"
)

// partition is what the store knows of a partition's server.
type partition struct {
	now  atomic.Pointer[incarnation]
	turn chan struct{} // held by who finds out
}

// incarnation is a process that was seen as the master of a partition, with
// the digests of the scripts that were loaded into it.
type incarnation struct {
	identity string
	sha      [scriptCount]string
	dials    uint64 // as many connections had been opened when it was last seen
}

// watchEvery is how often servers are asked who they are though nothing
// points to a change.
const watchEvery = time.Second

// current returns the incarnation to call scripts of. Whenever a connection
// was opened since it was last seen, it is seen again first.
func (s *Store) current(ctx context.Context, p seatflow.Partition) (*incarnation, error) {
	in := s.partitions[p].now.Load()
	if in != nil && in.dials == s.dials.Load() {
		return in, nil
	}
	return s.see(ctx, p, in)
}

// see asks the partition's master who it is and sees to it that the scripts
// for that answer are loaded into it. Of those who come with the same stale
// knowledge, one asks.
func (s *Store) see(ctx context.Context, p seatflow.Partition, stale *incarnation) (*incarnation, error) {
	part := &s.partitions[p]
	select {
	case part.turn <- struct{}{}:
		defer func() { <-part.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	known := part.now.Load()
	if known != stale {
		return known, nil
	}
	in, err := s.load(ctx, p)
	if err != nil {
		return nil, err
	}
	part.now.Store(in)
	if known != nil && known.identity != in.identity {
		s.log.WarnContext(ctx, "the seat state's server is another one; its views must be rebuilt",
			"partition", p, "was", known.identity, "is", in.identity)
	}
	return in, nil
}

// seeAgain is see for who has reason to doubt what is known.
func (s *Store) seeAgain(ctx context.Context, p seatflow.Partition, doubted *incarnation) (*incarnation, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		in, err := s.see(ctx, p, doubted)
		if err == nil || errors.Is(err, errUnsuitable) {
			return in, err
		}
		if errWait := sleep(ctx, s.ctx, pause); errWait != nil {
			return nil, errors.Join(errWait, err)
		}
	}
}

// load reads who the partition's master is and loads the scripts, over one
// connection: a process has it from beginning to end, so that the identity in
// the text is that of the process that gets it.
func (s *Store) load(ctx context.Context, p seatflow.Partition) (*incarnation, error) {
	in := &incarnation{dials: s.dials.Load()}
	conn, release := s.client.Dedicate()
	defer release()
	ask := conn.B().Eval().Script(source("server")).Numkeys(1).Key(changesKey(p)).Build()
	about, err := conn.Do(ctx, ask).AsStrSlice()
	if err != nil {
		return nil, err
	}
	if in.identity, err = identify(about); err != nil {
		return nil, err
	}
	texts := s.texts(in.identity)
	exists := conn.B().ScriptExists()
	known := exists.Sha1(texts.sha[:]...).Build()
	there, err := conn.Do(ctx, known).AsIntSlice()
	if err != nil {
		return nil, err
	}
	in.sha = texts.sha
	for i, text := range texts.text {
		if i < len(there) && there[i] == 1 {
			continue
		}
		if err := conn.Do(ctx, conn.B().ScriptLoad().Script(text).Build()).Error(); err != nil {
			return nil, fmt.Errorf("redisseats: load script %s: %w", scripts[i].name, err)
		}
	}
	return in, nil
}

// identify makes an identity of what a server says of itself. The run id is
// another one in every process, the replication id after every promotion.
func identify(about []string) (string, error) {
	if len(about) != 6 || about[1] == "" {
		return "", fmt.Errorf("redisseats: a server says of itself %q", about)
	}
	run, replication, role, version, policy := about[1], about[2], about[3], about[4], about[5]
	if err := suitable(version, policy); err != nil {
		return "", err
	}
	if role != "master" {
		return "", errReplica
	}
	sum := sha256.Sum256([]byte(run + "/" + replication))
	return hex.EncodeToString(sum[:12]), nil
}

// errReplica: asked of a server that is not, or no longer, a master.
var errReplica = errors.New("redisseats: the server is a replica")

// texts is the scripts as they are for one identity.
type texts struct {
	identity string
	text     [scriptCount]string
	sha      [scriptCount]string
}

func (s *Store) texts(identity string) *texts {
	t := &texts{identity: identity}
	prelude := s.prelude(identity)
	for i := range scripts {
		t.text[i] = scripts[i].text(prelude)
		t.sha[i] = digest(t.text[i])
	}
	return t
}

// watch sees the servers again at intervals, and at once when a connection
// was opened.
func (s *Store) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		case <-s.dialed:
		}
		seen := make(map[string]bool)
		for p := range s.partitions {
			in := s.partitions[p].now.Load()
			if in == nil || seen[in.identity] {
				continue
			}
			seen[in.identity] = true
			s.lookAgain(seatflow.Partition(p), in)
		}
	}
}

// lookAgain sees a partition's server once more. When it is another one, all
// partitions that were there are to be seen again before their next call.
func (s *Store) lookAgain(p seatflow.Partition, was *incarnation) {
	ctx, cancel := context.WithTimeout(s.ctx, silence)
	defer cancel()
	in, err := s.see(ctx, p, was)
	if err != nil || in.identity == was.identity {
		return // calls will find out what is wrong
	}
	for i := range s.partitions {
		if at := s.partitions[i].now.Load(); at != nil && at.identity == was.identity {
			stale := *at
			stale.dials = 0
			s.partitions[i].now.CompareAndSwap(at, &stale)
		}
	}
}

// Identity implements [seatflow.SeatStore]. It asks the servers. In a Cluster
// every partition has an identity of its own, by its master; this one stands
// for all of them together.
func (s *Store) Identity(ctx context.Context) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	if !s.cluster {
		return s.identityOf(ctx, 0)
	}
	var names [seatflow.Partitions]string
	errs := make(chan error, len(names))
	for p := range names {
		go func() {
			var err error
			names[p], err = s.identityOf(ctx, seatflow.Partition(p))
			errs <- err
		}()
	}
	var failed error
	for range names {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	if failed != nil {
		return "", failed
	}
	all := sha256.New()
	for _, name := range names {
		all.Write([]byte(name))
	}
	return hex.EncodeToString(all.Sum(nil)[:12]), nil
}

// IdentityOf names the incarnation of the server that has a partition.
func (s *Store) IdentityOf(ctx context.Context, p seatflow.Partition) (string, error) {
	if err := checkPartition(p); err != nil {
		return "", err
	}
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	return s.identityOf(ctx, p)
}

func (s *Store) identityOf(ctx context.Context, p seatflow.Partition) (string, error) {
	r, err := s.read(ctx, p, scriptIdentity, []string{changesKey(p)}, nil)
	if err != nil {
		return "", err
	}
	return r.text(1), nil
}
