package payment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/sabotage"
)

// refundEvery is the fixed delay between rounds of the refund worker, and
// refundBatch how many it asks for in one.
const (
	refundEvery = 2 * time.Second
	refundBatch = 100
)

// Options are what a Service needs.
type Options struct {
	Booking   *booking.Service
	Ledger    seatflow.Payments
	Providers []seatflow.PaymentProvider // the first is the default
	Log       *slog.Logger
}

// Service starts payments, takes callbacks and sees refunds through.
type Service struct {
	booking   *booking.Service
	ledger    seatflow.Payments
	providers []seatflow.PaymentProvider
	log       *slog.Logger
	wake      chan struct{}
}

// New returns a Service; its refund worker is [Service.Run].
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{booking: o.Booking, ledger: o.Ledger, providers: o.Providers, log: o.Log, wake: make(chan struct{}, 1)}
}

func (s *Service) provider(name string) (seatflow.PaymentProvider, error) {
	for i, p := range s.providers {
		if p.Name() == name || (name == "" && i == 0) {
			return p, nil
		}
	}
	return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonNoProvider, Field: "provider", Args: []any{name}}
}

// Start begins to pay a pending order and extends its hold once. It may be
// repeated; a second capture is refunded.
//
// Codes: 1000, 1003, 2003, 3005.
func (s *Service) Start(ctx context.Context, actor seatflow.Actor, no seatflow.OrderNo, provider string) (seatflow.Checkout, seatflow.Order, error) {
	p, err := s.provider(provider)
	if err != nil {
		return seatflow.Checkout{}, seatflow.Order{}, err
	}
	order, err := s.booking.BeginPayment(ctx, actor, no)
	if err != nil {
		return seatflow.Checkout{}, seatflow.Order{}, err
	}
	checkout, err := p.Start(ctx, seatflow.PaymentRequest{Order: no, Total: order.Total})
	if err != nil {
		return seatflow.Checkout{}, order, fmt.Errorf("payment: %s: start: %w", p.Name(), err)
	}
	return checkout, order, nil
}

// Callback takes a provider's raw callback. A nil error means that it is
// stored and decided.
//
// Codes: 1000, 1001, 2003.
func (s *Service) Callback(ctx context.Context, provider string, header func(string) string, body []byte) (seatflow.PaymentOutcome, error) {
	if provider == "" {
		provider = "-" // a callback always names its provider
	}
	p, err := s.provider(provider)
	if err != nil {
		return seatflow.PaymentOutcome{}, err
	}
	event, err := p.Verify(header, body)
	if errors.Is(err, seatflow.ErrBadSignature) {
		return seatflow.PaymentOutcome{}, &seatflow.Error{Code: seatflow.CodeUnauthorized, Reason: seatflow.ReasonBadSignature, Err: err}
	}
	if err != nil {
		return seatflow.PaymentOutcome{}, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonField, Field: "body",
			Args: []any{"is not a payment event"}, Err: err}
	}
	if sabotage.On(sabotage.AcceptTwice) && event.CaptureID != "" {
		again := rand.Text()
		event.EventID, event.CaptureID = event.EventID+again, event.CaptureID+again
	}
	out, err := s.booking.ApplyPayment(ctx, event)
	if err == nil && out.Ending == seatflow.EndingRefund {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return out, err
}

// Unknown lists captured payments without an order, for staff.
func (s *Service) Unknown(ctx context.Context, after int64, limit int) ([]seatflow.Payment, error) {
	return s.ledger.UnknownPayments(ctx, after, limit)
}

// Run asks providers for the refunds that are due until the context ends.
func (s *Service) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-timer.C:
			select {
			case <-s.wake: // one round answers both
			default:
			}
		}
		if _, err := s.RefundOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "some refunds could not be made; they are tried again", "err", err)
		}
		timer.Reset(refundEvery)
	}
}

// RefundOnce makes the refunds that are due and returns how many succeeded.
// One that fails does not stop the others.
func (s *Service) RefundOnce(ctx context.Context) (int, error) {
	due, err := s.ledger.DueRefunds(ctx, refundBatch)
	if err != nil {
		return 0, err
	}
	done := 0
	var failed []error
	for _, r := range due {
		p, err := s.provider(r.Provider)
		if err == nil {
			err = p.Refund(ctx, r)
		}
		if err == nil {
			err = s.ledger.RefundDone(ctx, r.ID)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("payment: refund %s: %w", r.ID, err))
			continue
		}
		done++
	}
	return done, errors.Join(failed...)
}
