package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow/bench/strategies/plain"
	"seatflow/internal/auth"
)

// Limits of a request.
const (
	mostBody = 64 << 10
	patience = 10 * time.Second
)

// taker is what the handler asks for seats; *plain.Store is one.
type taker interface {
	Order(ctx context.Context, r plain.Request) (plain.Order, error)
	Healthy(ctx context.Context) error
}

// ask is the body of an order, as SeatFlow has it.
type ask struct {
	Show  int64  `json:"showId"`
	Seats []int  `json:"seats"`
	Key   string `json:"idempotencyKey"`
}

// answer is an order as its buyer sees it.
type answer struct {
	No       string    `json:"no"`
	Show     int64     `json:"showId"`
	User     string    `json:"userId"`
	State    string    `json:"state"`
	Seats    []int     `json:"seats"`
	Deadline time.Time `json:"deadline"`
}

// problem is a refusal.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   int    `json:"code"`
	Seats  []int  `json:"seats,omitempty"`
}

func handler(store taker, tokens *auth.Tokens) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/orders", func(w http.ResponseWriter, r *http.Request) { order(w, r, store, tokens) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := store.Healthy(r.Context()); err != nil {
			refuse(w, problem{Title: "not ready", Status: http.StatusServiceUnavailable, Code: 2003})
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	return mux
}

func order(w http.ResponseWriter, r *http.Request, store taker, tokens *auth.Tokens) {
	who, err := tokens.Verify(auth.Bearer(r.Header.Get("Authorization")))
	if err != nil {
		refuse(w, problem{Title: "no token, or a bad one", Status: http.StatusUnauthorized, Code: 1001})
		return
	}
	var a ask
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err == nil {
		err = json.Unmarshal(body, &a, json.RejectUnknownMembers(true))
	}
	if err != nil {
		refuse(w, problem{Title: "malformed request", Status: http.StatusBadRequest, Code: 1000})
		return
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		a.Key = key
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	o, err := store.Order(ctx, plain.Request{User: string(who.User), Show: a.Show, Seats: a.Seats, Key: a.Key})
	if err != nil {
		p := problemOf(err)
		if p.Status == http.StatusInternalServerError && r.Context().Err() == nil { // nobody waits for the rest
			slog.Warn("order failed", "err", err)
		}
		refuse(w, p)
		return
	}
	write(w, "application/json", http.StatusCreated, answer{No: o.No, Show: o.Show, User: o.User, State: "pending", Seats: o.Seats, Deadline: o.Deadline})
}

func problemOf(err error) problem {
	var taken *plain.TakenError
	switch {
	case errors.As(err, &taken):
		return problem{Title: "seats taken", Status: http.StatusConflict, Code: 3002, Seats: taken.Seats}
	case errors.Is(err, plain.ErrRate):
		return problem{Title: "over the rate", Status: http.StatusTooManyRequests, Code: 1029}
	case errors.Is(err, plain.ErrInvalid):
		return problem{Title: "invalid request", Status: http.StatusBadRequest, Code: 1000}
	case errors.Is(err, plain.ErrKeyUsed):
		return problem{Title: "key used before", Status: http.StatusUnprocessableEntity, Code: 1004}
	}
	return problem{Title: "system error", Status: http.StatusInternalServerError, Code: 2000}
}

func refuse(w http.ResponseWriter, p problem) {
	p.Type = "about:blank"
	write(w, "application/problem+json", p.Status, p)
}

func write(w http.ResponseWriter, kind string, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the caller may have gone
}
