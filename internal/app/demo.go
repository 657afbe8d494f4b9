package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"seatflow"
	"seatflow/internal/catalog"
	"seatflow/internal/loadgen"
	"seatflow/internal/seatplan"
	"seatflow/internal/verify"
)

// demoHold is short enough that an abandoned hold comes back while one looks;
// when everything is to be sold, nobody waits for it long.
const (
	demoHold        = 90 * time.Second
	demoHoldSoldOut = 15 * time.Second
)

// DemoOptions say what a demo shows.
type DemoOptions struct {
	Plan         string // file of a seat plan; "": a theatre of our own
	Disambiguate string // "" or "zone"
	UntilSoldOut bool   // end with a proof when everything is sold
	Buyers       int
	Rate         float64
	Pace         float64
	Seed         uint64
	Acks         *loadgen.AckLog
	Out          io.Writer
}

// Demo opens a house with three shows, unless the data folder has shows that
// are given, and lets a crowd in over the public API until the context ends
// or everything is sold. The server must be running.
func (a *App) Demo(ctx context.Context, o DemoOptions) error {
	shows, err := a.demoShows(ctx, o)
	if err != nil {
		return err
	}
	ids := make([]seatflow.ShowID, len(shows))
	for i, h := range shows {
		ids[i] = h.Show.ID
		fmt.Fprintf(o.Out, "  show %d  %-28s %s seats  %s/shows/%d\n", h.Show.ID, h.Show.Title, comma(len(h.Plan.Seats)), a.url, h.Show.ID)
	}
	fmt.Fprintf(o.Out, "\nA crowd of %d comes in: they hold, pay, abandon, cancel and collide. Ctrl-C ends it.\n\n", o.Buyers)

	began := time.Now()
	var last loadgen.Counters
	quiet := false
	crowd, err := loadgen.NewCrowd(loadgen.CrowdOptions{
		URL: a.url, Shows: ids, Buyers: o.Buyers, Rate: o.Rate, Pace: o.Pace, Seed: o.Seed, Acks: o.Acks,
		UntilSoldOut: o.UntilSoldOut, Every: 2 * time.Second,
		Report: func(c loadgen.Counters) {
			if c.Seats == last.Seats && c.SeatsPaid == last.SeatsPaid && o.UntilSoldOut && !quiet {
				quiet = true
				fmt.Fprintf(o.Out, "%5.0fs  … every other seat is held; waiting for abandoned holds to run out\n", time.Since(began).Seconds())
				return
			}
			if c == last {
				return
			}
			last, quiet = c, false
			fmt.Fprintf(o.Out, "%5.0fs  %s seats sold in %s orders · %s collisions · %s cancelled · %s abandoned · %s cards declined · %s errors\n",
				time.Since(began).Seconds(), comma(int(c.SeatsPaid)), comma(int(c.Paid)), comma(int(c.Collisions)),
				comma(int(c.Cancelled)), comma(int(c.Abandoned)), comma(int(c.Declined)), comma(int(c.Errors)))
		},
	})
	if err != nil {
		return err
	}
	if _, err := crowd.Run(ctx); err != nil {
		return err
	}
	if !o.UntilSoldOut || ctx.Err() != nil {
		return nil
	}
	fmt.Fprintln(o.Out, "\nSold out. What must hold now:")
	report := verify.All(ctx, a.ledger, a.seats, ids, nil, verify.WithEnsure(a.booking.EnsureView))
	if err := report.Write(o.Out); err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("%d violations", report.Violations())
	}
	fmt.Fprintf(o.Out, "\nAgain, whenever you like: seatflow verify --data %s\n", a.cfg.Data)
	return nil
}

// demoShows returns the shows that are given, or opens three.
func (a *App) demoShows(ctx context.Context, o DemoOptions) ([]*seatflow.House, error) {
	now := time.Now().UTC()
	given, err := a.catalog.Shows(ctx, 0, now, 100)
	if err != nil {
		return nil, err
	}
	var onSale []*seatflow.House
	for _, h := range given {
		if !now.Before(h.Show.SaleFrom) && now.Before(h.Show.SaleUntil) && h.Show.Status == seatflow.ShowPublished {
			onSale = append(onSale, h)
		}
	}
	if len(onSale) > 0 && o.Plan == "" {
		return onSale, nil
	}
	doc, name, err := demoPlan(o)
	if err != nil {
		return nil, err
	}
	hall, err := a.catalog.CreateHall(ctx, seatflow.Hall{Name: name, Zone: "Europe/Berlin"})
	if err != nil {
		return nil, err
	}
	plan, err := a.catalog.ImportPlan(ctx, hall.ID, doc)
	if err != nil {
		return nil, err
	}
	prices := map[string]int64{}
	for i, c := range plan.Categories {
		prices[c.Name] = max(900, 4900-int64(i)*1000)
	}
	zone, err := time.LoadLocation(hall.Zone)
	if err != nil {
		return nil, err
	}
	hold := demoHold
	if o.UntilSoldOut {
		hold = demoHoldSoldOut
	}
	y, m, d := now.In(zone).Date()
	shows := make([]*seatflow.House, 0, 3)
	for i, title := range []string{"Opening night", "Matinee", "Late show"} {
		hour := []int{20, 14, 23}[i]
		starts := time.Date(y, m, d+1+i, hour, 0, 0, 0, zone).UTC()
		show, err := a.catalog.CreateShow(ctx, seatflow.Show{
			Hall: hall.ID, PlanVersion: plan.Version, Title: title, Starts: starts, Ends: starts.Add(150 * time.Minute),
			SaleFrom: now.Add(-time.Minute), SaleUntil: starts, Currency: "EUR", Prices: prices,
			LimitPerUser: catalog.Inherit, HoldFor: hold, HoldCap: 2 * hold,
			ExtendBy: catalog.Inherit, Status: seatflow.ShowPublished,
		})
		if err != nil {
			return nil, err
		}
		h, err := a.catalog.House(ctx, show.ID)
		if err != nil {
			return nil, err
		}
		shows = append(shows, h)
	}
	return shows, nil
}

func demoPlan(o DemoOptions) (*seatplan.Document, string, error) {
	opts := seatplan.Options{Disambiguate: o.Disambiguate}
	if o.Plan != "" {
		f, err := os.Open(o.Plan)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		doc, err := seatplan.Parse(f, opts)
		return doc, "Theatre", err
	}
	body, err := seatplan.Generate(seatplan.GenerateOptions{Name: "Lindenhof Theatre", Rows: 18, Seats: 28}).JSON()
	if err != nil {
		return nil, "", err
	}
	doc, err := seatplan.Parse(bytes.NewReader(body), opts)
	return doc, "Lindenhof Theatre", err
}

// comma writes a number with thousands separated.
func comma(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
