package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seatflow"
	"seatflow/internal/sabotage"
	"seatflow/internal/telemetry"
)

// Defaults and limits.
const (
	// DefaultInterval is the pause between two rounds.
	DefaultInterval = 5 * time.Minute
	// DefaultShows is how many shows a scheduled round takes: about two
	// seconds' work when all is well.
	DefaultShows = 1000
	// DefaultLimit is how many repairs a round makes under one check. The rest
	// comes in the next: a mistake here must not empty a house.
	DefaultLimit = 100

	overdue      = time.Minute      // check 1: how long a guardian has
	lease        = 30 * time.Second // on a show; renewed while it is worked on
	looksMost    = 8                // at one show in a round
	failsMost    = 5                // shows in a row that cannot be read, before a round gives up
	auditMost    = 10_000           // rows that wait for the audit table
	believeAfter = 200 * time.Millisecond
)

// Ledger is all that a reconciler may ask of the facts, and all that it may
// do to them: make the absence of an order a fact.
type Ledger interface {
	Show(ctx context.Context, id seatflow.ShowID) (seatflow.Show, error)
	Shows(ctx context.Context, after seatflow.ShowID, endAfter time.Time, limit int) ([]seatflow.Show, error)
	Facts(ctx context.Context, show seatflow.ShowID) (seatflow.Facts, error)
	Order(ctx context.Context, no seatflow.OrderNo, user seatflow.UserID) (seatflow.Order, error)
	History(ctx context.Context, no seatflow.OrderNo) ([]seatflow.OrderEvent, error)
	VoidOrder(ctx context.Context, no seatflow.OrderNo, show seatflow.ShowID, actor seatflow.Actor) (seatflow.Order, error)
	seatflow.Repairs
}

// Booking is the life of orders, which expires them and builds views;
// *booking.Service does.
type Booking interface {
	Settle(ctx context.Context, due seatflow.DueHold) error
	// Rebuild replaces a view whatever is there, EnsureView builds one unless
	// one is there.
	Rebuild(ctx context.Context, show seatflow.ShowID) error
	EnsureView(ctx context.Context, show seatflow.ShowID) error
}

// Houses gives the shows with their plans; *catalog.Service does.
type Houses interface {
	House(ctx context.Context, id seatflow.ShowID) (*seatflow.House, error)
}

// Options are what a Reconciler needs.
type Options struct {
	Seats   seatflow.SeatStore
	Ledger  Ledger
	Booking Booking
	Houses  Houses
	// Locker gives the lease on a show; nil: one of this Reconciler's own.
	Locker seatflow.Locker
	// Clock says how old a row of the ledger is, and which shows are on sale;
	// nil: the wall clock. How old a hold is, the seat store says.
	Clock seatflow.Clock
	// Interval is the pause between two rounds; 0: only on demand.
	Interval time.Duration
	Grace    time.Duration // 0: seatflow.ReconcileGrace
	Shows    int           // in a scheduled round; 0: DefaultShows
	Limit    int           // repairs a check a round; 0: DefaultLimit
	Log      *slog.Logger
	Metrics  *telemetry.Metrics
}

// Reconciler makes views agree with the facts. Its methods may be called
// concurrently.
type Reconciler struct {
	o       Options
	pause   time.Duration // before a view is believed to be beyond mending
	running atomic.Bool

	mu      sync.Mutex
	seen    map[seatflow.ShowID]sightings
	failing map[seatflow.ShowID]time.Time // shows that could not be checked, since when
	unsaved []seatflow.RepairRecord       // rows that the ledger did not take yet
}

// New returns a Reconciler that does nothing until it is run or asked.
func New(o Options) *Reconciler {
	if o.Locker == nil {
		o.Locker = &localLocker{held: map[string]bool{}}
	}
	if o.Clock == nil {
		o.Clock = seatflow.WallClock{}
	}
	if o.Grace <= 0 {
		o.Grace = seatflow.ReconcileGrace
	}
	if o.Shows <= 0 {
		o.Shows = DefaultShows
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = telemetry.NewMetrics()
	}
	return &Reconciler{o: o, pause: believeAfter, seen: map[seatflow.ShowID]sightings{}, failing: map[seatflow.ShowID]time.Time{}}
}

