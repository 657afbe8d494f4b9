package live

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"seatflow"
)

// fakeStore is the two reading verbs of a seat store over houses that a test
// changes as it likes. Any other verb panics on the nil port inside.
type fakeStore struct {
	seatflow.SeatStore

	mu       sync.Mutex
	moved    chan struct{} // closed and replaced when the log grows
	identity string
	houses   map[seatflow.ShowID]*fakeHouse
	log      []seatflow.Change
	trimmed  int // changes dropped from the front of the log
	lives    int

	failChanges, failSnapshots int // so many calls fail
	reads, snapshots           int

	past map[string]bool // every house that ever was
}

type fakeHouse struct {
	rev    seatflow.Revision
	states []seatflow.SeatState
	ready  bool
}

func newFakeStore() *fakeStore {
	return &fakeStore{moved: make(chan struct{}), identity: "life0", houses: make(map[seatflow.ShowID]*fakeHouse), past: make(map[string]bool)}
}

// remember notes a house as it is now.
func (s *fakeStore) remember(show seatflow.ShowID) {
	h := s.houses[show]
	s.past[fmt.Sprintf("%d %s %s", show, h.rev, stateBytes(h.states))] = true
}

// was reports whether a house ever was like that.
func (s *fakeStore) was(show seatflow.ShowID, rev, states string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past[fmt.Sprintf("%d %s %s", show, rev, states)]
}

// open adds a house of free seats at revision 1.0.
func (s *fakeStore) open(show seatflow.ShowID, seats int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]seatflow.SeatState, seats)
	for i := range states {
		states[i] = seatflow.Available
	}
	s.houses[show] = &fakeHouse{rev: seatflow.Revision{Generation: 1}, states: states, ready: true}
	s.remember(show)
}

func (s *fakeStore) append(c seatflow.Change) {
	s.log = append(s.log, c)
	close(s.moved)
	s.moved = make(chan struct{})
}

// change sets seats to one state in one change.
func (s *fakeStore) change(show seatflow.ShowID, to seatflow.SeatState, seats ...seatflow.SeatID) seatflow.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.houses[show]
	h.rev.Number++
	c := seatflow.Change{Show: show, Revision: h.rev, Verb: seatflow.VerbRepair, At: time.Now()}
	for _, id := range seats {
		from := h.states[id-1]
		h.states[id-1] = to
		c.Seats = append(c.Seats, seatflow.SeatChange{Seat: id, State: to, Delta: to.Occupied() - from.Occupied()})
	}
	s.append(c)
	s.remember(show)
	return h.rev
}

// rebuild raises the generation; the house stays as it is.
func (s *fakeStore) rebuild(show seatflow.ShowID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.houses[show]
	h.rev = seatflow.Revision{Generation: h.rev.Generation + 1}
	h.ready = true
	s.append(seatflow.Change{Show: show, Revision: h.rev, Verb: seatflow.VerbRebuild, At: time.Now()})
	s.remember(show)
}

// lose makes the view of a show not ready.
func (s *fakeStore) lose(show seatflow.ShowID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.houses[show].ready = false
}

// restart makes the store another incarnation, which has no view and has
// forgotten its log.
func (s *fakeStore) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives++
	s.identity = "life" + strconv.Itoa(s.lives)
	s.log, s.trimmed = nil, 0
	for _, h := range s.houses {
		h.ready = false
	}
	close(s.moved)
	s.moved = make(chan struct{})
}

// trim drops the whole log.
func (s *fakeStore) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimmed += len(s.log)
	s.log = nil
}

// skip moves a house on without telling anyone.
func (s *fakeStore) skip(show seatflow.ShowID, to seatflow.SeatState, seat seatflow.SeatID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.houses[show].rev.Number++
	s.houses[show].states[seat-1] = to
	s.remember(show)
}

// see returns a house as it is.
func (s *fakeStore) see(show seatflow.ShowID) (seatflow.Revision, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.houses[show]
	return h.rev, string(stateBytes(h.states))
}

