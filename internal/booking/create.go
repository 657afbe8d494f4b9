package booking

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"seatflow"
	"seatflow/internal/sabotage"
)

// CheckKey refuses an idempotency key that is not 1–64 printable ASCII
// characters; "" stands for no key.
func CheckKey(key string) error {
	if len(key) > seatflow.MaxKeyLen {
		return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonKeyInvalid, Field: "idempotencyKey"}
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonKeyInvalid, Field: "idempotencyKey"}
		}
	}
	return nil
}

// Create holds seats, all or none, and makes the order that owns them. The
// same key and request answer with the first order again; a refusal is not
// remembered, so the same key may try again.
//
// Codes: 1000, 1004, 1005, 1029, 2003, 3001, 3002, 3004, 3008, 3010.
func (s *Service) Create(ctx context.Context, req CreateRequest) (Created, error) {
	created, err := s.create(ctx, req)
	switch {
	case err != nil:
		s.metrics.Orders.Inc(outcomeOf(err))
	case created.Replayed:
		s.metrics.Orders.Inc("replayed")
	default:
		s.metrics.Orders.Inc("created")
	}
	return created, err
}

// outcomeOf names a refusal for the metrics.
func outcomeOf(err error) string {
	switch seatflow.CodeOf(err) {
	case seatflow.CodeInvalid:
		return "invalid"
	case seatflow.CodeSeatsTaken:
		return "taken"
	case seatflow.CodeOverLimit:
		return "over_limit"
	case seatflow.CodeNotOnSale:
		return "not_on_sale"
	case seatflow.CodeNoShow:
		return "no_show"
	case seatflow.CodeNoSeat:
		return "no_seat"
	case seatflow.CodeKeyReused:
		return "key_reused"
	case seatflow.CodeInFlight:
		return "in_flight"
	case seatflow.CodeRateLimited:
		return "busy"
	case seatflow.CodeNotReady:
		return "not_ready"
	}
	return "error"
}

// holdNames are the metrics' names of the outcomes of a hold.
var holdNames = [...]string{"", "not_ready", "held", "yours", "busy", "taken", "over_limit"}

func (s *Service) create(ctx context.Context, req CreateRequest) (Created, error) {
	seats, err := sortSeats(req.Seats, seatflow.MaxSeatsPerOrder)
	if err != nil {
		return Created{}, err
	}
	if strings.TrimSpace(req.Key) == "" {
		if err := s.askAdmission(ctx, req.Actor.User, false)(); err != nil {
			return Created{}, err
		}
		return s.createOnce(ctx, req, seats)
	}
	if err := CheckKey(req.Key); err != nil {
		return Created{}, err
	}
	k := flightKey{req.Actor.User, req.Key}
	mine, first, err := s.flights.enter(ctx, k)
	if err != nil {
		return Created{}, err
	}
	if first != nil {
		return replay(*first, req.Fingerprint)
	}
	var got *seatflow.Order
	defer func() { s.flights.leave(k, mine, got) }()
	// Before anything that could refuse: a replay is a replay even when the
	// sale is over, or its user over the rate.
	admitted := s.askAdmission(ctx, req.Actor.User, true)
	known, err := s.ledger.OrderByKey(ctx, req.Actor.User, req.Key)
	switch {
	case err == nil:
		got = &known
		return replay(known, req.Fingerprint)
	case !errors.Is(err, seatflow.ErrNotFound):
		return Created{}, unavailable(seatflow.ReasonLedgerDown, err)
	}
	if err := admitted(); err != nil {
		return Created{}, err
	}
	created, err := s.createOnce(ctx, req, seats)
	if err == nil {
		got = &created.Order
	}
	return created, err
}

// admittedAlways is the answer of no admission.
func admittedAlways() error { return nil }

// askAdmission asks whether a user may make a request now and returns a
// function that waits for the answer. beside: the caller has something else to
// ask meanwhile.
func (s *Service) askAdmission(ctx context.Context, user seatflow.UserID, beside bool) func() error {
	if s.admits == nil {
		return admittedAlways
	}
	if !beside || !s.admits.Remote() {
		err := s.admits.Admit(ctx, user)
		return func() error { return err }
	}
	answer := make(chan error, 1)
	go func() { answer <- s.admits.Admit(ctx, user) }()
	return func() error { return <-answer }
}

// createOnce makes an order whose key, if any, is not known yet.
func (s *Service) createOnce(ctx context.Context, req CreateRequest, seats []seatflow.SeatID) (Created, error) {
	house, err := s.house(ctx, req.Show)
	if err != nil {
		return Created{}, err
	}
	order, err := s.draft(house, req, seats)
	if err != nil {
		return Created{}, err
	}
	if err := s.ledger.Healthy(ctx); err != nil {
		return Created{}, unavailable(seatflow.ReasonLedgerDown, err)
	}
	return s.holdAndInsert(ctx, house, order, req)
}

