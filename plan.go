package seatflow

import "time"

// Hall is a hall or room with numbered seats.
type Hall struct {
	ID        HallID
	Name      string
	Zone      string // IANA time zone; civil dates and times of its shows belong to it
	CreatedAt time.Time
}

// Plan is a published seat plan: immutable, numbered by version in its hall.
// All positions are absolute, in the plan's own units, y growing downwards.
type Plan struct {
	Hall       HallID
	Version    PlanVersion
	Name       string
	Width      float64
	Height     float64
	Categories []Category
	Zones      []Zone
	Seats      []PlanSeat // in plan order; their ids need not be contiguous
	Source     []byte     // the document it was imported from, in the exchange format
}

// Category is a price group of seats.
type Category struct {
	Name  string
	Color string // CSS colour, "#rrggbb"
}

// Zone is a named part of a plan (ground floor, balcony, sector).
type Zone struct {
	Name  string
	Areas []Area
}

// Area is decoration or a standing area: a shape and a text.
type Area struct {
	Shape       string // "rectangle", "circle", "ellipse", "polygon" or "text"
	X, Y        float64
	Rotation    float64 // degrees
	Color       string
	BorderColor string
	Width       float64 // rectangle
	Height      float64
	RadiusX     float64 // circle, ellipse
	RadiusY     float64
	Points      [][2]float64 // polygon, relative to X, Y
	Text        string
	TextX       float64 // relative to X, Y
	TextY       float64
	TextSize    float64
	TextColor   string
}

// PlanSeat is one chair of a plan.
type PlanSeat struct {
	ID       SeatID
	GUID     string // unique in the plan
	Zone     int    // index into Plan.Zones
	Category int    // index into Plan.Categories
	Row      string // what people read, e.g. "17"
	Number   string // what people read, e.g. "4"
	X, Y     float64
	Radius   float64 // 0: the page's default
}

// MaxID returns the highest seat id in the plan, which is the length of a
// house's text form.
func (p *Plan) MaxID() SeatID {
	var most SeatID
	for i := range p.Seats {
		most = max(most, p.Seats[i].ID)
	}
	return most
}

// HallSeats is what a new version of a hall's plan must respect.
type HallSeats struct {
	Latest PlanVersion       // 0: none published yet
	ByGUID map[string]SeatID // every id that any version ever gave
	NextID SeatID
}

// ShowStatus tells whether a show is given.
type ShowStatus string

// The states of a show.
const (
	ShowPublished ShowStatus = "published"
	ShowCancelled ShowStatus = "cancelled"
)

// Show is a screening or an event: a hall and a plan version at a time, with
// a sale window, prices and limits.
type Show struct {
	ID           ShowID
	Hall         HallID
	PlanVersion  PlanVersion
	Title        string
	Starts       time.Time
	Ends         time.Time
	SaleFrom     time.Time
	SaleUntil    time.Time        // half-open: no new order at or after it
	Currency     string           // ISO 4217
	Prices       map[string]int64 // minor units by category name; a category without one is not for sale
	LimitPerUser int              // seats in effect per user; 0: none
	HoldFor      time.Duration
	HoldCap      time.Duration // from the first hold
	ExtendBy     time.Duration
	Status       ShowStatus
	Partition    Partition
	Generation   Generation // of the view that is valid now; a fact
	Version      int64      // grows with every change of the show
	CreatedAt    time.Time
}

// Ref returns what the seat store must know of the show.
func (s *Show) Ref() ShowRef {
	return ShowRef{ID: s.ID, Partition: s.Partition, Until: s.Ends.Add(ViewAfterEnd)}
}

// House is a show together with its plan, indexed for the hot path. It is
// immutable and may be shared.
type House struct {
	Show Show
	Hall Hall
	Plan *Plan

	index []int32 // by seat id: 1 + index into Plan.Seats, 0 for none
}

// NewHouse indexes a show and its plan.
func NewHouse(show Show, hall Hall, plan *Plan) *House {
	h := &House{Show: show, Hall: hall, Plan: plan, index: make([]int32, int(plan.MaxID())+1)}
	for i := range plan.Seats {
		h.index[plan.Seats[i].ID] = int32(i + 1)
	}
	return h
}

// Seat returns the chair of that id, or nil when this plan has none.
func (h *House) Seat(id SeatID) *PlanSeat {
	if id < 1 || int(id) >= len(h.index) || h.index[id] == 0 {
		return nil
	}
	return &h.Plan.Seats[h.index[id]-1]
}

// Price returns the price of a seat in minor units, and false when its
// category is not for sale.
func (h *House) Price(seat *PlanSeat) (int64, bool) {
	p, ok := h.Show.Prices[h.Plan.Categories[seat.Category].Name]
	return p, ok
}

// Base returns a fresh house in text form with every seat of the plan
// available: one state a seat id, at offset id − 1. A seat whose category has
// no price is NoSeat: it is not in this show.
func (h *House) Base() []SeatState {
	base := make([]SeatState, len(h.index)-1)
	for i := range base {
		base[i] = NoSeat
		if s := h.Seat(SeatID(i + 1)); s != nil {
			if _, ok := h.Price(s); ok {
				base[i] = Available
			}
		}
	}
	return base
}
