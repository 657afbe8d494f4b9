package reservation

import (
	"fmt"
	"slices"
	"time"
)

// Opening is a stretch of a day during which a room is open and cut into
// slots.
type Opening struct {
	From, Until Clock // half-open
	Length, Gap int   // minutes
}

// MaxSlotsPerDay bounds what one day's rules may make.
const MaxSlotsPerDay = 288

// Rules say when a room is open. A date in Exceptions replaces its weekday's
// openings; an empty list there closes the room.
type Rules struct {
	Weekly     [7][]Opening // by time.Weekday
	Exceptions map[Date][]Opening
}

// Check returns what is wrong with rules, or nil.
func (r *Rules) Check() error {
	for day, openings := range r.Weekly {
		if err := checkDay(openings); err != nil {
			return fmt.Errorf("%v: %w", time.Weekday(day), err)
		}
	}
	for date, openings := range r.Exceptions {
		if err := checkDay(openings); err != nil {
			return fmt.Errorf("%v: %w", date, err)
		}
	}
	return nil
}

func checkDay(openings []Opening) error {
	slots := 0
	last := Clock(0)
	for _, o := range openings {
		switch {
		case o.From < last:
			return fmt.Errorf("%v–%v begins before what comes before it has ended", o.From, o.Until)
		case o.From < 0 || o.From >= 24*60:
			return fmt.Errorf("%v–%v does not begin on its day", o.From, o.Until)
		case o.Until <= o.From || o.Until > MaxClock:
			return fmt.Errorf("%v–%v does not end after it begins, or ends after noon of the next day", o.From, o.Until)
		case o.Length < 5 || o.Length > 24*60:
			return fmt.Errorf("slots of %d minutes: must be 5 to 1440", o.Length)
		case o.Gap < 0 || o.Gap > 24*60:
			return fmt.Errorf("a gap of %d minutes: must be 0 to 1440", o.Gap)
		}
		last = o.Until
		slots += len(o.cut())
	}
	if slots > MaxSlotsPerDay {
		return fmt.Errorf("%d slots: a day has at most %d", slots, MaxSlotsPerDay)
	}
	return nil
}

// wallSlot is a slot as the wall shows it.
type wallSlot struct{ from, until Clock }

// cut returns the whole slots that an opening has room for.
func (o Opening) cut() []wallSlot {
	var slots []wallSlot
	for from := o.From; from+Clock(o.Length) <= o.Until; from += Clock(o.Length + o.Gap) {
		slots = append(slots, wallSlot{from, from + Clock(o.Length)})
	}
	return slots
}

// Slot is a slot that rules make: a real, half-open interval.
type Slot struct {
	Date         Date // the civil date it belongs to: that on which it begins
	From, Until  Clock
	Starts, Ends time.Time
	TwiceAnHour  bool // part of it comes twice on the wall
}

// Skipped is a slot that cannot be, because the clock was put forward over its
// beginning or its end.
type Skipped struct {
	Date        Date
	From, Until Clock
}

// String tells a person.
func (s Skipped) String() string {
	return fmt.Sprintf("%v %v–%v does not exist: the clock is put forward", s.Date, s.From, s.Until)
}

// Slots returns the slots of a day in the order of time, and those that the
// clock skips.
func (r *Rules) Slots(d Date, zone *time.Location) (slots []Slot, skipped []Skipped) {
	openings, special := r.Exceptions[d]
	if !special {
		openings = r.Weekly[d.Weekday()]
	}
	for _, o := range openings {
		for _, w := range o.cut() {
			if s, ok := MakeSlot(d, w.from, w.until, zone); ok {
				slots = append(slots, s)
			} else {
				skipped = append(skipped, Skipped{s.Date, s.From, s.Until})
			}
		}
	}
	slices.SortFunc(slots, func(a, b Slot) int { return a.Starts.Compare(b.Starts) })
	return slots, skipped
}

// MakeSlot resolves one slot; false when the clock is put forward over its
// beginning or its end.
func MakeSlot(d Date, from, until Clock, zone *time.Location) (Slot, bool) {
	for from >= 24*60 { // a day that an opening runs into
		d, from, until = d.Add(1), from-24*60, until-24*60
	}
	s := Slot{Date: d, From: from, Until: until}
	var begins, ends Existence
	s.Starts, begins = Resolve(d, from, zone)
	s.Ends, ends = Resolve(d, until, zone)
	// A slot may end as the clock is put forward: what it has is whole.
	whole := ends != Never || wallBefore(s.Ends, d, until, zone)
	s.TwiceAnHour = s.Ends.Sub(s.Starts) > time.Duration(until-from)*time.Minute
	return s, begins != Never && whole && s.Starts.Before(s.Ends)
}

// wallBefore reports whether the clock showed exactly that time as it was put
// forward.
func wallBefore(change time.Time, d Date, c Clock, zone *time.Location) bool {
	_, before := change.Add(-time.Second).In(zone).Zone()
	wall := time.Date(d.Year, d.Month, d.Day, 0, int(c), 0, 0, time.UTC).Unix()
	return change.Unix()+int64(before) == wall
}
