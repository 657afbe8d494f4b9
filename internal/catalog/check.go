package catalog

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"seatflow"
)

// Limits of what staff may enter.
const (
	maxName  = 200             // characters of a title or a hall's name
	maxLimit = 50              // seats per user: as many as an order may have
	minHold  = 5 * time.Second // less cannot be paid in
	maxHold  = 24 * time.Hour
	maxPrice = 1_000_000_000_000 // minor units; 50 of them still fit their type a thousand times
)

// checkName judges a title or name.
func checkName(field, s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return invalid(field, "must not be empty")
	case !utf8.ValidString(s):
		return invalid(field, "must be valid UTF-8")
	case utf8.RuneCountInString(s) > maxName:
		return invalid(field, "must have at most %d characters", maxName)
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid(field, "must not contain control characters")
	}
	return nil
}

func checkHall(hall seatflow.Hall) error {
	if err := checkName("name", hall.Name); err != nil {
		return err
	}
	// LoadLocation takes "" and "Local" too, which mean another zone on
	// another machine.
	if hall.Zone == "" || hall.Zone == "Local" || len(hall.Zone) > 64 {
		return invalid("zone", "must be an IANA time zone such as Europe/Berlin")
	}
	if _, err := time.LoadLocation(hall.Zone); err != nil {
		return invalid("zone", "must be an IANA time zone such as Europe/Berlin; %q is not known", hall.Zone)
	}
	return nil
}

// fill gives a show the defaults for what is left zero. now is when its sale
// begins unless it says otherwise.
func (d *Defaults) fill(s *seatflow.Show, now time.Time) {
	s.Starts, s.Ends = s.Starts.UTC(), s.Ends.UTC()
	if s.SaleFrom.IsZero() {
		s.SaleFrom = now
	}
	if s.SaleUntil.IsZero() {
		s.SaleUntil = s.Starts
	}
	s.SaleFrom, s.SaleUntil = s.SaleFrom.UTC(), s.SaleUntil.UTC()
	if s.LimitPerUser == Inherit {
		s.LimitPerUser = d.LimitPerUser
	}
	if s.HoldFor == 0 {
		s.HoldFor = d.HoldFor
	}
	if s.HoldCap == 0 {
		s.HoldCap = max(d.HoldCap, s.HoldFor)
	}
	if s.ExtendBy == Inherit {
		s.ExtendBy = d.ExtendBy
	}
	if s.Status == "" {
		s.Status = seatflow.ShowPublished
	}
}

func checkShow(s *seatflow.Show, plan *seatflow.Plan) error {
	if err := checkName("title", s.Title); err != nil {
		return err
	}
	for _, t := range []struct {
		field string
		at    time.Time
	}{{"starts", s.Starts}, {"ends", s.Ends}, {"saleFrom", s.SaleFrom}, {"saleUntil", s.SaleUntil}} {
		if y := t.at.Year(); y < 1970 || y > 9000 {
			return invalid(t.field, "must be a time between the years 1970 and 9000")
		}
	}
	switch {
	case !s.Starts.Before(s.Ends):
		return invalid("ends", "must be later than starts")
	case !s.SaleFrom.Before(s.SaleUntil):
		return invalid("saleUntil", "must be later than saleFrom")
	case s.SaleUntil.After(s.Ends):
		return invalid("saleUntil", "must not be later than ends")
	case !currencyForm(s.Currency):
		return invalid("currency", "must be an ISO 4217 code of three capital letters, such as EUR")
	case s.LimitPerUser < 0 || s.LimitPerUser > maxLimit:
		return invalid("limitPerUser", "must be 0 (none) to %d", maxLimit)
	case s.HoldFor < minHold || s.HoldFor > maxHold:
		return invalid("holdSeconds", "must be %d to %d seconds", int(minHold.Seconds()), int(maxHold.Seconds()))
	case s.HoldCap < s.HoldFor || s.HoldCap > maxHold:
		return invalid("holdCapSeconds", "must be at least the hold's %d and at most %d seconds", int(s.HoldFor.Seconds()), int(maxHold.Seconds()))
	case s.ExtendBy < 0 || s.ExtendBy > maxHold:
		return invalid("extendSeconds", "must be 0 to %d seconds", int(maxHold.Seconds()))
	case s.Status != seatflow.ShowPublished && s.Status != seatflow.ShowCancelled:
		return invalid("status", "must be %s or %s", seatflow.ShowPublished, seatflow.ShowCancelled)
	}
	return checkPrices(s, plan)
}

func currencyForm(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// checkPrices wants prices for categories of the plan, and at least one seat
// to sell.
func checkPrices(s *seatflow.Show, plan *seatflow.Plan) error {
	category := make(map[string]bool, len(plan.Categories))
	for _, c := range plan.Categories {
		category[c.Name] = true
	}
	for name, price := range s.Prices {
		switch {
		case !category[name]:
			return invalid("prices."+name, "the plan has no such category")
		case price < 0 || price > maxPrice:
			return invalid("prices."+name, "must be 0 to %d in minor units", int64(maxPrice))
		}
	}
	for i := range plan.Seats {
		if _, ok := s.Prices[plan.Categories[plan.Seats[i].Category].Name]; ok {
			return nil
		}
	}
	return invalid("prices", "must name a price for at least one category that has seats")
}
