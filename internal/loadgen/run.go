package loadgen

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/go-json-experiment/json"

	"seatflow"
)

// Options say what load to make.
type Options struct {
	URL         string
	Shows       []seatflow.ShowID
	Scenario    Scenario
	Rate        float64                         // arrivals a second; 0: closed loop, as fast as the connections go
	Warmup      time.Duration                   // of the schedule's start; sent, but not measured
	Duration    time.Duration                   // measured
	Connections int                             // the bound of outstanding requests
	Timeout     time.Duration                   // of one request; default 10 s
	Drain       time.Duration                   // how long after the end late arrivals are still sent; default 5 s
	Buyers      int                             // tokens to mint; 0: enough for connections and purchase limit
	Mint        func(buyer int) (string, error) // makes a buyer's token; nil: the server's guest tokens
	RunName     string                          // start of every idempotency key; default random
	Acks        *AckLog
	Progress    func(done, total int64) // called now and then; total 0: closed loop
}

// arrivals returns how many requests the schedule has; 0 for a closed loop.
func (o *Options) arrivals() int64 {
	return int64(o.Rate * (o.Warmup + o.Duration).Seconds())
}

func (o *Options) check() error {
	known := false
	for _, s := range Scenarios {
		known = known || o.Scenario == s
	}
	switch {
	case !known:
		return fmt.Errorf("loadgen: unknown scenario %q; there are %v", o.Scenario, Scenarios)
	case len(o.Shows) == 0:
		return errors.New("loadgen: no show to load")
	case o.Rate < 0 || o.Rate > 1e6:
		return errors.New("loadgen: the rate must be between 0 and 1000000 a second")
	case o.Duration <= 0 || o.Duration > 24*time.Hour || o.Warmup < 0:
		return errors.New("loadgen: the duration must be more than nothing and at most a day")
	case o.Connections < 1 || o.Connections > 20_000:
		return errors.New("loadgen: between 1 and 20000 connections")
	}
	if o.Rate > 0 && o.arrivals() < 1 {
		return errors.New("loadgen: that rate has no arrival within the duration")
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Drain <= 0 {
		o.Drain = 5 * time.Second
	}
	if o.RunName == "" {
		o.RunName = rand.Text()[:12]
	}
	return nil
}

// Latency sums up the latencies of a kind of request in milliseconds, from
// the intended start to the end of the answer.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"meanMs"`
	P50   float64 `json:"p50Ms"`
	P90   float64 `json:"p90Ms"`
	P99   float64 `json:"p99Ms"`
	P999  float64 `json:"p999Ms"`
	Max   float64 `json:"maxMs"`
}

// Result is what came of a load. Counts are of the measured part, but Orders
// and Warmup, which are of the whole run.
type Result struct {
	Scenario    Scenario           `json:"scenario"`
	Rate        float64            `json:"rate"` // asked for; 0: closed loop
	Connections int                `json:"connections"`
	Seconds     float64            `json:"seconds"`    // from the first intended start to the last answer, measured part
	Throughput  float64            `json:"throughput"` // final answers a second
	Sent        int64              `json:"sent"`
	OK          int64              `json:"ok"`
	Conflicts   int64              `json:"conflicts"`      // seats taken
	Refused     int64              `json:"refused"`        // other business answers: limits, windows, states
	RateLimited int64              `json:"rateLimited"`    // 429
	Errors      int64              `json:"errors"`         // server errors and no answer at all, after every retry
	Retries     int64              `json:"retries"`        // requests sent again with the same key
	Missed      int64              `json:"missedSchedule"` // sent late, for want of a free connection
	Unsent      int64              `json:"unsent"`         // never sent: the run ended before
	RanOut      bool               `json:"ranOut"`         // no seat was left to ask for
	Warmup      int64              `json:"warmup"`         // requests before the measured part
	Orders      int64              `json:"orders"`         // acknowledged in the whole run
	Codes       map[string]int64   `json:"codes"`          // final answers by error code, "ok" or "no answer"
	Latency     map[string]Latency `json:"latency"`        // by kind: order, browse
	FirstErrors []string           `json:"firstErrors,omitempty"`
}

