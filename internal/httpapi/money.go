package httpapi

import (
	"net/http"
	"time"

	"seatflow"
	"seatflow/internal/payment"
)

// callbackMaxBytes bounds a provider's callback; theirs are a few KB.
const callbackMaxBytes = 64 << 10

// sandboxPay is the card form of the sandbox. Like a real provider's page it
// asks for no token of ours: the reference cannot be guessed.
func (a *API) sandboxPay(c *call) error {
	if a.opt.Sandbox == nil {
		return switchedOff()
	}
	var in SandboxPay
	if err := c.decode(&in, false); err != nil {
		return err
	}
	const most = int64(time.Hour / time.Millisecond)
	if in.DelayMs < 0 || in.DelayMs > most { // before it is multiplied
		return invalid("delayMs", "must be between 0 and 3600000")
	}
	pay := payment.SandboxPay{Outcome: in.Outcome, Delay: time.Duration(in.DelayMs) * time.Millisecond, Copies: in.Copies}
	if in.Amount != nil {
		pay.Amount = &seatflow.Money{Amount: in.Amount.Amount, Currency: in.Amount.Currency}
	}
	if err := a.opt.Sandbox.Pay(c.ctx, c.r.PathValue("ref"), pay); err != nil {
		return err
	}
	return c.reply(http.StatusAccepted, Accepted{Accepted: true})
}

// callback takes a provider's raw bytes: their signature is checked before
// anything reads them. The answer is sent after the commit.
func (a *API) callback(c *call) error {
	if a.opt.Payments == nil {
		return switchedOff()
	}
	buf := buffers.get()
	defer buffers.put(buf)
	if err := c.readBody(buf); err != nil {
		return err
	}
	out, err := a.opt.Payments.Callback(c.ctx, c.r.PathValue("provider"), c.r.Header.Get, buf.b)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, CallbackResult{Ending: string(out.Ending), Repeat: out.Repeat})
}

func (a *API) unknownPayments(c *call) error {
	if a.opt.Payments == nil {
		return switchedOff()
	}
	after, limit, err := c.pageAfter()
	if err != nil {
		return err
	}
	list, err := a.opt.Payments.Unknown(c.ctx, after, limit+1)
	if err != nil {
		return err
	}
	out := UnknownPayments{Payments: []UnknownPayment{}}
	if len(list) > limit {
		list = list[:limit]
		out.Next = cursorOfID(list[limit-1].ID)
	}
	for i := range list {
		p := &list[i]
		out.Payments = append(out.Payments, UnknownPayment{ID: p.ID, Provider: p.Event.Provider, EventID: p.Event.EventID,
			CaptureID: p.Event.CaptureID, OrderNo: string(p.Event.Order),
			Amount: Money{Amount: p.Event.Amount.Amount, Currency: p.Event.Amount.Currency}, At: instant(p.At)})
	}
	return c.reply(http.StatusOK, &out)
}