// grace is the age below which nothing is judged: it may be under way.
func (r *Reconciler) grace() time.Duration {
	if sabotage.On(sabotage.NoGrace) {
		return 0
	}
	return r.o.Grace
}

// Run makes rounds at a fixed delay until the context ends; without an
// interval it only waits for that. The first round comes once everything that
// was under way when this process started is old enough to be judged. A second
// Run while one is under way is refused.
func (r *Reconciler) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("reconcile: runs already")
	}
	defer r.running.Store(false)
	if r.o.Interval <= 0 {
		<-ctx.Done()
		return nil
	}
	timer := time.NewTimer(min(r.o.Interval, r.o.Grace))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		// What went wrong is in the log already; it is tried again.
		_, _ = r.Round(ctx, RoundOptions{Shows: r.o.Shows})
		timer.Reset(r.o.Interval)
	}
}

// RoundOptions say what a round looks at.
type RoundOptions struct {
	Show   seatflow.ShowID // 0: every show whose view is expected
	DryRun bool            // report, and change nothing
	Shows  int             // with Show 0: at most so many, the next ones in rotation; 0: all
}

// Round looks at one show, or at several one after another, and repairs what
// it finds. The report tells what was done even when there is an error, which
// says what could not be looked at.
func (r *Reconciler) Round(ctx context.Context, o RoundOptions) (Report, error) {
	began := time.Now()
	rep := Report{ID: rand.Text(), At: r.o.Clock.Now(), DryRun: o.DryRun, budget: map[seatflow.Drift]int{}}
	for _, d := range seatflow.Drifts {
		rep.budget[d] = r.o.Limit
		rep.Checks = append(rep.Checks, CheckReport{Number: d.Number(), Check: d})
	}
	if !o.DryRun {
		r.save(ctx, nil)
	}
	err := r.round(ctx, o, &rep)
	rep.Took = time.Since(began)
	rep.TookMs = rep.Took.Milliseconds()
	r.tell(ctx, &rep, err)
	return rep, err
}

func (r *Reconciler) round(ctx context.Context, o RoundOptions, rep *Report) error {
	if o.Show != 0 {
		show, err := r.o.Ledger.Show(ctx, o.Show)
		if err != nil {
			return fmt.Errorf("reconcile: show %d: %w", o.Show, err)
		}
		return r.work(ctx, []seatflow.Show{show}, rep).err
	}
	if o.Shows > 0 && !o.DryRun {
		return r.rotate(ctx, o.Shows, rep)
	}
	var after seatflow.ShowID
	var errs []error
	const page = 500
	for n := o.Shows; ; {
		shows, err := r.o.Ledger.Shows(ctx, after, r.endAfter(), page)
		if err != nil {
			return fmt.Errorf("reconcile: list shows: %w", err)
		}
		last := len(shows) < page
		if o.Shows > 0 && len(shows) >= n {
			shows, last = shows[:n], true
		}
		n -= len(shows)
		w := r.work(ctx, shows, rep)
		if w.err != nil {
			errs = append(errs, w.err)
		}
		if last || w.done < len(shows) {
			return errors.Join(errs...)
		}
		after = shows[len(shows)-1].ID
	}
}

// endAfter is the end of the shows whose views have just outlived their time.
func (r *Reconciler) endAfter() time.Time { return r.o.Clock.Now().Add(-seatflow.ViewAfterEnd) }

// rotate works on the next shows in rotation.
func (r *Reconciler) rotate(ctx context.Context, n int, rep *Report) error {
	shows, before, after, err := r.claim(ctx, n)
	if err != nil {
		return err
	}
	w := r.work(ctx, shows, rep)
	if w.done < len(shows) {
		// Ended early: what was not looked at comes first next time, unless
		// another node has gone on from here.
		back := after
		back.After, back.Began, back.Before = before.After, before.Began, before.Before
		if w.done > 0 {
			back.After, back.Began, back.Before = shows[w.done-1].ID, after.Began, after.Before
		}
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seatflow.LedgerDeadline)
		defer cancel()
		moved, err := r.o.Ledger.MoveRotation(dctx, back)
		if err == nil {
			after = moved
		} else if !errors.Is(err, seatflow.ErrWrongState) {
			r.o.Log.WarnContext(ctx, "the rotation could not be set back; the shows left out wait for the next lap", "err", err)
		}
	}
	r.o.Metrics.UncheckedSince(r.uncheckedSince(after))
	return w.err
}

