package payment_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seatflow"
	"seatflow/internal/payment"
	"seatflow/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2031, 5, 4, 18, 0, 0, 0, time.UTC)

const order = seatflow.OrderNo("01ARZ3NDEKTSV4RRFFQ69G5FAV")

func newSandbox(t *testing.T, clock seatflow.Clock) *payment.Sandbox {
	t.Helper()
	s, err := payment.NewSandbox(payment.SandboxOptions{Secret: []byte(strings.Repeat("k", 32)), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inbox collects verified events; it refuses the first refuse deliveries.
type inbox struct {
	sandbox *payment.Sandbox
	refuse  int

	mu     sync.Mutex
	events []seatflow.PaymentEvent
	bad    []error
	got    chan struct{}
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e, err := b.sandbox.Verify(r.Header.Get, body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse > 0 {
		b.refuse--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		b.bad = append(b.bad, err)
	} else {
		b.events = append(b.events, e)
	}
	b.got <- struct{}{}
}

func deliverTo(t *testing.T, s *payment.Sandbox, refuse int) *inbox {
	t.Helper()
	b := &inbox{sandbox: s, refuse: refuse, got: make(chan struct{}, 100)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	s.SetCallback(server.URL)
	return b
}

func (b *inbox) wait(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-b.got:
		case <-t.Context().Done():
			t.Fatal("no callback came")
		}
	}
}

func startPayment(t *testing.T, s *payment.Sandbox) seatflow.Checkout {
	t.Helper()
	c, err := s.Start(t.Context(), seatflow.PaymentRequest{Order: order, Total: seatflow.Money{Amount: 4500, Currency: "EUR"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPaymentIsCapturedOnceHoweverOftenTheFormIsSent(t *testing.T) {
	s := newSandbox(t, nil)
	box := deliverTo(t, s, 2) // the first deliveries are refused and come again
	c := startPayment(t, s)
	for range 2 {
		if err := s.Pay(t.Context(), c.Ref, payment.SandboxPay{Outcome: "succeed", Copies: 2}); err != nil {
			t.Fatal(err)
		}
	}
	box.wait(t, 4)
	if len(box.bad) > 0 {
		t.Fatal(box.bad)
	}
	for _, e := range box.events {
		if e.EventID != box.events[0].EventID || e.CaptureID != box.events[0].CaptureID || e.Order != order ||
			e.Amount != (seatflow.Money{Amount: 4500, Currency: "EUR"}) || e.Type != seatflow.PaymentCaptured {
			t.Errorf("%+v", e)
		}
	}
	other := startPayment(t, s)
	if err := s.Pay(t.Context(), other.Ref, payment.SandboxPay{Outcome: "succeed"}); err != nil {
		t.Fatal(err)
	}
	box.wait(t, 1)
	if last := box.events[len(box.events)-1]; last.CaptureID == box.events[0].CaptureID {
		t.Error("a second payment of the order has the first one's capture")
	}
}

func TestDeclineMovesNoMoney(t *testing.T) {
	s := newSandbox(t, nil)
	box := deliverTo(t, s, 0)
	if err := s.Pay(t.Context(), startPayment(t, s).Ref, payment.SandboxPay{Outcome: "decline"}); err != nil {
		t.Fatal(err)
	}
	box.wait(t, 1)
	if e := box.events[0]; e.Type != seatflow.PaymentFailed || e.CaptureID != "" {
		t.Errorf("%+v", e)
	}
}

func TestReferencesAreNotForged(t *testing.T) {
	s := newSandbox(t, nil)
	deliverTo(t, s, 0)
	ref := startPayment(t, s).Ref
	payload, sig, _ := strings.Cut(ref, ".")
	for _, bad := range []string{"", ".", "x", payload, payload + ".", "A" + ref, payload + "." + strings.Repeat("A", len(sig)),
		strings.Repeat("A", 600)} {
		err := s.Pay(t.Context(), bad, payment.SandboxPay{Outcome: "succeed"})
		if seatflow.CodeOf(err) != seatflow.CodeNotFound {
			t.Errorf("reference %.20q: %v", bad, err)
		}
	}
	for name, pay := range map[string]payment.SandboxPay{
		"outcome": {Outcome: "maybe"}, "delay": {Outcome: "succeed", Delay: 2 * time.Hour}, "negative delay": {Outcome: "succeed", Delay: -1},
		"copies": {Outcome: "succeed", Copies: 11}, "amount": {Outcome: "succeed", Amount: &seatflow.Money{Amount: -1, Currency: "EUR"}},
	} {
		if err := s.Pay(t.Context(), ref, pay); seatflow.CodeOf(err) != seatflow.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerify(t *testing.T) {
	clock := testkit.NewFakeClock(start)
	s := newSandbox(t, clock)
	body := []byte(fmt.Sprintf(`{"id":"evt_1","type":"payment.captured","capture":"cap_1","order":"%s","amount":100,"currency":"EUR","created":"2031-05-04T18:00:00Z"}`, order))
	signed := s.Sign(body)
	header := func(v string) func(string) string {
		return func(name string) string {
			if name == payment.SignatureHeader {
				return v
			}
			return ""
		}
	}
	if e, err := s.Verify(header(signed), body); err != nil || e.Amount.Amount != 100 || e.Provider != payment.SandboxName {
		t.Fatalf("%+v, %v", e, err)
	}
	changed := []byte(strings.Replace(string(body), "100", "1", 1))
	for name, c := range map[string]struct {
		sig  string
		body []byte
	}{
		"none":    {"", body},
		"garbage": {"t=1,v1=zz", body},
		"body":    {signed, changed},
		"time":    {strings.Replace(signed, "t=1", "t=2", 1), body},
		"cut":     {signed[:len(signed)-2], body},
	} {
		if _, err := s.Verify(header(c.sig), c.body); !errors.Is(err, seatflow.ErrBadSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	clock.Advance(6 * time.Minute)
	if _, err := s.Verify(header(signed), body); !errors.Is(err, seatflow.ErrBadSignature) {
		t.Errorf("an old signature: %v", err)
	}
	for name, b := range map[string]string{
		"not JSON":        `{`,
		"unknown member":  `{"id":"e","type":"payment.failed","order":"x","amount":1,"currency":"EUR","created":"2031-05-04T18:00:00Z","x":1}`,
		"no id":           `{"id":"","type":"payment.failed","order":"x","amount":1,"currency":"EUR","created":"2031-05-04T18:00:00Z"}`,
		"no capture":      `{"id":"e","type":"payment.captured","order":"x","amount":1,"currency":"EUR","created":"2031-05-04T18:00:00Z"}`,
		"failed, capture": `{"id":"e","type":"payment.failed","capture":"c","order":"x","amount":1,"currency":"EUR","created":"2031-05-04T18:00:00Z"}`,
		"negative":        `{"id":"e","type":"payment.failed","order":"x","amount":-1,"currency":"EUR","created":"2031-05-04T18:00:00Z"}`,
		"unknown type":    `{"id":"e","type":"payment.thought_about","order":"x","amount":1,"currency":"EUR","created":"2031-05-04T18:00:00Z"}`,
	} {
		_, err := s.Verify(header(s.Sign([]byte(b))), []byte(b))
		if err == nil || errors.Is(err, seatflow.ErrBadSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	s := newSandbox(t, nil)
	box := deliverTo(t, s, 0)
	ref := startPayment(t, s).Ref
	if err := s.Pay(t.Context(), ref, payment.SandboxPay{Outcome: "succeed", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(box.events) != 0 {
		t.Error("a delayed callback was delivered early")
	}
	if err := s.Pay(context.Background(), ref, payment.SandboxPay{Outcome: "succeed"}); seatflow.CodeOf(err) != seatflow.CodeNotReady {
		t.Errorf("after Close: %v", err)
	}
}

func TestShortSecretIsRefused(t *testing.T) {
	if _, err := payment.NewSandbox(payment.SandboxOptions{Secret: []byte("short")}); err == nil {
		t.Error("a short secret was taken")
	}
}
