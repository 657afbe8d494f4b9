package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"time"

	"seatflow"
	"seatflow/internal/seatplan"
)

// Service is the catalog. It may be used concurrently and needs no Close.
type Service struct {
	ledger seatflow.Catalog
	clock  seatflow.Clock
	log    *slog.Logger
	cache  cache

	defaults Defaults
}

// Inherit stands, in a new show, for the default of a value that may well be
// zero: LimitPerUser and ExtendBy.
const Inherit = -1

// Defaults are what a new show starts with where it does not say.
type Defaults struct {
	LimitPerUser int
	HoldFor      time.Duration
	HoldCap      time.Duration
	ExtendBy     time.Duration
}

// New returns a catalog over a ledger.
func New(ledger seatflow.Catalog, clock seatflow.Clock, log *slog.Logger) *Service {
	s := &Service{ledger: ledger, clock: clock, log: log, defaults: Defaults{
		LimitPerUser: seatflow.DefaultLimitPerUser, HoldFor: seatflow.DefaultHoldFor,
		HoldCap: seatflow.DefaultHoldCap, ExtendBy: seatflow.DefaultExtendBy,
	}}
	s.cache.init()
	return s
}

// SetDefaults replaces the defaults, which are those of package seatflow. It
// must come before the first use.
func (s *Service) SetDefaults(d Defaults) { s.defaults = d }

// invalid is a refusal that names the field.
func invalid(field, format string, args ...any) error {
	return &seatflow.Error{
		Code: seatflow.CodeInvalid, Reason: seatflow.ReasonField, Field: field,
		Args: []any{fmt.Sprintf(format, args...)},
	}
}

// public gives an error of the ledger the code that callers see.
func public(err error, what string, id any) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("catalog: %s %v: %w", what, id, err)
	switch {
	case errors.Is(err, seatflow.ErrNotFound):
		return &seatflow.Error{Code: seatflow.CodeNotFound, Err: err}
	case errors.Is(err, seatflow.ErrWrongState):
		return &seatflow.Error{Code: seatflow.CodeWrongState, Reason: seatflow.ReasonVersion, Err: err}
	case errors.Is(err, seatflow.ErrUnknownCommit):
		return &seatflow.Error{Code: seatflow.CodeSystem, Reason: seatflow.ReasonOutcomeUnknown, Err: err}
	case errors.Is(err, seatflow.ErrNotCommitted):
		return &seatflow.Error{Code: seatflow.CodeNotReady, Reason: seatflow.ReasonLedgerDown, RetryAfter: time.Second, Err: err}
	}
	return err
}

// CreateHall stores a hall and returns it with its id. The name has 1 to 200
// characters, the zone is an IANA time zone.
func (s *Service) CreateHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error) {
	if err := checkHall(hall); err != nil {
		return seatflow.Hall{}, err
	}
	if hall.CreatedAt.IsZero() {
		hall.CreatedAt = s.clock.Now().UTC()
	}
	hall, err := s.ledger.CreateHall(ctx, hall)
	return hall, public(err, "create hall", strconv.Quote(hall.Name))
}

// Halls lists halls by id, after one.
func (s *Service) Halls(ctx context.Context, after seatflow.HallID, limit int) ([]seatflow.Hall, error) {
	halls, err := s.ledger.Halls(ctx, after, limit)
	return halls, public(err, "halls after", after)
}

// Hall reads a hall.
func (s *Service) Hall(ctx context.Context, id seatflow.HallID) (seatflow.Hall, error) {
	hall, err := s.ledger.Hall(ctx, id)
	return hall, public(err, "hall", id)
}

// Plan reads a published plan with its source; version 0 is the latest.
func (s *Service) Plan(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) (*seatflow.Plan, error) {
	plan, err := s.ledger.Plan(ctx, hall, version)
	if err != nil {
		return nil, public(err, "plan of hall", hall)
	}
	return plan, nil
}