// claim moves the rotation on over the next shows, which are the caller's to
// work on. It is moved first, so that several nodes share a lap.
func (r *Reconciler) claim(ctx context.Context, n int) (shows []seatflow.Show, before, after seatflow.Rotation, err error) {
	const tries = 50 // races with other nodes
	for range tries {
		before, err = r.o.Ledger.Rotation(ctx)
		if err != nil {
			return nil, before, after, fmt.Errorf("reconcile: %w", err)
		}
		shows, err = r.o.Ledger.Shows(ctx, before.After, r.endAfter(), n)
		if err != nil {
			return nil, before, after, fmt.Errorf("reconcile: list shows: %w", err)
		}
		from := before
		if len(shows) == 0 && before.After != 0 { // the lap ended exactly there
			from.After = 0
			if shows, err = r.o.Ledger.Shows(ctx, 0, r.endAfter(), n); err != nil {
				return nil, before, after, fmt.Errorf("reconcile: list shows: %w", err)
			}
		}
		next := from
		if from.After == 0 {
			next.Before, next.Began = before.Began, r.o.Clock.Now()
		}
		next.After = 0
		if len(shows) == n {
			next.After = shows[n-1].ID
		}
		after, err = r.o.Ledger.MoveRotation(ctx, next)
		if !errors.Is(err, seatflow.ErrWrongState) {
			if err != nil {
				return nil, before, after, fmt.Errorf("reconcile: %w", err)
			}
			return shows, before, after, nil
		}
	}
	return nil, before, after, fmt.Errorf("reconcile: %w after %d tries to move the rotation", seatflow.ErrWrongState, tries)
}

// uncheckedSince is the earliest time at which some show may have been checked
// last.
func (r *Reconciler) uncheckedSince(at seatflow.Rotation) time.Time {
	since := at.Before
	if at.After == 0 || since.IsZero() {
		since = at.Began // the lap is complete, or the first one
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.failing {
		if t.Before(since) {
			since = t
		}
	}
	return since
}

// worked tells how far a list of shows was worked through.
type worked struct {
	done int
	err  error
}

// work looks at shows one after another. One that fails does not stop the
// others, unless several in a row do: then a backend is away.
func (r *Reconciler) work(ctx context.Context, shows []seatflow.Show, rep *Report) worked {
	var errs []error
	inARow := 0
	for i := range shows {
		if err := ctx.Err(); err != nil {
			return worked{i, errors.Join(append(errs, fmt.Errorf("reconcile: stopped: %w", err))...)}
		}
		err := r.one(ctx, &shows[i], rep)
		r.mark(shows[i].ID, err)
		switch {
		case err == nil:
			inARow = 0
			continue
		case errors.Is(err, seatflow.ErrLocked):
			inARow = 0
			rep.Skipped = append(rep.Skipped, Skipped{Show: shows[i].ID, Why: "another node is at it"})
			r.o.Metrics.ReconcileShows.Inc("locked")
			r.o.Log.WarnContext(ctx, "reconcile: show skipped; another node is at it", "show", shows[i].ID)
			continue
		}
		inARow++
		rep.Skipped = append(rep.Skipped, Skipped{Show: shows[i].ID, Why: err.Error()})
		r.o.Metrics.ReconcileShows.Inc("failed")
		errs = append(errs, fmt.Errorf("reconcile: show %d: %w", shows[i].ID, err))
		if inARow >= failsMost {
			return worked{i + 1, errors.Join(errs...)} // not before them, or they would hold up the lap for ever
		}
	}
	return worked{len(shows), errors.Join(errs...)}
}

// mark remembers since when a show could not be checked. One that another node
// is at is being checked.
func (r *Reconciler) mark(show seatflow.ShowID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || errors.Is(err, seatflow.ErrLocked) {
		delete(r.failing, show)
	} else if _, known := r.failing[show]; !known {
		r.failing[show] = r.o.Clock.Now()
	}
}

// one works on a show under its lease. A dry run needs none.
func (r *Reconciler) one(ctx context.Context, show *seatflow.Show, rep *Report) (err error) {
	if !rep.DryRun {
		locked, lock, err := r.o.Locker.TryLock(ctx, fmt.Sprintf("lock:reconcile:%d", show.ID), lease)
		if err != nil {
			return err
		}
		defer func() {
			dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seatflow.LedgerDeadline)
			defer cancel()
			if err := lock.Release(dctx); err != nil {
				r.o.Log.DebugContext(ctx, "reconcile: the lease was not given back; it runs out", "show", show.ID, "err", err)
			}
		}()
		ctx = locked
	}
	p := pass{r: r, rep: rep, show: show.ID, fixed: map[seatflow.Drift]int{}, mine: map[seatflow.SeatID]sight{},
		ended: map[seatflow.Owner]bool{}}
	err = p.run(ctx)
	if rows := p.rows; len(rows) > 0 && !rep.DryRun {
		r.save(ctx, rows)
	}
	rep.Shows++
	return err
}

