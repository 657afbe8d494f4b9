package conformance

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seatflow"
)

// plainLocker keeps leases in a map, without renewal of anything: a lease is
// there until it is released. Its flaws make it wrong.
type plainLocker struct {
	house  *plainHouse
	closed bool
	mine   []*plainLock
}

type plainHouse struct {
	flaw string
	mu   sync.Mutex
	held map[string]*plainLock
}

type plainLock struct {
	locker *plainLocker
	name   string
	cancel context.CancelCauseFunc
	stop   func() bool
	gone   bool
}

func (l *plainLocker) TryLock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	h := l.house
	if name == "" || lease < time.Second && h.flaw != "any lease will do" {
		return nil, nil, errors.New("no lease")
	}
	if ctx.Err() != nil && h.flaw != "ignores an ended context" {
		return nil, nil, errors.Join(ctx.Err(), context.Cause(ctx))
	}
	switch h.flaw {
	case "folds case":
		name = strings.ToLower(name)
	case "one name for all":
		name = "n"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.closed && h.flaw != "open for ever" {
		return nil, nil, errors.New("closed")
	}
	if h.held[name] != nil && h.flaw != "gives to all" {
		if h.flaw == "other words" {
			return nil, nil, errors.New("taken")
		}
		return nil, nil, seatflow.ErrLocked
	}
	k := &plainLock{locker: l, name: name}
	parent := ctx
	if h.flaw == "a context of its own" {
		ctx = context.Background()
	}
	ctx, k.cancel = context.WithCancelCause(ctx)
	k.stop = context.AfterFunc(parent, func() {
		switch h.flaw {
		case "keeps what is forgotten":
		case "ends with its parent":
			k.drop()
		default:
			time.AfterFunc(lease, k.drop)
		}
	})
	if h.flaw == "never renewed" {
		time.AfterFunc(lease, k.drop)
	}
	h.held[name] = k
	l.mine = append(l.mine, k)
	return ctx, k, nil
}

func (l *plainLocker) Lock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	for tries := 0; ; tries++ {
		got, lock, err := l.TryLock(ctx, name, lease)
		if err == nil || !errors.Is(err, seatflow.ErrLocked) && !strings.Contains(err.Error(), "taken") {
			return got, lock, err
		}
		if l.house.flaw == "does not wait" && tries > 0 {
			return nil, nil, err
		}
		if l.house.flaw == "waits for ever" {
			ctx = context.WithoutCancel(ctx)
		}
		select {
		case <-ctx.Done():
			return nil, nil, errors.Join(ctx.Err(), context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// drop takes a lease off the map, unless another stands there.
func (k *plainLock) drop() {
	h := k.locker.house
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.gone && h.flaw != "anybody releases" {
		return
	}
	k.gone = true
	if h.flaw != "the context lives on" {
		k.cancel(errors.New("released"))
	}
	k.stop()
	if h.held[k.name] == k || h.flaw == "anybody releases" {
		delete(h.held, k.name)
	}
}

func (k *plainLock) Release(ctx context.Context) error {
	switch k.locker.house.flaw {
	case "release is once":
		if k.gone {
			return errors.New("released already")
		}
	case "release wants a living context":
		if ctx.Err() != nil {
			return ctx.Err()
		}
	case "never released":
		k.cancel(errors.New("released"))
		return nil
	}
	k.drop()
	return nil
}

func (l *plainLocker) close() error {
	l.house.mu.Lock()
	l.closed = true
	mine := l.mine
	l.house.mu.Unlock()
	if l.house.flaw != "closes without releasing" {
		for _, k := range mine {
			k.drop()
		}
	}
	return nil
}

func plainLockers(flaw string) LockerFactory {
	return func(t TB) Lockers {
		h := &plainHouse{flaw: flaw, held: map[string]*plainLock{}}
		nodes := []*plainLocker{{house: h}, {house: h}}
		if flaw == "each node for itself" {
			nodes[1].house = &plainHouse{held: map[string]*plainLock{}}
		}
		t.Cleanup(func() { _, _ = nodes[0].close(), nodes[1].close() })
		return Lockers{Nodes: []seatflow.Locker{nodes[0], nodes[1]}, Lease: time.Second, Wait: time.Sleep,
			Lose: func(name string) {
				h.mu.Lock()
				k := h.held[name]
				h.mu.Unlock()
				if flaw == "loses unnoticed" {
					h.mu.Lock()
					delete(h.held, name)
					h.mu.Unlock()
					return
				}
				k.drop()
			},
			Close: func(i int) error { return nodes[i].close() }}
	}
}

// runLocker runs a case in a bubble and returns what it complained of.
func runLocker(t *testing.T, c lockerCase, factory LockerFactory) (complaints []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		complaints = observe(ctx, func(t TB) { c.check(t, factory) })
		time.Sleep(time.Hour) // whoever still waits at a closed locker leaves
	})
	return complaints
}

func TestPlainLockerPasses(t *testing.T) {
	for _, c := range lockerCases {
		for _, complaint := range runLocker(t, c, plainLockers("")) {
			t.Errorf("%s: %s", c.name, complaint)
		}
	}
}

func TestBrokenLockersAreNoticed(t *testing.T) {
	for flaw, by := range map[string]string{
		"gives to all":                   "one holder a name",
		"one name for all":               "one holder a name",
		"each node for itself":           "one holder a name",
		"other words":                    "one holder a name",
		"folds case":                     "strange names",
		"never released":                 "released",
		"release is once":                "released",
		"release wants a living context": "released",
		"the context lives on":           "released",
		"a context of its own":           "the context descends",
		"ends with its parent":           "the context descends",
		"anybody releases":               "only the holder releases",
		"does not wait":                  "waits its turn",
		"waits for ever":                 "stops waiting",
		"ignores an ended context":       "an ended context gets nothing",
		"never renewed":                  "kept beyond its length",
		"keeps what is forgotten":        "what is forgotten ends",
		"loses unnoticed":                "lost",
		"any lease will do":              "refuses what is no lease",
		"closes without releasing":       "closed",
		"open for ever":                  "closed",
	} {
		t.Run(flaw, func(t *testing.T) {
			for _, c := range lockerCases {
				if c.name == by {
					if len(runLocker(t, c, plainLockers(flaw))) == 0 {
						t.Errorf("the case %q did not notice", by)
					}
					return
				}
			}
			t.Fatalf("there is no case %q", by)
		})
	}
	// The race notices a second holder as well.
	for _, flaw := range []string{"gives to all", "each node for itself"} {
		t.Run(flaw+", raced", func(t *testing.T) {
			race := lockerCases[len(lockerCases)-1]
			if complaints := runLocker(t, race, plainLockers(flaw)); !strings.Contains(strings.Join(complaints, "\n"), "at once") {
				t.Errorf("the race saw no second holder: %v", complaints)
			}
		})
	}
}