// publishTries bounds how often a plan is renumbered because someone else
// published one meanwhile.
const publishTries = 8

// ImportPlan publishes a document as the hall's next plan version. Seats that
// any earlier version had keep their ids. Faults in the document are a
// *seatflow.Error with ReasonPlanFaults.
func (s *Service) ImportPlan(ctx context.Context, hall seatflow.HallID, doc *seatplan.Document) (*seatflow.Plan, error) {
	for range publishTries {
		known, err := s.ledger.HallSeats(ctx, hall)
		if err != nil {
			return nil, public(err, "seats of hall", hall)
		}
		plan, err := doc.Plan(hall, known)
		if err != nil {
			var faults *seatplan.FaultsError
			if errors.As(err, &faults) {
				return nil, faults.Public()
			}
			return nil, err
		}
		err = s.ledger.PublishPlan(ctx, plan)
		if errors.Is(err, seatflow.ErrUnknownCommit) {
			err = s.settlePublish(ctx, plan, err)
		}
		switch {
		case err == nil:
			s.log.Info("plan published", "hall", hall, "version", plan.Version, "seats", len(plan.Seats))
			return plan, nil
		case !errors.Is(err, seatflow.ErrWrongState):
			return nil, public(err, "publish a plan of hall", hall)
		}
	}
	return nil, &seatflow.Error{
		Code: seatflow.CodeWrongState, Reason: seatflow.ReasonVersion,
		Err: fmt.Errorf("catalog: hall %d: others published %d times meanwhile", hall, publishTries),
	}
}

// settlePublish finds out what became of a publication whose commit is
// unknown: nil if this plan stands, ErrWrongState if another took its version
// or none has it yet (so it may be tried again: the version is a fence), or
// the unknown error when it cannot be read.
func (s *Service) settlePublish(ctx context.Context, plan *seatflow.Plan, unknown error) error {
	stored, err := s.ledger.Plan(ctx, plan.Hall, plan.Version)
	switch {
	case errors.Is(err, seatflow.ErrNotFound):
		return seatflow.ErrWrongState
	case err != nil:
		return unknown
	case bytes.Equal(stored.Source, plan.Source):
		return nil
	}
	return seatflow.ErrWrongState
}

// partition gives the shows of a hall one shard.
func partition(hall seatflow.HallID) seatflow.Partition {
	h := fnv.New32a()
	h.Write(strconv.AppendInt(nil, int64(hall), 10))
	return seatflow.Partition(h.Sum32() % seatflow.Partitions)
}

// CreateShow stores a show and returns it as stored. Plan version 0 is the
// hall's latest. What is left zero is filled in: the sale begins now and ends
// at the start, the hold lasts as the defaults say. Of LimitPerUser and
// ExtendBy zero means none, and Inherit the default.
func (s *Service) CreateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	plan, err := s.planOf(ctx, show.Hall, show.PlanVersion)
	if err != nil {
		return seatflow.Show{}, err
	}
	now := s.clock.Now().UTC()
	show.PlanVersion = plan.Version
	s.defaults.fill(&show, now)
	if err := checkShow(&show, plan); err != nil {
		return seatflow.Show{}, err
	}
	show.ID, show.Generation, show.Version = 0, 0, 0
	show.Partition = partition(show.Hall)
	show.CreatedAt = now
	created, err := s.ledger.CreateShow(ctx, show)
	if err != nil {
		return seatflow.Show{}, public(err, "create show in hall", show.Hall)
	}
	return created, nil
}

// planOf reads the plan that a show names, and tells which of its fields is
// wrong when there is none.
func (s *Service) planOf(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) (*seatflow.Plan, error) {
	if version < 0 {
		return nil, invalid("planVersion", "must be a published version, or 0 for the latest")
	}
	plan, err := s.ledger.Plan(ctx, hall, version)
	if err == nil {
		return plan, nil
	}
	if !errors.Is(err, seatflow.ErrNotFound) {
		return nil, public(err, "plan of hall", hall)
	}
	if _, err := s.ledger.Hall(ctx, hall); errors.Is(err, seatflow.ErrNotFound) {
		return nil, invalid("hallId", "there is no hall %d", hall)
	} else if err != nil {
		return nil, public(err, "hall", hall)
	}
	if version == 0 {
		return nil, invalid("hallId", "hall %d has no plan yet", hall)
	}
	return nil, invalid("planVersion", "hall %d has no plan version %d", hall, version)
}

