package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// APIError is an answer of the server that is not a success.
type APIError struct {
	Status     int               `json:"status"`
	Code       seatflow.Code     `json:"code"`
	Title      string            `json:"title"`
	Detail     string            `json:"detail"`
	Reason     string            `json:"reason"`
	Seats      []seatflow.SeatID `json:"seats"`
	Available  []seatflow.SeatID `json:"available"`
	Left       int               `json:"left"`
	RetryAfter time.Duration     `json:"-"`
}

// Error implements error.
func (e *APIError) Error() string {
	return fmt.Sprintf("loadgen: %d, error %d: %s %s", e.Status, e.Code, e.Title, e.Detail)
}

// temporary reports whether the same request should be sent again: the
// server said "not now", or nobody knows what became of it.
func temporary(err error) bool {
	var e *APIError
	if errors.As(err, &e) {
		return e.Status == http.StatusServiceUnavailable || e.Status == http.StatusTooManyRequests ||
			e.Status == http.StatusGatewayTimeout || e.Status == http.StatusBadGateway || e.Code == seatflow.CodeInFlight
	}
	return !errors.Is(err, context.Canceled)
}

// codeOf returns the code of an answer, 0 for a failure without one.
func codeOf(err error) seatflow.Code {
	var e *APIError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Client speaks the public API. It may be used concurrently.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client of the server at a base URL that keeps at most
// that many connections.
func NewClient(base string, connections int) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("loadgen: %q is not the URL of a server", base)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxIdleConnsPerHost = connections
	t.MaxConnsPerHost = connections
	return &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{Transport: t, Timeout: 30 * time.Second}}, nil
}

// HTTP returns the client's own HTTP client.
func (c *Client) HTTP() *http.Client { return c.http }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call sends one request and decodes its answer into out (nil: dropped).
// Headers come in pairs. A refusal is an *APIError.
func (c *Client) call(ctx context.Context, method, path, token string, in, out any, headers ...string) (http.Header, error) {
	var body io.Reader
	switch v := in.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(v)
	default:
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("loadgen: encode %s: %w", path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("loadgen: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("loadgen: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("loadgen: read the answer to %s: %w", path, err)
	}
	if resp.StatusCode == http.StatusNotModified {
		return resp.Header, &APIError{Status: resp.StatusCode}
	}
	if resp.StatusCode >= 300 {
		return resp.Header, apiError(resp.StatusCode, resp.Header.Get("Retry-After"), b)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			return resp.Header, fmt.Errorf("loadgen: the answer to %s %s could not be read: %w", method, path, err)
		}
	}
	return resp.Header, nil
}

