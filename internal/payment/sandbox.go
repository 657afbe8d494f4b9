package payment

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// SandboxName is the sandbox provider's name in paths and in the ledger.
const SandboxName = "sandbox"

// SignatureHeader carries "t=UNIX,v1=HEX": HMAC-SHA-256 over "UNIX.BODY".
const SignatureHeader = "Seatflow-Signature"

// Limits of the sandbox.
const (
	signatureAge  = 5 * time.Minute // an older signature may be a recording
	maxDelay      = time.Hour
	maxCopies     = 10
	maxUnderWay   = 10_000 // deliveries waiting or being tried
	deliveryTries = 12     // with back-off: about four minutes
	deliveryFirst = 100 * time.Millisecond
	deliveryMost  = 30 * time.Second
)

// SandboxOptions are what a Sandbox needs.
type SandboxOptions struct {
	Secret []byte         // signs references and callbacks; 32 bytes or more
	Clock  seatflow.Clock // nil: the wall clock
	Log    *slog.Logger
	Client *http.Client // delivers callbacks; nil: one with a time limit
}

// Sandbox is a provider that takes no money. A payment's reference carries
// its order and amount, signed, so that nothing is kept; the card form
// (Sandbox.Pay) decides what is reported, and signed callbacks are delivered
// over HTTP like a real provider's: late, twice or in another order if asked.
type Sandbox struct {
	secret []byte
	clock  seatflow.Clock
	log    *slog.Logger
	client *http.Client

	mu       sync.Mutex
	callback string
	closed   bool
	underWay int
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// NewSandbox returns a sandbox that delivers nothing until it knows where to
// (see SetCallback).
func NewSandbox(o SandboxOptions) (*Sandbox, error) {
	if len(o.Secret) < 32 {
		return nil, errors.New("payment: the sandbox secret is shorter than 32 bytes")
	}
	if o.Clock == nil {
		o.Clock = seatflow.WallClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second}}
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Sandbox{secret: o.Secret, clock: o.Clock, log: o.Log, client: o.Client, ctx: ctx, stop: stop}, nil
}

// SetCallback tells where callbacks go: an absolute URL.
func (s *Sandbox) SetCallback(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callback = url
}

// Close ends deliveries that wait and returns when none is under way. It may
// be called twice.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
	s.client.CloseIdleConnections()
	return nil
}

// Name implements seatflow.PaymentProvider.
func (s *Sandbox) Name() string { return SandboxName }

// reference is what a payment's reference carries.
type reference struct {
	Order    seatflow.OrderNo `json:"o"`
	Amount   int64            `json:"a"`
	Currency string           `json:"c"`
	Nonce    string           `json:"n"` // two payments of one order are two captures
}

// Start implements seatflow.PaymentProvider.
func (s *Sandbox) Start(_ context.Context, req seatflow.PaymentRequest) (seatflow.Checkout, error) {
	var nonce [9]byte
	rand.Read(nonce[:])
	body, err := json.Marshal(reference{req.Order, req.Total.Amount, req.Total.Currency,
		base64.RawURLEncoding.EncodeToString(nonce[:])})
	if err != nil {
		return seatflow.Checkout{}, err
	}
	payload := base64.RawURLEncoding.EncodeToString(body)
	ref := payload + "." + base64.RawURLEncoding.EncodeToString(s.mac("ref", []byte(payload))[:16])
	return seatflow.Checkout{Provider: SandboxName, Ref: ref, URL: "/api/v1/sandbox/payments/" + ref}, nil
}

func (s *Sandbox) mac(purpose string, data []byte) []byte {
	m := hmac.New(sha256.New, s.secret)
	io.WriteString(m, purpose)
	m.Write([]byte{0})
	m.Write(data)
	return m.Sum(nil)
}

func (s *Sandbox) open(ref string) (reference, error) {
	notThere := &seatflow.Error{Code: seatflow.CodeNotFound}
	payload, sig, ok := strings.Cut(ref, ".")
	given, err := base64.RawURLEncoding.DecodeString(sig)
	if !ok || err != nil || len(ref) > 512 || !hmac.Equal(given, s.mac("ref", []byte(payload))[:16]) {
		return reference{}, notThere
	}
	body, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return reference{}, notThere
	}
	var r reference
	if err := json.Unmarshal(body, &r); err != nil {
		return reference{}, notThere
	}
	return r, nil
}

// SandboxPay is what the sandbox's card form says.
type SandboxPay struct {
	Outcome string          // "succeed" or "decline"
	Delay   time.Duration   // before the callback; at most an hour
	Copies  int             // how often it is delivered; 0: once, at most 10
	Amount  *seatflow.Money // captured instead of the total, to rehearse a wrong amount
}