// save writes rows to the audit table together with those that it did not take
// before.
func (r *Reconciler) save(ctx context.Context, rows []seatflow.RepairRecord) {
	r.mu.Lock()
	all := append(r.unsaved, rows...)
	r.unsaved = nil
	r.mu.Unlock()
	if len(all) == 0 {
		return
	}
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seatflow.LedgerDeadline)
	defer cancel()
	err := r.o.Ledger.RecordRepairs(dctx, all)
	if err == nil {
		return
	}
	r.o.Log.WarnContext(ctx, "reconcile: repairs could not be written to the audit table yet", "rows", len(all), "err", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved = append(all, r.unsaved...)
	if most := auditMost; len(r.unsaved) > most {
		r.unsaved = r.unsaved[len(r.unsaved)-most:]
	}
}

// tell counts and logs a round.
func (r *Reconciler) tell(ctx context.Context, rep *Report, err error) {
	r.o.Metrics.ReconcileRound(rep.Took)
	level := slog.LevelDebug
	if rep.Fixed() > 0 || len(rep.Skipped) > 0 {
		level = slog.LevelInfo
	}
	if err != nil || len(rep.Alarms) > 0 {
		level = slog.LevelWarn
	}
	attrs := []any{"round", rep.ID, "shows", rep.Shows, "fixed", rep.Fixed(), "left", rep.Left(), "young", rep.Young(),
		"skipped", len(rep.Skipped), "alarms", len(rep.Alarms), "dryRun", rep.DryRun, "took", rep.Took}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	r.o.Log.Log(ctx, level, "reconcile: round", attrs...)
}

// localLocker gives the leases of a process that is alone.
type localLocker struct {
	mu   sync.Mutex
	held map[string]bool
}

type localLock struct {
	of   *localLocker
	name string
	end  context.CancelFunc
	once sync.Once
}

// TryLock implements [seatflow.Locker].
func (l *localLocker) TryLock(ctx context.Context, name string, _ time.Duration) (context.Context, seatflow.Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, nil, seatflow.ErrLocked
	}
	l.held[name] = true
	held, end := context.WithCancel(ctx)
	return held, &localLock{of: l, name: name, end: end}, nil
}

// Lock implements [seatflow.Locker]: nobody here waits.
func (l *localLocker) Lock(ctx context.Context, name string, lease time.Duration) (context.Context, seatflow.Lock, error) {
	return l.TryLock(ctx, name, lease)
}

// Release implements [seatflow.Lock].
func (k *localLock) Release(context.Context) error {
	k.once.Do(func() {
		k.end()
		k.of.mu.Lock()
		defer k.of.mu.Unlock()
		delete(k.of.held, k.name)
	})
	return nil
}
