package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/booking"
	"seatflow/internal/catalog"
	"seatflow/internal/seatplan"
)

// SeatPlans is the exchange format of seat plans as the transport uses it:
// publish stores a checked document as a hall's next plan
// (*catalog.Service's ImportPlan).
func SeatPlans(publish func(ctx context.Context, hall seatflow.HallID, doc *seatplan.Document) (*seatflow.Plan, error)) Plans {
	return seatPlans{publish}
}

type seatPlans struct {
	publish func(context.Context, seatflow.HallID, *seatplan.Document) (*seatflow.Plan, error)
}

func (p seatPlans) Import(ctx context.Context, hall seatflow.HallID, document io.Reader, disambiguate string) (*seatflow.Plan, error) {
	doc, err := seatplan.Parse(document, seatplan.Options{Disambiguate: disambiguate})
	if err != nil {
		return nil, planError(err)
	}
	plan, err := p.publish(ctx, hall, doc)
	return plan, planError(err)
}

func (seatPlans) Export(plan *seatflow.Plan) ([]byte, error) { return seatplan.Export(plan) }

// planError shows callers the whole list of a document's faults.
func planError(err error) error {
	var faults *seatplan.FaultsError
	if errors.As(err, &faults) {
		return faults.Public()
	}
	return err
}

func hallOf(h *seatflow.Hall) Hall {
	return Hall{ID: int64(h.ID), Name: h.Name, Zone: h.Zone, CreatedAt: instant(h.CreatedAt)}
}

func (a *API) createHall(c *call) error {
	var in CreateHall
	if err := c.decode(&in, false); err != nil {
		return err
	}
	hall, err := a.opt.Catalog.CreateHall(c.ctx, seatflow.Hall{Name: in.Name, Zone: in.Zone})
	if err != nil {
		return err
	}
	return c.reply(http.StatusCreated, hallOf(&hall))
}

func (a *API) listHalls(c *call) error {
	after, limit, err := c.pageAfter()
	if err != nil {
		return err
	}
	halls, err := a.opt.Catalog.Halls(c.ctx, seatflow.HallID(after), limit+1)
	if err != nil {
		return err
	}
	out := HallList{Halls: []Hall{}}
	if len(halls) > limit {
		halls = halls[:limit]
		out.Next = cursorOfID(int64(halls[limit-1].ID))
	}
	for i := range halls {
		out.Halls = append(out.Halls, hallOf(&halls[i]))
	}
	return c.reply(http.StatusOK, &out)
}

func (a *API) importPlan(c *call) error {
	if a.opt.Plans == nil {
		return switchedOff()
	}
	id, err := c.pathID("id")
	if err != nil {
		return err
	}
	disambiguate := c.r.URL.Query().Get("disambiguate")
	if disambiguate != "" && disambiguate != "zone" {
		return invalid("disambiguate", "must be zone")
	}
	if err := c.mediaType("application/json"); err != nil {
		return err
	}
	body, err := c.limited()
	if err != nil {
		return err
	}
	if _, err := a.opt.Catalog.Hall(c.ctx, seatflow.HallID(id)); err != nil {
		return err // before a long document is read
	}
	plan, err := a.opt.Plans.Import(c.ctx, seatflow.HallID(id), body, disambiguate)
	if err != nil {
		return err
	}
	return c.reply(http.StatusCreated, PlanPublished{HallID: int64(plan.Hall), Version: int(plan.Version), Seats: len(plan.Seats)})
}

func (a *API) exportPlan(c *call) error {
	if a.opt.Plans == nil {
		return switchedOff()
	}
	id, err := c.pathID("id")
	if err != nil {
		return err
	}
	var version int64 // 0: the latest
	if c.r.PathValue("version") != "0" {
		if version, err = c.pathID("version"); err != nil {
			return err
		}
	}
	if version > 1<<31-1 {
		return &seatflow.Error{Code: seatflow.CodeNotFound}
	}
	plan, err := a.opt.Catalog.Plan(c.ctx, seatflow.HallID(id), seatflow.PlanVersion(version))
	if err != nil {
		return err
	}
	document, err := a.opt.Plans.Export(plan)
	if err != nil {
		return err
	}
	c.json(http.StatusOK, document)
	return nil
}

// seconds turns a number of seconds into a duration; a bound keeps it from
// overflowing, what is sensible is the catalog's to say.
func seconds(field string, n int64) (time.Duration, error) {
	if n < 0 || n > int64(365*24*time.Hour/time.Second) {
		return 0, invalid(field, "must be a number of seconds from 0 to a year")
	}
	return time.Duration(n) * time.Second, nil
}