// moveLead is how long before its sale a show may still move to another
// partition: by then every node has read its row again.
const moveLead = TTL + loadTime

// UpdateShow replaces what may change of a show: title, times, sale window,
// prices, limits, status and, until shortly before its sale, partition, if
// show.Version is the one stored. Hall, plan and currency cannot change;
// generation is not the caller's. A category that has a price keeps one,
// because its seats may be sold: to end its sale block them.
//
// When a category gains a price its seats join the show, and in another
// partition the show has no view yet: the caller must rebuild it; NeedsView
// tells.
func (s *Service) UpdateShow(ctx context.Context, show seatflow.Show) (seatflow.Show, error) {
	old, err := s.ledger.Show(ctx, show.ID)
	if err != nil {
		return seatflow.Show{}, public(err, "show", show.ID)
	}
	if show.Version != old.Version {
		return seatflow.Show{}, public(seatflow.ErrWrongState, "show", show.ID)
	}
	switch {
	case show.Hall != old.Hall:
		return seatflow.Show{}, invalid("hallId", "cannot change: the show's seats are those of hall %d", old.Hall)
	case show.PlanVersion != old.PlanVersion:
		return seatflow.Show{}, invalid("planVersion", "cannot change: the show's seats are those of version %d", old.PlanVersion)
	case show.Currency != old.Currency:
		return seatflow.Show{}, invalid("currency", "cannot change: orders are in %s", old.Currency)
	}
	if show.Partition != old.Partition {
		if show.Partition >= seatflow.Partitions {
			return seatflow.Show{}, invalid("partition", "must be 0 to %d", seatflow.Partitions-1)
		}
		if !s.clock.Now().Add(moveLead).Before(old.SaleFrom) {
			return seatflow.Show{}, invalid("partition", "can change until %d seconds before the sale begins", int(moveLead.Seconds()))
		}
	}
	show.Generation, show.CreatedAt = old.Generation, old.CreatedAt
	s.defaults.fill(&show, old.CreatedAt)
	plan, err := s.cache.plan(ctx, s.ledger, show.Hall, show.PlanVersion)
	if err != nil {
		return seatflow.Show{}, public(err, "plan of hall", show.Hall)
	}
	if err := checkShow(&show, plan); err != nil {
		return seatflow.Show{}, err
	}
	for category := range old.Prices {
		if _, ok := show.Prices[category]; !ok {
			return seatflow.Show{}, invalid("prices."+category, "was on sale and must keep a price; block its seats to end its sale")
		}
	}
	updated, err := s.ledger.UpdateShow(ctx, show)
	// Whatever came of it, what is cached may no longer be so.
	s.cache.forget(show.ID)
	if errors.Is(err, seatflow.ErrWrongState) && show.Partition != old.Partition {
		if now, again := s.ledger.Show(ctx, show.ID); again == nil && now.Version == show.Version {
			return seatflow.Show{}, invalid("partition", "cannot change while an order of the show is pending")
		}
	}
	if err != nil {
		return seatflow.Show{}, public(err, "update show", show.ID)
	}
	return updated, nil
}

// NeedsView reports whether a change of a show calls for another view: it put
// more categories on sale, so that the seats of its view are no longer all
// there are, or it moved.
func NeedsView(before, after *seatflow.Show) bool {
	if before.Partition != after.Partition {
		return true
	}
	for category := range after.Prices {
		if _, ok := before.Prices[category]; !ok {
			return true
		}
	}
	return false
}