func apiError(status int, retryAfter string, body []byte) *APIError {
	e := &APIError{}
	if json.Unmarshal(body, e) != nil {
		e = &APIError{Title: string(body[:min(len(body), 200)])}
	}
	e.Status = status
	if s, err := strconv.Atoi(retryAfter); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// again runs a request until it is answered for good: a few more times while
// the failure is temporary, waiting as the server asked or a growing while.
// The request must be safe to repeat.
func again(ctx context.Context, tries int, wait func(context.Context, time.Duration) error, retried func(), request func() error) error {
	const longest = 3 * time.Second
	for n := 0; ; n++ {
		err := request()
		if err == nil || n+1 >= tries || ctx.Err() != nil || !temporary(err) {
			return err
		}
		if retried != nil {
			retried()
		}
		d := 50 * time.Millisecond << min(n, 10)
		var e *APIError
		if errors.As(err, &e) && e.RetryAfter > 0 {
			d = e.RetryAfter
		}
		if werr := wait(ctx, min(d, longest)); werr != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// guest is a buyer's token.
type guest struct {
	Token string          `json:"token"`
	User  seatflow.UserID `json:"userId"`
}

func (c *Client) guest(ctx context.Context) (guest, error) {
	var g guest
	_, err := c.call(ctx, http.MethodPost, "/api/v1/guests", "", nil, &g)
	return g, err
}

// apiShow is what the tools read of a show.
type apiShow struct {
	ID     seatflow.ShowID `json:"id"`
	Title  string          `json:"title"`
	OnSale bool            `json:"onSale"`
	Limit  int             `json:"limitPerUser"`
	Counts struct {
		Available int `json:"available"`
		Held      int `json:"held"`
		Sold      int `json:"sold"`
		Blocked   int `json:"blocked"`
	} `json:"counts"`
}

func (c *Client) shows(ctx context.Context) ([]apiShow, error) {
	var all []apiShow
	for cursor := ""; ; {
		var page struct {
			Shows []apiShow `json:"shows"`
			Next  string    `json:"next"`
		}
		path := "/api/v1/shows?limit=100"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		if _, err := c.call(ctx, http.MethodGet, path, "", nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Shows...)
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
}

func (c *Client) show(ctx context.Context, id seatflow.ShowID) (apiShow, error) {
	var s apiShow
	_, err := c.call(ctx, http.MethodGet, showPath(id, ""), "", nil, &s)
	return s, err
}

func showPath(id seatflow.ShowID, rest string) string {
	return "/api/v1/shows/" + strconv.FormatInt(int64(id), 10) + rest
}

// apiPlan is what the tools read of a plan: columns, one entry a seat.
type apiPlan struct {
	Categories []struct {
		Name  string `json:"name"`
		Price *int64 `json:"price"`
	} `json:"categories"`
	Zones []struct {
		Name string `json:"name"`
	} `json:"zones"`
	Seats struct {
		ID       []seatflow.SeatID `json:"id"`
		X        []float64         `json:"x"`
		Y        []float64         `json:"y"`
		Zone     []int             `json:"zone"`
		Category []int             `json:"category"`
		Row      []string          `json:"row"`
		Number   []string          `json:"number"`
	} `json:"seats"`
}

// check refuses columns of different lengths and indexes that lead nowhere.
func (p *apiPlan) check() error {
	s := &p.Seats
	n := len(s.ID)
	if len(s.X) != n || len(s.Y) != n || len(s.Zone) != n || len(s.Category) != n || len(s.Row) != n || len(s.Number) != n {
		return errors.New("loadgen: the columns of the plan differ in length")
	}
	for i := range s.ID {
		if s.ID[i] < 1 || s.ID[i] > seatflow.MaxSeatsPerHall*10 || s.Zone[i] < 0 || s.Zone[i] >= len(p.Zones) ||
			s.Category[i] < 0 || s.Category[i] >= len(p.Categories) {
			return fmt.Errorf("loadgen: seat %d of the plan refers to what is not there", s.ID[i])
		}
	}
	return nil
}

func (c *Client) plan(ctx context.Context, id seatflow.ShowID) (*apiPlan, error) {
	var p apiPlan
	if _, err := c.call(ctx, http.MethodGet, showPath(id, "/plan"), "", nil, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return &p, nil
}

// seatMap reads the states of a house, one character a seat id.
func (c *Client) seatMap(ctx context.Context, id seatflow.ShowID) (string, error) {
	var m struct {
		States string `json:"states"`
	}
	_, err := c.call(ctx, http.MethodGet, showPath(id, "/seats?form=compact"), "", nil, &m)
	return m.States, err
}

// apiOrder is what the tools read of an order.
type apiOrder struct {
	No    seatflow.OrderNo    `json:"no"`
	Show  seatflow.ShowID     `json:"showId"`
	User  seatflow.UserID     `json:"userId"`
	State seatflow.OrderState `json:"state"`
	Seats []apiSeat           `json:"seats"`
}

type apiSeat struct {
	Seat seatflow.SeatID `json:"seatId"`
}

func (o *apiOrder) ack(op string) Ack {
	ids := make([]seatflow.SeatID, len(o.Seats))
	for i := range o.Seats {
		ids[i] = o.Seats[i].Seat
	}
	return Ack{Op: op, No: o.No, Show: o.Show, User: o.User, Seats: ids, State: o.State}
}

// orderBody is the request for seats.
type orderBody struct {
	Show  seatflow.ShowID   `json:"showId"`
	Seats []seatflow.SeatID `json:"seats"`
}

func (c *Client) order(ctx context.Context, token, key string, show seatflow.ShowID, seats []seatflow.SeatID) (apiOrder, error) {
	var o apiOrder
	_, err := c.call(ctx, http.MethodPost, "/api/v1/orders", token, orderBody{show, seats}, &o,
		"Idempotency-Key", key, "X-Origin-Device", "web")
	return o, err
}

func (c *Client) orderNow(ctx context.Context, token string, no seatflow.OrderNo) (apiOrder, error) {
	var o apiOrder
	_, err := c.call(ctx, http.MethodGet, "/api/v1/orders/"+string(no), token, nil, &o)
	return o, err
}

func (c *Client) cancel(ctx context.Context, token string, no seatflow.OrderNo) (apiOrder, error) {
	var o apiOrder
	_, err := c.call(ctx, http.MethodPost, "/api/v1/orders/"+string(no)+"/cancel", token, nil, &o)
	return o, err
}

// checkout begins a payment and returns where its card form is.
func (c *Client) checkout(ctx context.Context, token string, no seatflow.OrderNo) (string, error) {
	var p struct {
		URL string `json:"url"`
	}
	_, err := c.call(ctx, http.MethodPost, "/api/v1/orders/"+string(no)+"/payments", token, struct{}{}, &p)
	if err == nil && !strings.HasPrefix(p.URL, "/") {
		return "", fmt.Errorf("loadgen: the payment's page %q is not on this server", p.URL)
	}
	return p.URL, err
}

// card fills in the sandbox's card form.
type card struct {
	Outcome string `json:"outcome"`
	DelayMs int    `json:"delayMs"`
	Copies  int    `json:"copies"`
}

func (c *Client) pay(ctx context.Context, token, form string, card card) error {
	_, err := c.call(ctx, http.MethodPost, form, token, card, nil)
	return err
}