func (a *API) createShow(c *call) error {
	var in CreateShow
	if err := c.decode(&in, false); err != nil {
		return err
	}
	s := seatflow.Show{Hall: seatflow.HallID(in.HallID), PlanVersion: seatflow.PlanVersion(in.PlanVersion), Title: in.Title,
		Starts: in.Starts.UTC(), Ends: in.Ends.UTC(), SaleFrom: a.opt.Clock.Now().UTC().Truncate(time.Second),
		SaleUntil: in.Starts.UTC(), Currency: in.Currency, Prices: in.Prices, LimitPerUser: catalog.Inherit,
		ExtendBy: catalog.Inherit, Status: seatflow.ShowPublished}
	if in.SaleFrom != nil {
		s.SaleFrom = in.SaleFrom.UTC()
	}
	if in.SaleUntil != nil {
		s.SaleUntil = in.SaleUntil.UTC()
	}
	if in.LimitPerUser != nil {
		s.LimitPerUser = *in.LimitPerUser
	}
	var err error
	if s.HoldFor, err = seconds("holdSeconds", in.HoldSeconds); err != nil {
		return err
	}
	if s.HoldCap, err = seconds("holdCapSeconds", in.HoldCapSeconds); err != nil {
		return err
	}
	if in.ExtendSeconds != nil {
		if s.ExtendBy, err = seconds("extendSeconds", *in.ExtendSeconds); err != nil {
			return err
		}
	}
	if s, err = a.opt.Catalog.CreateShow(c.ctx, s); err != nil {
		return err
	}
	return c.replyShow(http.StatusCreated, s.ID)
}

// replyShow answers with a show as everybody sees it.
func (c *call) replyShow(status int, id seatflow.ShowID) error {
	house, err := c.api.opt.Catalog.House(c.ctx, id)
	if err != nil {
		return fmt.Errorf("httpapi: read show %d after it was written: %w", id, err)
	}
	out := c.show(house)
	return c.reply(status, &out)
}

func (a *API) updateShow(c *call) error {
	var in UpdateShow
	house, err := c.house()
	if err != nil {
		return err
	}
	if err := c.decode(&in, false); err != nil {
		return err
	}
	before := house.Show
	s := before
	set(&s.Version, in.Version)
	set(&s.Title, in.Title)
	set(&s.Prices, in.Prices)
	set(&s.LimitPerUser, in.LimitPerUser)
	if in.Partition != nil {
		if *in.Partition < 0 || *in.Partition >= seatflow.Partitions {
			return invalid("partition", fmt.Sprintf("must be 0 to %d", seatflow.Partitions-1))
		}
		s.Partition = seatflow.Partition(*in.Partition)
	}
	for _, t := range []struct {
		to *time.Time
		is *time.Time
	}{{&s.Starts, in.Starts}, {&s.Ends, in.Ends}, {&s.SaleFrom, in.SaleFrom}, {&s.SaleUntil, in.SaleUntil}} {
		if t.is != nil {
			*t.to = t.is.UTC()
		}
	}
	for _, d := range []struct {
		field string
		to    *time.Duration
		is    *int64
	}{{"holdSeconds", &s.HoldFor, in.HoldSeconds}, {"holdCapSeconds", &s.HoldCap, in.HoldCapSeconds},
		{"extendSeconds", &s.ExtendBy, in.ExtendSeconds}} {
		if d.is != nil {
			if *d.to, err = seconds(d.field, *d.is); err != nil {
				return err
			}
		}
	}
	if in.Status != nil {
		s.Status = seatflow.ShowStatus(*in.Status)
	}
	if s, err = a.opt.Catalog.UpdateShow(c.ctx, s); err != nil {
		return err
	}
	if catalog.NeedsView(&before, &s) {
		// The change is made whatever comes of it; booking tries until it
		// succeeds.
		if err := a.opt.Booking.Rebuild(c.ctx, s.ID); err != nil {
			a.opt.Log.WarnContext(c.ctx, "the seat map does not follow a change of its show yet", "show", s.ID, "error", err)
		}
	}
	return c.replyShow(http.StatusOK, s.ID)
}

func set[T any](to *T, is *T) {
	if is != nil {
		*to = *is
	}
}

func (a *API) blockSeats(c *call) error {
	id, err := c.pathShow()
	if err != nil {
		return err
	}
	var in BlockSeats
	if err := c.decode(&in, false); err != nil {
		return err
	}
	if len(in.Reason) > 200 {
		return invalid("reason", "must have at most 200 bytes")
	}
	seats, err := booking.SeatList(in.Seats, seatflow.MaxSeatsPerHall)
	if err != nil {
		return err
	}
	actor, err := c.actor()
	if err != nil {
		return err
	}
	o, err := a.opt.Booking.Block(c.ctx, actor, id, seats, in.Reason)
	if err != nil {
		return noShow(err)
	}
	c.sendOrder(http.StatusCreated, &o)
	return nil
}