// lateBy is how late an arrival must begin to have missed its schedule. The
// timers of the operating system account for about one millisecond.
const lateBy = 5 * time.Millisecond

// sendTries is how often one request is sent with its key.
const sendTries = 4

// tally is one worker's measurements.
type tally struct {
	Result
	hist map[string]*hdrhistogram.Histogram
	last time.Time
}

func (t *tally) record(kind string, d time.Duration) {
	h := t.hist[kind]
	if h == nil {
		h = hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
		t.hist[kind] = h
	}
	_ = h.RecordValue(min(max(d.Microseconds(), 1), int64(10*time.Minute/time.Microsecond)))
}

// load is a run in progress.
type load struct {
	opt    Options
	script *script
	start  time.Time
	end    time.Time // of the schedule
	cut    time.Time // nothing is sent after it
	total  int64
	next   atomic.Int64
	done   atomic.Int64
	ranOut atomic.Bool
}

// Run prepares the houses and the buyers, makes the load and sums it up. It
// returns an error when it could not run at all or its log of
// acknowledgements failed; bad answers are in the result.
func Run(ctx context.Context, opt Options) (Result, error) {
	if err := opt.check(); err != nil {
		return Result{}, err
	}
	client, err := NewClient(opt.URL, 16)
	if err != nil {
		return Result{}, err
	}
	defer client.Close()
	script, err := prepare(ctx, client, &opt)
	if err != nil {
		return Result{}, err
	}
	l := &load{opt: opt, script: script, total: opt.arrivals()}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.start = time.Now().Add(10 * time.Millisecond)
	l.end = l.start.Add(opt.Warmup + opt.Duration)
	l.cut = l.end.Add(opt.Drain)

	tallies := make([]*tally, opt.Connections)
	errs := make([]error, opt.Connections)
	var workers, watch sync.WaitGroup
	for i := range tallies {
		tallies[i] = &tally{hist: map[string]*hdrhistogram.Histogram{}}
		tallies[i].Codes = map[string]int64{}
		workers.Go(func() {
			if errs[i] = l.work(ctx, tallies[i]); errs[i] != nil {
				cancel()
			}
		})
	}
	if opt.Progress != nil {
		watch.Go(func() {
			for sleep(ctx, 200*time.Millisecond) == nil {
				opt.Progress(l.done.Load(), l.total)
			}
		})
	}
	workers.Wait()
	cancel()
	watch.Wait()
	if opt.Progress != nil {
		opt.Progress(l.done.Load(), l.total)
	}
	res := l.sum(tallies)
	return res, errors.Join(append(errs, caller.Err())...)
}

// work is one connection: it takes the next arrival of the schedule, waits
// for its time, sends it and follows it to its final answer.
func (l *load) work(ctx context.Context, t *tally) error {
	c, err := newConn(l.opt.URL, l.opt.Timeout)
	if err != nil {
		return err
	}
	defer c.close()
	measured := l.start.Add(l.opt.Warmup)
	if sleep(ctx, time.Until(l.start)) != nil {
		return nil
	}
	var q request
	for ctx.Err() == nil {
		n := l.next.Add(1) - 1
		var due time.Time
		if l.opt.Rate > 0 {
			if n >= l.total {
				return nil
			}
			due = l.start.Add(time.Duration(float64(n) / l.opt.Rate * float64(time.Second)))
			if sleep(ctx, time.Until(due)) != nil {
				return nil
			}
		}
		now := time.Now()
		if l.opt.Rate == 0 {
			due = now
			if now.After(l.end) {
				return nil
			}
		}
		warm := due.Before(measured)
		if now.After(l.cut) {
			if !warm {
				t.Unsent++
			}
			continue
		}
		if !l.script.fill(&q, n) {
			l.ranOut.Store(true)
			return nil
		}
		if !warm && now.Sub(due) > lateBy {
			t.Missed++
		}
		if err := l.follow(ctx, c, t, &q, due, warm); err != nil {
			return err
		}
		l.done.Add(1)
	}
	return nil
}

