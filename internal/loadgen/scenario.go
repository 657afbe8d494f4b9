package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"seatflow"
)

// Scenario names what a load asks for.
type Scenario string

// The scenarios.
const (
	Distinct Scenario = "distinct" // every order asks for another seat
	Hot      Scenario = "hot"      // every order asks for the same seat
	Mixed    Scenario = "mixed"    // nine of ten requests browse, one orders another seat
)

// Scenarios lists every scenario.
var Scenarios = [...]Scenario{Distinct, Hot, Mixed}

// The kinds of request, by which latencies are told.
const (
	kindOrder  = "order"
	kindBrowse = "browse"
)

// request is one request ready to be sent.
type request struct {
	kind   string
	method string
	path   string
	token  string
	key    string
	etag   string
	body   []byte // nil: none
	buf    []byte // of the body, used again
}

// place is a seat of a show.
type place struct {
	show seatflow.ShowID
	seat seatflow.SeatID
}

// script makes the n-th request of a scenario. It is safe for concurrent use
// with different requests to fill.
type script struct {
	scenario Scenario
	shows    []seatflow.ShowID
	seats    []place // to order, in this order
	tokens   []string
	run      string // makes keys of two runs differ
	paths    []string
}

// prepare reads the houses, which also has their views built before the clock
// starts, and mints the buyers' tokens.
func prepare(ctx context.Context, client *Client, opt *Options) (*script, error) {
	s := &script{scenario: opt.Scenario, shows: opt.Shows, run: opt.RunName}
	least := 0
	for _, id := range opt.Shows {
		show, err := client.show(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("loadgen: show %d: %w", id, err)
		}
		if show.Limit > 0 && (least == 0 || show.Limit < least) {
			least = show.Limit
		}
		states, err := client.seatMap(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("loadgen: the seats of show %d: %w", id, err)
		}
		for i := range len(states) {
			if seatflow.SeatState(states[i]) == seatflow.Available {
				s.seats = append(s.seats, place{id, seatflow.SeatID(i + 1)})
			}
		}
		s.paths = append(s.paths, showPath(id, "/seats?form=compact"), showPath(id, ""))
	}
	s.paths = append(s.paths, "/api/v1/shows")
	if len(s.seats) == 0 {
		return nil, fmt.Errorf("loadgen: no seat of shows %v is available", opt.Shows)
	}
	if s.scenario == Hot {
		s.seats = s.seats[:1]
	}
	buyers := opt.Buyers
	if buyers == 0 {
		buyers = opt.Connections
		if least > 0 && s.scenario != Hot {
			orders := s.orders(opt.arrivals())
			buyers = max(buyers, int(min(orders, int64(len(s.seats))))/least+1)
		}
	}
	for len(s.tokens) < buyers {
		if opt.Mint != nil {
			token, err := opt.Mint(len(s.tokens) + 1)
			if err != nil {
				return nil, fmt.Errorf("loadgen: a buyer's token: %w", err)
			}
			s.tokens = append(s.tokens, token)
			continue
		}
		var g guest
		err := again(ctx, tries, sleep, nil, func() (err error) {
			g, err = client.guest(ctx)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("loadgen: a guest's token: %w", err)
		}
		s.tokens = append(s.tokens, g.Token)
	}
	return s, nil
}

// orders tells how many of n arrivals are orders.
func (s *script) orders(n int64) int64 {
	if s.scenario == Mixed {
		return (n + 9) / 10
	}
	return n
}

// fill makes the n-th request, and reports false when the scenario has come
// to its end: no seat is left that nobody asked for.
func (s *script) fill(q *request, n int64) bool {
	if s.scenario == Mixed {
		if n%10 != 0 {
			b := n - n/10 - 1 // the b-th look
			*q = request{kind: kindBrowse, method: http.MethodGet, path: s.paths[b%int64(len(s.paths))], buf: q.buf}
			return true
		}
		n /= 10
	}
	at := s.seats[0]
	if s.scenario != Hot {
		if n >= int64(len(s.seats)) {
			return false
		}
		at = s.seats[n]
	}
	body := append(q.buf[:0], `{"showId":`...)
	body = strconv.AppendInt(body, int64(at.show), 10)
	body = append(body, `,"seats":[`...)
	body = strconv.AppendInt(body, int64(at.seat), 10)
	body = append(body, `]}`...)
	*q = request{kind: kindOrder, method: http.MethodPost, path: "/api/v1/orders",
		token: s.tokens[n%int64(len(s.tokens))], key: s.run + "-" + strconv.FormatInt(n, 36), body: body, buf: body}
	return true
}