func (a *API) listBlocks(c *call) error {
	id, err := c.pathShow()
	if err != nil {
		return err
	}
	actor, err := c.actor()
	if err != nil {
		return err
	}
	list, err := a.opt.Booking.Blocks(c.ctx, actor, id)
	if err != nil {
		return noShow(err)
	}
	buf := buffers.get()
	defer buffers.put(buf)
	buf.b = append(c.appendOrders(append(buf.b, `{"blocks":`...), list), '}')
	c.json(http.StatusOK, buf.b)
	return nil
}

// someSeats reads a list of seats of an order; nil for all of them.
func (c *call) someSeats() ([]seatflow.SeatID, error) {
	var in SomeSeats
	if err := c.decode(&in, true); err != nil || in.Seats == nil {
		return nil, err
	}
	return booking.SeatList(in.Seats, seatflow.MaxSeatsPerHall)
}

func (a *API) releaseBlock(c *call, actor seatflow.Actor, no seatflow.OrderNo) error {
	seats, err := c.someSeats()
	if err != nil {
		return err
	}
	o, err := a.opt.Booking.Unblock(c.ctx, actor, no, seats)
	if err != nil {
		return err
	}
	c.sendOrder(http.StatusOK, &o)
	return nil
}

func (a *API) refundOrder(c *call, actor seatflow.Actor, no seatflow.OrderNo) error {
	seats, err := c.someSeats()
	if err != nil {
		return err
	}
	o, refund, err := a.opt.Booking.Refund(c.ctx, actor, no, seats)
	if err != nil {
		return err
	}
	buf := buffers.get()
	defer buffers.put(buf)
	b := c.appendOrder(append(buf.b, `{"order":`...), &o)
	if refund != nil {
		r, err := json.Marshal(Refund{ID: refund.ID, Reason: string(refund.Reason),
			Amount: Money{Amount: refund.Amount.Amount, Currency: refund.Amount.Currency}})
		if err != nil {
			return fmt.Errorf("httpapi: refund %s: %w", refund.ID, err)
		}
		b = append(append(b, `,"refund":`...), r...)
	}
	buf.b = append(b, '}')
	c.json(http.StatusOK, buf.b)
	return nil
}

func (a *API) rebuildShow(c *call) error {
	id, err := c.pathShow()
	if err != nil {
		return err
	}
	if err := c.nothing(); err != nil {
		return err
	}
	if err := a.opt.Booking.Rebuild(c.ctx, id); err != nil {
		return noShow(err)
	}
	m, err := a.opt.Live.Map(c.ctx, id)
	if err != nil {
		return noShow(err)
	}
	return c.reply(http.StatusOK, Rebuilt{ShowID: int64(id), Counts: Counts(m.Counts)})
}

// verify checks what must always hold, against the acknowledgements in the
// body, and answers with the report.
func (a *API) verify(c *call) error {
	if a.opt.Verify == nil {
		return switchedOff()
	}
	show, err := c.showParam()
	if err != nil {
		return err
	}
	if c.r.Header.Get("Content-Type") != "" {
		if err := c.mediaType("application/x-ndjson", "application/json", "text/plain", "application/octet-stream"); err != nil {
			return err
		}
	}
	body, err := c.limited()
	if err != nil {
		return err
	}
	report, err := a.opt.Verify(c.ctx, show, body)
	if err != nil {
		return noShow(err)
	}
	return c.reply(http.StatusOK, report)
}

// showParam reads the query's show; 0: none is given.
func (c *call) showParam() (seatflow.ShowID, error) {
	text := c.r.URL.Query().Get("show")
	if text == "" || text == "0" {
		return 0, nil
	}
	id, ok := parseID(text)
	if !ok {
		return 0, invalid("show", "must be a whole number from 1")
	}
	return seatflow.ShowID(id), nil
}

// reconcile holds the views against the facts.
func (a *API) reconcile(c *call) error {
	show, err := c.showParam()
	if err != nil {
		return err
	}
	dryRun := false
	switch text := c.r.URL.Query().Get("dryRun"); text {
	case "", "false":
	case "true":
		dryRun = true
	default:
		return invalid("dryRun", "must be true or false")
	}
	if err := c.nothing(); err != nil {
		return err
	}
	if a.opt.Reconcile == nil {
		return switchedOff()
	}
	report, err := a.opt.Reconcile(c.ctx, show, dryRun)
	if err != nil {
		return noShow(err)
	}
	return c.reply(http.StatusOK, report)
}