// follow sends a request until its answer is final and counts it.
func (l *load) follow(ctx context.Context, c *conn, t *tally, q *request, due time.Time, warm bool) error {
	var a answer
	retries := int64(-1)
	err := again(ctx, sendTries, sleep, nil, func() error {
		retries++
		var err error
		if a, err = c.send(ctx, q); err != nil {
			return err
		}
		if a.status >= 400 {
			return apiError(a.status, a.retryAfter, a.body)
		}
		return nil
	})
	end := time.Now()
	if err != nil && ctx.Err() != nil {
		return nil // stopped by the caller: this one has no outcome
	}
	if err == nil && q.kind == kindOrder {
		t.Orders++
		if l.opt.Acks != nil {
			var o apiOrder
			if err := json.Unmarshal(a.body, &o); err != nil {
				return fmt.Errorf("loadgen: an acknowledged order could not be read: %w", err)
			}
			if err := l.opt.Acks.Add(o.ack("order")); err != nil {
				return err
			}
		}
	}
	if warm {
		t.Warmup++
		return nil
	}
	t.Sent++
	t.Retries += retries
	t.last = end
	t.record(q.kind, end.Sub(due))
	t.count(err)
	return nil
}

func (t *tally) count(err error) {
	var e *APIError
	switch {
	case err == nil:
		t.OK++
		t.Codes["ok"]++
		return
	case !errors.As(err, &e):
		t.Errors++
		t.Codes["no answer"]++
	default:
		t.Codes[fmt.Sprint(int(e.Code))]++
		switch {
		case e.Code == seatflow.CodeSeatsTaken:
			t.Conflicts++
			return
		case e.Status == 429:
			t.RateLimited++
			return
		case e.Status == 409 || e.Code >= 3000:
			t.Refused++
			return
		default:
			t.Errors++
		}
	}
	if len(t.FirstErrors) < 3 {
		t.FirstErrors = append(t.FirstErrors, err.Error())
	}
}

// sum adds the workers' tallies up.
func (l *load) sum(tallies []*tally) Result {
	res := Result{Scenario: l.opt.Scenario, Rate: l.opt.Rate, Connections: l.opt.Connections,
		RanOut: l.ranOut.Load(), Codes: map[string]int64{}, Latency: map[string]Latency{}}
	hist := map[string]*hdrhistogram.Histogram{}
	last := l.start.Add(l.opt.Warmup)
	begin := last
	for _, t := range tallies {
		res.Sent += t.Sent
		res.OK += t.OK
		res.Conflicts += t.Conflicts
		res.Refused += t.Refused
		res.RateLimited += t.RateLimited
		res.Errors += t.Errors
		res.Retries += t.Retries
		res.Missed += t.Missed
		res.Unsent += t.Unsent
		res.Warmup += t.Warmup
		res.Orders += t.Orders
		for code, n := range t.Codes {
			res.Codes[code] += n
		}
		if len(res.FirstErrors) < 3 {
			res.FirstErrors = append(res.FirstErrors, t.FirstErrors...)
		}
		for kind, h := range t.hist {
			if hist[kind] == nil {
				hist[kind] = h
			} else {
				hist[kind].Merge(h)
			}
		}
		if t.last.After(last) {
			last = t.last
		}
	}
	for kind, h := range maps.All(hist) {
		ms := func(v int64) float64 { return float64(v) / 1000 }
		res.Latency[kind] = Latency{Count: h.TotalCount(), Mean: h.Mean() / 1000, P50: ms(h.ValueAtQuantile(50)),
			P90: ms(h.ValueAtQuantile(90)), P99: ms(h.ValueAtQuantile(99)), P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max())}
	}
	if res.Seconds = last.Sub(begin).Seconds(); res.Seconds > 0 {
		res.Throughput = float64(res.Sent) / res.Seconds
	}
	return res
}
