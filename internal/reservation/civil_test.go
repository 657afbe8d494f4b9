package reservation

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func utc(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		panic(err)
	}
	return t
}

func date(t testing.TB, s string) Date {
	t.Helper()
	d, err := ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func clock(t testing.TB, s string) Clock {
	t.Helper()
	c, err := ParseClock(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestResolve has the instants written out, over both changes of the clock.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		zone, date, clock string
		want              string // UTC
		how               Existence
	}{
		{"Asia/Shanghai", "2026-03-29", "02:30", "2026-03-28 18:30", Once},
		{"Asia/Shanghai", "2026-03-29", "24:00", "2026-03-29 16:00", Once},

		{"Europe/Berlin", "2026-03-29", "01:59", "2026-03-29 00:59", Once},
		{"Europe/Berlin", "2026-03-29", "02:00", "2026-03-29 01:00", Never},
		{"Europe/Berlin", "2026-03-29", "02:59", "2026-03-29 01:00", Never},
		{"Europe/Berlin", "2026-03-29", "03:00", "2026-03-29 01:00", Once},
		{"Europe/Berlin", "2026-03-28", "26:30", "2026-03-29 01:00", Never},
		{"Europe/Berlin", "2026-10-25", "01:59", "2026-10-24 23:59", Once},
		{"Europe/Berlin", "2026-10-25", "02:00", "2026-10-25 00:00", Twice},
		{"Europe/Berlin", "2026-10-25", "02:59", "2026-10-25 00:59", Twice},
		{"Europe/Berlin", "2026-10-25", "03:00", "2026-10-25 02:00", Once},
		{"Europe/Berlin", "2026-10-25", "24:00", "2026-10-25 23:00", Once},

		{"America/St_Johns", "2026-03-08", "01:59", "2026-03-08 05:29", Once},
		{"America/St_Johns", "2026-03-08", "02:30", "2026-03-08 05:30", Never},
		{"America/St_Johns", "2026-03-08", "03:00", "2026-03-08 05:30", Once},
		{"America/St_Johns", "2026-11-01", "01:00", "2026-11-01 03:30", Twice},
		{"America/St_Johns", "2026-11-01", "02:00", "2026-11-01 05:30", Once},

		{"Australia/Lord_Howe", "2026-10-04", "01:59", "2026-10-03 15:29", Once},
		{"Australia/Lord_Howe", "2026-10-04", "02:15", "2026-10-03 15:30", Never},
		{"Australia/Lord_Howe", "2026-10-04", "02:30", "2026-10-03 15:30", Once},
		{"Australia/Lord_Howe", "2026-04-05", "01:29", "2026-04-04 14:29", Once},
		{"Australia/Lord_Howe", "2026-04-05", "01:30", "2026-04-04 14:30", Twice},
		{"Australia/Lord_Howe", "2026-04-05", "02:00", "2026-04-04 15:30", Once},

		// Here midnight itself is skipped, and the last hour of a day comes twice.
		{"America/Santiago", "2026-09-06", "00:00", "2026-09-06 04:00", Never},
		{"America/Santiago", "2026-09-06", "00:59", "2026-09-06 04:00", Never},
		{"America/Santiago", "2026-09-06", "01:00", "2026-09-06 04:00", Once},
		{"America/Santiago", "2026-04-04", "23:00", "2026-04-05 02:00", Twice},
		{"America/Santiago", "2026-04-04", "22:59", "2026-04-05 01:59", Once},
		{"America/Santiago", "2026-04-05", "00:00", "2026-04-05 04:00", Once},
	} {
		got, how := Resolve(date(t, c.date), clock(t, c.clock), zone(t, c.zone))
		if !got.Equal(utc(c.want)) || how != c.how {
			t.Errorf("%s %s %s: %s (%d), want %s (%d)", c.zone, c.date, c.clock,
				got.UTC().Format("2006-01-02 15:04"), how, c.want, c.how)
		}
	}
}

func TestLengthsOfDays(t *testing.T) {
	for _, c := range []struct {
		zone, date string
		hours      float64
	}{
		{"Asia/Shanghai", "2026-03-29", 24}, {"Europe/Berlin", "2026-03-29", 23}, {"Europe/Berlin", "2026-10-25", 25},
		{"Australia/Lord_Howe", "2026-10-04", 23.5}, {"Australia/Lord_Howe", "2026-04-05", 24.5},
		{"America/Santiago", "2026-09-06", 23}, {"America/Santiago", "2026-04-04", 25}, {"America/St_Johns", "2026-11-01", 25},
	} {
		d, z := date(t, c.date), zone(t, c.zone)
		from, _ := Resolve(d, 0, z)
		until, _ := Resolve(d.Add(1), 0, z)
		if h := until.Sub(from).Hours(); h != c.hours {
			t.Errorf("%s %s has %v hours, want %v", c.zone, c.date, h, c.hours)
		}
		if DateOf(from, z) != d || DateOf(until.Add(-time.Minute), z) != d {
			t.Errorf("%s: the first and the last minute of %v are on %v and %v", c.zone, d, DateOf(from, z), DateOf(until.Add(-time.Minute), z))
		}
	}
}

// TestSlotsOverChangesOfTheClock: what is skipped is told, what comes twice is
// one real interval, and slots that touch on the wall touch in time.
func TestSlotsOverChangesOfTheClock(t *testing.T) {
	open := func(from, until string, length, gap int) *Rules {
		r := &Rules{}
		for i := range r.Weekly {
			r.Weekly[i] = []Opening{{clock(t, from), clock(t, until), length, gap}}
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		name, zone, date string
		rules            *Rules
		want             []string // UTC
		skipped          string
	}{
		{"plain", "Asia/Shanghai", "2026-03-29", open("08:00", "12:30", 60, 30),
			[]string{"00:00–01:00", "01:30–02:30", "03:00–04:00"}, "[]"},
		{"forward", "Europe/Berlin", "2026-03-29", open("00:00", "05:00", 60, 0),
			[]string{"23:00–00:00", "00:00–01:00", "01:00–02:00", "02:00–03:00"},
			"[2026-03-29 02:00–03:00 does not exist: the clock is put forward]"},
		{"forward, across", "Europe/Berlin", "2026-03-29", open("01:30", "04:30", 60, 0),
			[]string{"01:30–02:30"},
			"[2026-03-29 01:30–02:30 does not exist: the clock is put forward 2026-03-29 02:30–03:30 does not exist: the clock is put forward]"},
		{"forward, around", "Europe/Berlin", "2026-03-29", open("01:00", "04:00", 180, 0), []string{"00:00–02:00"}, "[]"},
		{"back", "Europe/Berlin", "2026-10-25", open("01:00", "04:00", 60, 0),
			[]string{"23:00–00:00", "00:00–02:00", "02:00–03:00"}, "[]"},
		{"back, halves", "Europe/Berlin", "2026-10-25", open("02:00", "03:30", 30, 0),
			[]string{"00:00–00:30", "00:30–02:00", "02:00–02:30"}, "[]"},
		{"half an hour forward", "Australia/Lord_Howe", "2026-10-04", open("01:00", "04:00", 30, 0),
			[]string{"14:30–15:00", "15:00–15:30", "15:30–16:00", "16:00–16:30", "16:30–17:00"},
			"[2026-10-04 02:00–02:30 does not exist: the clock is put forward]"},
		{"half an hour back", "Australia/Lord_Howe", "2026-04-05", open("01:00", "02:30", 30, 0),
			[]string{"14:00–14:30", "14:30–15:30", "15:30–16:00"}, "[]"},
		{"over midnight that is skipped", "America/Santiago", "2026-09-05", open("22:00", "26:00", 60, 0),
			[]string{"02:00–03:00", "03:00–04:00", "04:00–05:00"},
			"[2026-09-06 00:00–01:00 does not exist: the clock is put forward]"},
		{"over midnight, back", "America/Santiago", "2026-04-04", open("22:00", "25:00", 60, 0),
			[]string{"01:00–02:00", "02:00–04:00", "04:00–05:00"}, "[]"},
		{"half zone", "America/St_Johns", "2026-03-08", open("01:00", "04:00", 60, 0),
			[]string{"04:30–05:30", "05:30–06:30"}, "[2026-03-08 02:00–03:00 does not exist: the clock is put forward]"},
	} {
		slots, skipped := c.rules.Slots(date(t, c.date), zone(t, c.zone))
		var got []string
		for _, s := range slots {
			got = append(got, s.Starts.UTC().Format("15:04")+"–"+s.Ends.UTC().Format("15:04"))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || fmt.Sprint(skipped) != c.skipped {
			t.Errorf("%s: %v, skipped %v", c.name, got, skipped)
		}
	}
}

func TestExceptionsReplaceAWeekday(t *testing.T) {
	r := &Rules{Exceptions: map[Date][]Opening{date(t, "2026-12-25"): nil, date(t, "2026-12-24"): {{600, 720, 60, 0}}}}
	for i := range r.Weekly {
		r.Weekly[i] = []Opening{{480, 1200, 120, 0}}
	}
	for d, want := range map[string]int{"2026-12-23": 6, "2026-12-24": 2, "2026-12-25": 0, "2026-12-26": 6} {
		if slots, _ := r.Slots(date(t, d), time.UTC); len(slots) != want {
			t.Errorf("%s: %d slots, want %d", d, len(slots), want)
		}
	}
}

func TestRulesAreRefused(t *testing.T) {
	for _, o := range [][]Opening{
		{{600, 600, 60, 0}}, {{600, 500, 60, 0}}, {{-1, 600, 60, 0}}, {{1440, 1500, 60, 0}}, {{600, 2161, 60, 0}},
		{{600, 700, 0, 0}}, {{600, 700, -5, 0}}, {{600, 700, 60, -1}}, {{600, 700, 60, 0}, {650, 800, 60, 0}},
		{{0, 1440, 5, 0}, {1440 - 1, 2160, 5, 0}},
	} {
		r := &Rules{Exceptions: map[Date][]Opening{{2026, 1, 1}: o}}
		if r.Check() == nil {
			t.Errorf("accepted %v", o)
		}
	}
	for _, s := range []string{"", "8:00", "08:60", "36:01", "-1:00", "08:0x", "ab:cd"} {
		if c, err := ParseClock(s); err == nil {
			t.Errorf("%q is %v", s, c)
		}
	}
	for _, s := range []string{"", "2026-02-29", "26-01-01", "2026/01/01"} {
		if d, err := ParseDate(s); err == nil {
			t.Errorf("%q is %v", s, d)
		}
	}
}

// TestSlotsNeverOverlap: whatever the rules, the zone and the day.
func TestSlotsNeverOverlap(t *testing.T) {
	zones := []string{"Asia/Shanghai", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Asia/Kathmandu"}
	rapid.Check(t, func(t *rapid.T) {
		z, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		d := Date{2026, 1, 1}.Add(rapid.IntRange(0, 2000).Draw(t, "day"))
		from := Clock(rapid.IntRange(0, 1439).Draw(t, "from"))
		o := Opening{from, from + Clock(rapid.IntRange(5, 720).Draw(t, "long")), rapid.IntRange(5, 180).Draw(t, "length"), rapid.IntRange(0, 30).Draw(t, "gap")}
		r := &Rules{Exceptions: map[Date][]Opening{d: {o}}}
		slots, skipped := r.Slots(d, z)
		if len(slots)+len(skipped) != len(o.cut()) {
			t.Fatalf("%d slots and %d skipped of %d", len(slots), len(skipped), len(o.cut()))
		}
		for i, s := range slots {
			if !s.Starts.Before(s.Ends) || i > 0 && s.Starts.Before(slots[i-1].Ends) {
				t.Fatalf("%v overlaps %v", s, slots[max(i-1, 0)])
			}
			if DateOf(s.Starts, z) != s.Date {
				t.Fatalf("%v begins on %v", s, DateOf(s.Starts, z))
			}
		}
	})
}