func (s *fakeStore) identityNow() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity
}

// calls returns how many reads of changes and snapshots were asked for.
func (s *fakeStore) calls() (reads, snapshots int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.snapshots
}

// ensure rebuilds a view that is not ready.
func (s *fakeStore) ensure(_ context.Context, show seatflow.ShowID) error {
	s.mu.Lock()
	ready := s.houses[show].ready
	s.mu.Unlock()
	if !ready {
		s.rebuild(show)
	}
	return nil
}

func (s *fakeStore) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fakeStore) Snapshot(ctx context.Context, ref seatflow.ShowRef, _ seatflow.Detail) (*seatflow.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots++
	if s.failSnapshots > 0 {
		s.failSnapshots--
		return nil, fmt.Errorf("fake: %w", seatflow.ErrNotExecuted)
	}
	h := s.houses[ref.ID]
	if h == nil {
		return &seatflow.Snapshot{Show: ref.ID, Identity: s.identity}, nil // past its lifetime
	}
	if !h.ready {
		return nil, fmt.Errorf("fake: %w", seatflow.ErrNotReady)
	}
	return &seatflow.Snapshot{Show: ref.ID, Revision: h.rev, Identity: s.identity, States: slices.Clone(h.states)}, nil
}

// Changes has positions of the form identity:count.
func (s *fakeStore) Changes(ctx context.Context, req seatflow.ChangesRequest) (seatflow.ChangeBatch, error) {
	end := time.NewTimer(req.Wait)
	defer end.Stop()
	for {
		s.mu.Lock()
		s.reads++
		if s.failChanges > 0 {
			s.failChanges--
			s.mu.Unlock()
			return seatflow.ChangeBatch{}, fmt.Errorf("fake: %w", seatflow.ErrNotExecuted)
		}
		at := func(n int) seatflow.Position { return seatflow.Position(s.identity + ":" + strconv.Itoa(n)) }
		newest := s.trimmed + len(s.log)
		from := newest
		if req.After != seatflow.PositionNow {
			life, n, _ := strings.Cut(string(req.After), ":")
			if life != s.identity {
				b := seatflow.ChangeBatch{Identity: s.identity, Next: at(newest)}
				s.mu.Unlock()
				return b, nil
			}
			from, _ = strconv.Atoi(n)
		}
		b := seatflow.ChangeBatch{Identity: s.identity}
		if from < s.trimmed {
			from, b.Trimmed = s.trimmed, true
		}
		b.Changes = slices.Clone(s.log[from-s.trimmed:])
		if req.Limit > 0 && len(b.Changes) > req.Limit {
			b.Changes = b.Changes[:req.Limit]
		}
		b.Next = at(from + len(b.Changes))
		moved := s.moved
		s.mu.Unlock()
		if len(b.Changes) > 0 || b.Trimmed || req.Wait == 0 {
			return b, nil
		}
		select {
		case <-moved:
		case <-end.C:
			return b, nil
		case <-ctx.Done():
			return seatflow.ChangeBatch{}, ctx.Err()
		}
	}
}

// fakeHouses finds every show up to a number.
type fakeHouses int

func (n fakeHouses) House(_ context.Context, show seatflow.ShowID) (*seatflow.House, error) {
	if show < 1 || int(show) > int(n) {
		return nil, seatflow.ErrNotFound
	}
	return &seatflow.House{Show: seatflow.Show{
		ID: show, Hall: 7, Partition: seatflow.Partition(show % 2), Ends: time.Now().Add(time.Hour),
	}}, nil
}

// running returns a hub over the store that runs until the test (or the
// returned function, whichever is first) ends it.
func running(t testing.TB, s *fakeStore, change func(*Options)) (*Hub, func()) {
	t.Helper()
	opt := Options{Seats: s, Houses: fakeHouses(8), Ensure: s.ensure, Node: "n1"}
	if change != nil {
		change(&opt)
	}
	h := New(opt)
	return h, run(t, h)
}

func run(t testing.TB, h *Hub) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