// sortSeats returns the ids sorted, refusing an empty list, a repeat or more
// than the most.
func sortSeats(asked []seatflow.SeatID, most int) ([]seatflow.SeatID, error) {
	switch {
	case len(asked) == 0:
		return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonNoSeats, Field: "seats"}
	case len(asked) > most:
		return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonTooManySeats, Field: "seats",
			Args: []any{most}}
	}
	seats := slices.Clone(asked)
	slices.Sort(seats)
	for i := 1; i < len(seats); i++ {
		if seats[i] == seats[i-1] {
			return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonRepeatedSeat, Field: "seats",
				Args: []any{int64(seats[i])}}
		}
	}
	return seats, nil
}

// draft checks the sale window and the seats and prices the order.
func (s *Service) draft(house *seatflow.House, req CreateRequest, seats []seatflow.SeatID) (seatflow.Order, error) {
	show := &house.Show
	if show.Status != seatflow.ShowPublished {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeNoShow}
	}
	now := s.clock.Now()
	if now.Before(show.SaleFrom) {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeNotOnSale, Reason: seatflow.ReasonNotOnSaleYet,
			Args: []any{show.SaleFrom.UTC().Format(time.RFC3339)}}
	}
	if !now.Before(show.SaleUntil) {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeNotOnSale, Reason: seatflow.ReasonSaleOver}
	}
	o := seatflow.Order{
		Attempt: 1, Version: 1, Show: show.ID, User: req.Actor.User, Kind: seatflow.KindSale,
		State: seatflow.OrderPending, Items: make([]seatflow.OrderItem, len(seats)),
		Total: seatflow.Money{Currency: show.Currency}, Key: strings.TrimSpace(req.Key), Fingerprint: req.Fingerprint,
		Device: req.Actor.Device, CreatedAt: now, UpdatedAt: now,
	}
	var missing []seatflow.SeatID
	for i, id := range seats {
		seat := house.Seat(id)
		if seat == nil {
			missing = append(missing, id)
			continue
		}
		price, ok := house.Price(seat)
		if !ok {
			missing = append(missing, id)
			continue
		}
		o.Items[i] = seatflow.OrderItem{Seat: id, Price: price}
		o.Total.Amount += price
	}
	if missing != nil {
		return seatflow.Order{}, &seatflow.Error{Code: seatflow.CodeNoSeat, Seats: missing, Field: "seats"}
	}
	return o, nil
}

// holdFor is the show's hold, or the kiosk's shorter one: nobody stands
// before a kiosk for a quarter of an hour.
func holdFor(show *seatflow.Show, actor seatflow.Actor) time.Duration {
	if actor.Role == seatflow.RoleKiosk {
		return min(show.HoldFor, seatflow.KioskHoldFor)
	}
	return show.HoldFor
}

