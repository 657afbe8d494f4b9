package httpapi

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"context"

	"seatflow"
	"seatflow/internal/booking"
)

// instantBooking answers at once, so that what is measured is the transport.
type instantBooking struct {
	Booking
	created booking.Created
	err     error
}

func (b *instantBooking) Create(context.Context, booking.CreateRequest) (booking.Created, error) {
	return b.created, b.err
}

// blackHole is a client that costs nothing.
type blackHole struct {
	h http.Header
	n int
}

func (w *blackHole) Header() http.Header         { return w.h }
func (w *blackHole) WriteHeader(int)             {}
func (w *blackHole) Write(b []byte) (int, error) { w.n += len(b); return len(b), nil }

type repeatBody struct{ bytes.Reader }

func (*repeatBody) Close() error { return nil }

func benchOrders(b *testing.B, booked *instantBooking) {
	s := newServer(b, func(o *Options) {
		o.Booking = booked
		o.Log = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	body := []byte(`{"showId":1,"seats":[3,1],"idempotencyKey":"0123456789abcdef0123456789abcdef"}`)
	r, err := http.NewRequest(http.MethodPost, createPath, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.tokens[seatflow.RoleBuyer])
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept-Language", "en-GB,en;q=0.9,de;q=0.5")
	reader := &repeatBody{}
	r.Body, r.ContentLength = reader, int64(len(body))
	w := &blackHole{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		clear(w.h)
		s.api.ServeHTTP(w, r)
	}
	b.ReportMetric(float64(w.n)/float64(b.N), "bytes/answer")
}

func BenchmarkCreateOrder(b *testing.B) {
	benchOrders(b, &instantBooking{created: booking.Created{Order: testOrder(1, "the-buyer", 1, 3)}})
}

func BenchmarkCreateOrderTaken(b *testing.B) {
	benchOrders(b, &instantBooking{err: &seatflow.Error{Code: seatflow.CodeSeatsTaken,
		Seats: []seatflow.SeatID{1}, Available: []seatflow.SeatID{3}}})
}

func BenchmarkSeatMapCompact(b *testing.B) {
	s := newServer(b, func(o *Options) { o.Log = slog.New(slog.DiscardHandler) })
	r, err := http.NewRequest(http.MethodGet, "/api/v1/shows/1/seats?form=compact", nil)
	if err != nil {
		b.Fatal(err)
	}
	w := &blackHole{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		s.api.ServeHTTP(w, r)
	}
}

func BenchmarkDecodeOrder(b *testing.B) {
	body := []byte(`{"showId":1,"seats":[3,1],"idempotencyKey":"0123456789abcdef0123456789abcdef"}`)
	b.Run("quick", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var in CreateOrder
			if !quickOrder(body, &in) {
				b.Fatal("not plain")
			}
		}
	})
	b.Run("strict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var in CreateOrder
			if err := decodeStrict(body, &in); err != nil {
				b.Fatal(err)
			}
		}
	})
}
