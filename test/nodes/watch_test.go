package nodes_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/app"
)

// watcher follows a show's map by server-sent events, on one node after
// another, and applies what it is told as a client does: a snapshot replaces,
// an update must come next.
type watcher struct {
	d    *deployment
	show int
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	states   []byte
	revision string
	updates  int
	forks    []string
}

func (d *deployment) watch(show int) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{d: d, show: show, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for i := 0; ctx.Err() == nil; i++ {
			w.follow(ctx, client, d.nodes[i%len(d.nodes)].url)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	d.t.Cleanup(func() { cancel(); <-w.done })
	return w
}

func (w *watcher) follow(ctx context.Context, client *http.Client, base string) {
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/api/v1/shows/%d/events", base, w.show), nil)
	if err != nil {
		return
	}
	w.mu.Lock()
	if w.revision != "" {
		req.Header.Set("Last-Event-ID", w.revision)
	}
	w.mu.Unlock()
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var event, id string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			event = value
		case "id":
			id = value
		case "data":
			w.apply(event, id, []byte(value))
		}
	}
}

// position is the revision of the watcher's map, "" before it has one.
func (w *watcher) position() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision
}

func (w *watcher) apply(event, id string, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch event {
	case "snapshot":
		var m struct {
			States string `json:"states"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			w.forks = append(w.forks, err.Error())
			return
		}
		w.states, w.revision = []byte(m.States), id
	case "update":
		var u struct {
			Updates []struct {
				SeatID int    `json:"seatId"`
				Status string `json:"status"`
			} `json:"updates"`
		}
		if err := json.Unmarshal(data, &u); err != nil {
			w.forks = append(w.forks, err.Error())
			return
		}
		from, err1 := seatflow.ParseRevision(w.revision)
		to, err2 := seatflow.ParseRevision(id)
		if err1 != nil || err2 != nil || to.Generation != from.Generation || to.Number <= from.Number {
			w.forks = append(w.forks, fmt.Sprintf("update %s after %s", id, w.revision))
		}
		for _, s := range u.Updates {
			w.states[s.SeatID-1] = map[string]byte{"available": '0', "held": '1', "sold": '2', "blocked": 'x'}[s.Status]
		}
		w.revision = id
		w.updates++
	}
}

// converges waits until the map is the view's and fails if an update ever came
// out of turn.
func (w *watcher) converges() {
	w.d.t.Helper()
	dep, err := app.OpenDeployment(w.d.t.Context(), w.d.factsURL, w.d.viewURL)
	if err != nil {
		w.d.t.Fatal(err)
	}
	defer dep.Close()
	show, err := dep.Ledger.Show(w.d.t.Context(), seatflow.ShowID(w.show))
	if err != nil {
		w.d.t.Fatal(err)
	}
	var view, seen string
	waitForOr(w.d.t, 45*time.Second, func() bool {
		snap, err := dep.Seats.Snapshot(w.d.t.Context(), show.Ref(), seatflow.DetailStates)
		if err != nil || snap == nil {
			return false
		}
		b := make([]byte, len(snap.States))
		for i, s := range snap.States {
			b[i] = byte(s)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		view, seen = snap.Revision.String()+" "+string(b), w.revision+" "+string(w.states)
		return view == seen
	}, func() {
		w.d.t.Errorf("a watcher did not converge:\nview %s\nseen %s", view, seen)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.forks) > 0 {
		w.d.t.Errorf("%d updates out of turn, first %s", len(w.forks), w.forks[0])
	}
	if w.updates == 0 {
		w.d.t.Error("a watcher heard of no change")
	}
}

func waitForOr(t testing.TB, limit time.Duration, so func() bool, otherwise func()) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(limit)
	defer end.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end.C:
			otherwise()
			return
		}
	}
}