// holdAndInsert takes the seats in the view and then in the ledger. Each
// reason to begin again (the view was missing, the generation moved, an
// earlier attempt of the same key had to be settled, the number was voided) is
// followed once, so that it ends.
func (s *Service) holdAndInsert(ctx context.Context, house *seatflow.House, order seatflow.Order, req CreateRequest) (Created, error) {
	show := &house.Show
	hold := seatflow.HoldRequest{
		Show: show.Ref(), User: order.User, KeyHash: seatflow.HashKey(order.User, order.Key),
		Seats: order.Seats(), For: holdFor(show, req.Actor), Cap: show.HoldCap, Limit: show.LimitPerUser, Rate: s.showRate,
	}
	if sabotage.On(sabotage.LimitOutsideStep) && hold.Limit > 0 {
		snap, err := s.seats.Snapshot(ctx, hold.Show, seatflow.DetailUsers)
		if err == nil && snap.Users[hold.User]+len(hold.Seats) > hold.Limit {
			return Created{}, &seatflow.Error{Code: seatflow.CodeOverLimit, Reason: seatflow.ReasonOverLimit, Args: []any{hold.Limit, 0}}
		}
		hold.Limit = 0
	}
	var rebuilt, settled, stale, renamed bool
	order.No = s.newNo()
	for {
		hold.Owner = order.Owner()
		reply, err := s.seats.Hold(ctx, hold)
		if err != nil {
			s.metrics.Holds.Inc("unknown")
			if errors.Is(err, seatflow.ErrNotExecuted) {
				return Created{}, unavailable(seatflow.ReasonRebuilding, err)
			}
			// It may have been taken: never say so, and take it back.
			s.giveBack(ctx, hold.Show, hold.Owner, "unknown")
			return Created{}, unavailable(seatflow.ReasonOutcomeUnknown, err)
		}
		if int(reply.Outcome) < len(holdNames) {
			s.metrics.Holds.Inc(holdNames[reply.Outcome])
		}

		switch reply.Outcome {
		case seatflow.OutcomeNotReady:
			if rebuilt {
				return Created{}, unavailable(seatflow.ReasonRebuilding, seatflow.ErrNotReady)
			}
			rebuilt = true
			if err := s.refresh(ctx, show.ID); err != nil {
				return Created{}, unavailable(seatflow.ReasonRebuilding, err)
			}
			continue

		case seatflow.OutcomeBusy:
			return Created{}, &seatflow.Error{Code: seatflow.CodeRateLimited, RetryAfter: reply.RetryAfter}

		case seatflow.OutcomeTaken:
			return Created{}, &seatflow.Error{Code: seatflow.CodeSeatsTaken, Seats: reply.Taken,
				Available: without(hold.Seats, reply.Taken)}

		case seatflow.OutcomeOverLimit:
			return Created{}, &seatflow.Error{Code: seatflow.CodeOverLimit, Reason: seatflow.ReasonOverLimit,
				Args: []any{show.LimitPerUser, reply.Left}}

		case seatflow.OutcomeYours:
			if settled {
				return Created{}, &seatflow.Error{Code: seatflow.CodeInFlight}
			}
			settled = true
			first, err := s.settleFirst(ctx, hold.Show, reply.Owner)
			if err != nil {
				return Created{}, err
			}
			if first != nil {
				return replay(*first, req.Fingerprint)
			}
			continue

		case seatflow.OutcomeHeld:
			order.TakenAt, order.Deadline, order.Cap = reply.TakenAt, reply.Deadline, reply.Cap

		default:
			s.giveBack(ctx, hold.Show, hold.Owner, "error")
			return Created{}, unavailable(seatflow.ReasonRebuilding, errors.New("booking: unknown hold outcome"))
		}

		stored, err := s.insert(ctx, seatflow.NewOrder{Order: order, Generation: reply.Generation, Actor: req.Actor})
		var conflict *seatflow.SeatConflictError
		var exists *seatflow.OrderExistsError
		switch {
		case err == nil:
			return Created{Order: stored}, nil

		case errors.As(err, &conflict):
			// The view let us have what the facts say is another's: it is
			// wrong about this show. Its seats are not announced as free;
			// the whole view is made anew from the facts instead.
			s.log.WarnContext(ctx, "view disagrees with the facts; rebuilding", "show", show.ID, "order", order.No, "seats", conflict.Seats)
			s.metrics.Compensations.Inc("conflict")
			e := &seatflow.Error{Code: seatflow.CodeSeatsTaken, Seats: conflict.Seats, Err: err}
			dctx, cancel := s.detached(ctx)
			defer cancel()
			if rerr := s.Rebuild(dctx, show.ID); rerr != nil {
				s.log.ErrorContext(ctx, "rebuild after a conflict failed", "show", show.ID, "err", rerr)
			} else {
				e.Available = without(hold.Seats, conflict.Seats)
			}
			return Created{}, e

		case errors.As(err, &exists) && exists.Order.No == order.No && exists.Order.State != seatflow.OrderVoid:
			return Created{Order: exists.Order}, nil // ours: an earlier try had committed

		case errors.As(err, &exists) && exists.Order.No == order.No:
			// We slept past the grace time and the number was made void.
			s.giveBack(ctx, hold.Show, hold.Owner, "voided")
			if renamed {
				return Created{}, unavailable(seatflow.ReasonHoldLost, err)
			}
			renamed = true
			order.No = s.newNo()

		case errors.As(err, &exists):
			s.giveBack(ctx, hold.Show, hold.Owner, "key_used")
			return replay(exists.Order, req.Fingerprint)

		case errors.Is(err, seatflow.ErrStaleGeneration):
			// A rebuild may have missed this hold: take it again under the
			// new generation. Repeating it is harmless if it did not.
			if stale {
				s.giveBack(ctx, hold.Show, hold.Owner, "stale")
				return Created{}, unavailable(seatflow.ReasonRebuilding, err)
			}
			stale, rebuilt = true, false

		case errors.Is(err, seatflow.ErrNotFound):
			s.giveBack(ctx, hold.Show, hold.Owner, "no_show")
			return Created{}, &seatflow.Error{Code: seatflow.CodeNoShow, Err: err}

		case errors.Is(err, errStillUnknown):
			// The seats stay held: the guardian settles them when their
			// deadline comes, or the caller's retry does.
			return Created{}, unavailable(seatflow.ReasonOutcomeUnknown, err)

		default:
			s.giveBack(ctx, hold.Show, hold.Owner, "not_committed")
			return Created{}, asError(err, nil)
		}
	}
}

