package reservation

import (
	"fmt"
	"strconv"
	"time"
)

// Date is a day on a room's calendar.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the day on which an instant falls in a zone.
func DateOf(t time.Time, zone *time.Location) Date {
	y, m, d := t.In(zone).Date()
	return Date{y, m, d}
}

// ParseDate reads "2026-03-29".
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return Date{}, fmt.Errorf("reservation: %q is not a date like 2026-03-29", s)
	}
	return DateOf(t, time.UTC), nil
}

// String returns "2026-03-29".
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day) }

// Add returns the day n days later. It counts days of the calendar, whatever
// their lengths.
func (d Date) Add(n int) Date {
	return DateOf(time.Date(d.Year, d.Month, d.Day+n, 12, 0, 0, 0, time.UTC), time.UTC)
}

// Before reports whether d comes before e.
func (d Date) Before(e Date) bool {
	if d.Year != e.Year {
		return d.Year < e.Year
	}
	if d.Month != e.Month {
		return d.Month < e.Month
	}
	return d.Day < e.Day
}

// Weekday returns the day of the week.
func (d Date) Weekday() time.Weekday {
	return time.Date(d.Year, d.Month, d.Day, 12, 0, 0, 0, time.UTC).Weekday()
}

// Clock is a time of day as the wall shows it, in minutes since 00:00. 1440
// and more belong to the next day: a room that closes at 02:00 closes at 1560.
type Clock int

// MaxClock is the latest time that belongs to a day: noon of the next.
const MaxClock Clock = 36 * 60

// ParseClock reads "08:30"; hours from 24 on are the next day's.
func ParseClock(s string) (Clock, error) {
	if len(s) == 5 && s[2] == ':' {
		h, herr := strconv.ParseUint(s[:2], 10, 8)
		m, merr := strconv.ParseUint(s[3:], 10, 8)
		if c := Clock(h*60 + m); herr == nil && merr == nil && m < 60 && c <= MaxClock {
			return c, nil
		}
	}
	return 0, fmt.Errorf("reservation: %q is not a time like 08:30, up to 36:00", s)
}

// String returns "08:30".
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

// Existence says how often a local time comes.
type Existence uint8

// A local time comes once; or never, because the clock was put forward over
// it; or twice, because the clock was put back to before it.
const (
	Once Existence = iota
	Never
	Twice
)

// Resolve is the one function that turns a local time, on its own date, into
// an instant: for making slots, showing them and booking them.
//
// A time that comes twice is its first coming, so that slots which touch on
// the wall touch in time, and the hour that comes twice belongs to the slot it
// is in. A time that never comes is the instant at which the clock was put
// forward.
func Resolve(d Date, c Clock, zone *time.Location) (time.Time, Existence) {
	wall := time.Date(d.Year, d.Month, d.Day, 0, int(c), 0, 0, time.UTC).Unix()
	// No zone is further from UTC than 26 hours, nor changes twice in so short
	// a time: the zones in effect before and after are the only candidates.
	const reach = 26 * 60 * 60
	before, after := offsetAt(wall-reach, zone), offsetAt(wall+reach, zone)
	early, late := wall-before, wall-after
	if late < early {
		early, late = late, early
	}
	first, second := offsetAt(early, zone) == wall-early, offsetAt(late, zone) == wall-late
	switch {
	case first && second && early != late:
		return at(early, zone), Twice
	case first:
		return at(early, zone), Once
	case second:
		return at(late, zone), Once
	}
	// Between the two lies the instant at which before became after.
	_, end := at(early, zone).ZoneBounds()
	return end, Never
}

func at(unix int64, zone *time.Location) time.Time { return time.Unix(unix, 0).In(zone) }

func offsetAt(unix int64, zone *time.Location) int64 {
	_, offset := at(unix, zone).Zone()
	return int64(offset)
}