// Pay fills in the card form. A payment is captured once, however often the
// form is sent. The callbacks arrive later.
//
// Codes: 1000, 1003, 1029.
func (s *Sandbox) Pay(_ context.Context, ref string, pay SandboxPay) error {
	r, err := s.open(ref)
	if err != nil {
		return err
	}
	invalid := func(field, text string) error {
		return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonField, Field: field, Args: []any{text}}
	}
	switch {
	case pay.Outcome != "succeed" && pay.Outcome != "decline":
		return invalid("outcome", `must be "succeed" or "decline"`)
	case pay.Delay < 0 || pay.Delay > maxDelay:
		return invalid("delayMs", "must be between 0 and 3600000")
	case pay.Copies < 0 || pay.Copies > maxCopies:
		return invalid("copies", "must be between 0 and 10")
	case pay.Amount != nil && pay.Amount.Amount < 0:
		return invalid("amount", "must not be negative")
	}
	id := hex.EncodeToString(s.mac("event", []byte(ref))[:12])
	e := callback{ID: "evt_" + id, Type: string(seatflow.PaymentCaptured), Capture: "cap_" + id, Order: r.Order,
		Amount: r.Amount, Currency: r.Currency, Created: s.clock.Now().UTC().Format(time.RFC3339Nano)}
	if pay.Amount != nil {
		e.Amount, e.Currency = pay.Amount.Amount, pay.Amount.Currency
	}
	if pay.Outcome == "decline" {
		var nonce [12]byte
		rand.Read(nonce[:])
		e.ID, e.Type, e.Capture = "evt_"+hex.EncodeToString(nonce[:]), string(seatflow.PaymentFailed), ""
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	for range max(1, pay.Copies) {
		if err := s.deliver(body, pay.Delay); err != nil {
			return err
		}
	}
	return nil
}

// callback is the body of a callback.
type callback struct {
	ID       string           `json:"id"`
	Type     string           `json:"type"`
	Capture  string           `json:"capture,omitempty"`
	Order    seatflow.OrderNo `json:"order"`
	Amount   int64            `json:"amount"`
	Currency string           `json:"currency"`
	Created  string           `json:"created"`
}

// deliver sends a callback in the background until it is accepted.
func (s *Sandbox) deliver(body []byte, delay time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.callback == "":
		return &seatflow.Error{Code: seatflow.CodeNotReady, RetryAfter: time.Second, Err: errors.New("payment: the sandbox is not running")}
	case s.underWay >= maxUnderWay:
		return &seatflow.Error{Code: seatflow.CodeRateLimited, RetryAfter: time.Second}
	}
	s.underWay++
	s.wg.Add(1)
	url := s.callback
	go func() {
		defer s.wg.Done()
		s.sendUntilAccepted(url, body, delay)
		s.mu.Lock()
		s.underWay--
		s.mu.Unlock()
	}()
	return nil
}

func (s *Sandbox) sendUntilAccepted(url string, body []byte, wait time.Duration) {
	next := deliveryFirst
	for try := range deliveryTries {
		timer := time.NewTimer(wait)
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := s.send(url, body)
		if err == nil || s.ctx.Err() != nil {
			return
		}
		s.log.Warn("sandbox callback not accepted", "try", try+1, "err", err)
		wait, next = next, min(2*next, deliveryMost)
	}
	s.log.Error("sandbox callback given up", "tries", deliveryTries)
}

func (s *Sandbox) send(url string, body []byte) error {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(SignatureHeader, s.Sign(body))
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// Sign returns the signature header of a callback body, as of now.
func (s *Sandbox) Sign(body []byte) string {
	t := strconv.FormatInt(s.clock.Now().Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(s.mac("callback", append([]byte(t+"."), body...)))
}

// Verify implements seatflow.PaymentProvider.
func (s *Sandbox) Verify(header func(string) string, body []byte) (seatflow.PaymentEvent, error) {
	var none seatflow.PaymentEvent
	t, v, ok := strings.Cut(header(SignatureHeader), ",v1=")
	unix, err := strconv.ParseInt(strings.TrimPrefix(t, "t="), 10, 64)
	given, herr := hex.DecodeString(v)
	if !ok || err != nil || herr != nil || !strings.HasPrefix(t, "t=") {
		return none, seatflow.ErrBadSignature
	}
	if age := s.clock.Now().Sub(time.Unix(unix, 0)); age > signatureAge || age < -signatureAge {
		return none, fmt.Errorf("%w: signed %v ago", seatflow.ErrBadSignature, age)
	}
	if !hmac.Equal(given, s.mac("callback", append([]byte(t[len("t="):]+"."), body...))) {
		return none, seatflow.ErrBadSignature
	}
	var c callback
	if err := json.Unmarshal(body, &c, json.RejectUnknownMembers(true)); err != nil {
		return none, err
	}
	e := seatflow.PaymentEvent{Provider: SandboxName, EventID: c.ID, CaptureID: c.Capture,
		Type: seatflow.PaymentEventType(c.Type), Order: c.Order, Amount: seatflow.Money{Amount: c.Amount, Currency: c.Currency}}
	if e.At, err = time.Parse(time.RFC3339Nano, c.Created); err != nil {
		return none, err
	}
	captured := e.Type == seatflow.PaymentCaptured
	if e.EventID == "" || (!captured && e.Type != seatflow.PaymentFailed) || captured != (e.CaptureID != "") || e.Amount.Amount < 0 {
		return none, errors.New("payment: incomplete event")
	}
	return e, nil
}

// Refund implements seatflow.PaymentProvider: the sandbox took nothing, so it
// gives nothing back.
func (s *Sandbox) Refund(ctx context.Context, r seatflow.Refund) error {
	s.log.InfoContext(ctx, "sandbox refund", "refund", r.ID, "reason", string(r.Reason))
	return nil
}
