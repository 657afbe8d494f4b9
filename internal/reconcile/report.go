package reconcile

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"seatflow"
)

// Report tells what a round found and did. It encodes to JSON.
type Report struct {
	ID      string                  `json:"round"` // as in the audit table
	At      time.Time               `json:"at"`
	Took    time.Duration           `json:"-"`
	TookMs  int64                   `json:"tookMs"`
	DryRun  bool                    `json:"dryRun"`
	Shows   int                     `json:"shows"` // looked at
	Checks  []CheckReport           `json:"checks"`
	Repairs []seatflow.RepairRecord `json:"repairs,omitempty"` // made, or with a dry run due
	Alarms  []Alarm                 `json:"alarms,omitempty"`
	Skipped []Skipped               `json:"skipped,omitempty"`

	budget map[seatflow.Drift]int // repairs left in this round
}

// CheckReport is one check's part of a round.
type CheckReport struct {
	Number int            `json:"number"`
	Check  seatflow.Drift `json:"check"`
	Fixed  int            `json:"fixed"`
	Left   int            `json:"left"`  // found and not repaired: over the limit, or a dry run
	Young  int            `json:"young"` // differences below the grace time, which are left to those who made them
}

// Alarm is a show that was left as it is because a person should look first.
type Alarm struct {
	Show        seatflow.ShowID `json:"show"`
	Sold        int             `json:"sold"`        // sold seats in the view
	Unaccounted int             `json:"unaccounted"` // of them, those that the ledger has no account of
	Why         string          `json:"why"`
}

// Skipped is a show that was not checked.
type Skipped struct {
	Show seatflow.ShowID `json:"show"`
	Why  string          `json:"why"`
}

// of returns a check's part.
func (r *Report) of(d seatflow.Drift) *CheckReport { return &r.Checks[d.Number()-1] }

// FixedBy returns how many repairs were made under one check.
func (r Report) FixedBy(d seatflow.Drift) int {
	for i := range r.Checks {
		if r.Checks[i].Check == d {
			return r.Checks[i].Fixed
		}
	}
	return 0
}

// Fixed returns how many repairs were made.
func (r Report) Fixed() int { return r.sum(func(c *CheckReport) int { return c.Fixed }) }

// Left returns how many differences were found and left.
func (r Report) Left() int { return r.sum(func(c *CheckReport) int { return c.Left }) }

// Young returns how many differences were too young to be judged.
func (r Report) Young() int { return r.sum(func(c *CheckReport) int { return c.Young }) }

func (r Report) sum(part func(c *CheckReport) int) int {
	n := 0
	for i := range r.Checks {
		n += part(&r.Checks[i])
	}
	return n
}

// Clean reports whether every show was checked and nothing was found.
func (r Report) Clean() bool {
	return r.Fixed() == 0 && r.Left() == 0 && len(r.Alarms) == 0 && len(r.Skipped) == 0
}

// Print writes the report as tables that people read.
func (r Report) Print(w io.Writer) error {
	title := "Round " + r.ID
	if r.DryRun {
		title = "Dry run " + r.ID + ": nothing was changed"
	}
	out := &printer{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	out.line("%s\n%d shows in %v\n", title, r.Shows, r.Took.Round(time.Millisecond))
	out.line("CHECK\tFIXED\tLEFT\tYOUNG")
	for _, c := range r.Checks {
		out.line("%d %s\t%d\t%d\t%d", c.Number, c.Check, c.Fixed, c.Left, c.Young)
	}
	out.flush()
	if len(r.Repairs) > 0 {
		out.line("\nSHOW\tCHECK\tORDER\tSEATS\tWAS\tNOW\tCAUSE")
		for i := range r.Repairs {
			p := &r.Repairs[i]
			out.line("%d\t%d\t%s\t%s\t%s\t%s\t%s", p.Show, p.Drift.Number(), orDash(string(p.Order)), seatList(p.Seats), p.Was, p.Now, p.Cause)
		}
		out.flush()
	}
	for _, a := range r.Alarms {
		out.line("\nALARM\tshow %d: %s", a.Show, a.Why)
	}
	for _, s := range r.Skipped {
		out.line("\nSKIPPED\tshow %d: %s", s.Show, s.Why)
	}
	out.flush()
	return out.err
}

type printer struct {
	w   *tabwriter.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) flush() {
	if p.err == nil {
		p.err = p.w.Flush()
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// seatList names a few seats and counts the rest.
func seatList(seats []seatflow.SeatID) string {
	const most = 6
	if len(seats) == 0 {
		return "-"
	}
	var b strings.Builder
	for i, id := range seats {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(seats)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, id)
	}
	return b.String()
}