// errStillUnknown: neither the order's row nor its absence could be settled.
var errStillUnknown = errors.New("booking: outcome still unknown")

// insert stores the order, and finds out what became of a commit whose
// outcome is unknown before it returns. It does not end with the caller.
func (s *Service) insert(ctx context.Context, n seatflow.NewOrder) (seatflow.Order, error) {
	ictx, cancel := s.detached(ctx)
	stored, err := s.ledger.InsertOrder(ictx, n)
	cancel()
	if err == nil || !errors.Is(err, seatflow.ErrUnknownCommit) {
		return stored, err
	}
	s.log.WarnContext(ctx, "commit unknown; looking the order up", "order", n.Order.No, "err", err)
	row, lerr := s.stands(ctx, n.Order.No, n.Order.Show)
	switch {
	case lerr != nil:
		return seatflow.Order{}, errors.Join(errStillUnknown, err, lerr)
	case row.State == seatflow.OrderVoid:
		return seatflow.Order{}, errors.Join(seatflow.ErrNotCommitted, err)
	}
	return row, nil
}

// stands returns the row that an order number has for good: the order, or the
// void row that keeps it from ever being inserted.
func (s *Service) stands(ctx context.Context, no seatflow.OrderNo, show seatflow.ShowID) (seatflow.Order, error) {
	dctx, cancel := s.detached(ctx)
	defer cancel()
	row, err := s.ledger.Order(dctx, no, "")
	if err == nil || !errors.Is(err, seatflow.ErrNotFound) {
		return row, err
	}
	if sabotage.On(sabotage.TrustSelect) {
		return seatflow.Order{No: no, State: seatflow.OrderVoid}, nil
	}
	// Not found proves nothing about a commit in flight: make it so.
	return s.ledger.VoidOrder(dctx, no, show, seatflow.System("settle"))
}

// settleFirst settles an earlier attempt of the same user and key that still
// holds seats: its order, or nil after its absence was made a fact and its
// seats were given back.
func (s *Service) settleFirst(ctx context.Context, ref seatflow.ShowRef, first seatflow.Owner) (*seatflow.Order, error) {
	row, err := s.stands(ctx, first.Order, ref.ID)
	if err != nil {
		return nil, unavailable(seatflow.ReasonOutcomeUnknown, err)
	}
	if row.State != seatflow.OrderVoid {
		return &row, nil
	}
	s.giveBack(ctx, ref, first, "void")
	return nil, nil
}

// giveBackFor bounds how long a caller's answer waits until its seats are given
// back.
const giveBackFor = time.Second

// giveBack frees what an owner holds, before the caller is answered; after
// tells what had failed. If the view cannot be reached it is tried again until
// it is confirmed.
func (s *Service) giveBack(ctx context.Context, ref seatflow.ShowRef, owner seatflow.Owner, after string) {
	s.metrics.Compensations.Inc(after)
	if sabotage.On(sabotage.ForgetRelease) {
		return
	}
	// The caller waits for this: a store that does not answer is told later.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.deadline, giveBackFor))
	defer cancel()
	reply, err := s.seats.Release(dctx, ref, owner, nil)
	if after == "unknown" && len(reply.Released) == 0 {
		s.laterSettleUntil(ref.ID, owner, time.Now().Add(lateFor))
		return
	}
	if err != nil && !errors.Is(err, seatflow.ErrNotReady) { // not ready: there is no hold to give back
		s.log.WarnContext(ctx, "could not give seats back; queued", "show", ref.ID, "order", owner.Order, "err", err)
		s.laterSettle(ref.ID, owner)
	}
}

// replay answers a repeated key with its order as it is now.
func replay(o seatflow.Order, fp seatflow.Fingerprint) (Created, error) {
	if o.Fingerprint != fp {
		return Created{}, &seatflow.Error{Code: seatflow.CodeKeyReused}
	}
	return Created{Order: o, Replayed: true}, nil
}

// without returns the asked seats that are not among the others.
func without(asked, others []seatflow.SeatID) []seatflow.SeatID {
	left := make([]seatflow.SeatID, 0, len(asked))
	for _, id := range asked {
		if !slices.Contains(others, id) {
			left = append(left, id)
		}
	}
	return left
}
