package ledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// A plan is stored as one JSON document of these types. Their names are the
// stored form: they may gain fields and never change or lose one.
type (
	planDoc struct {
		Width      float64       `json:"width"`
		Height     float64       `json:"height"`
		Categories []categoryDoc `json:"categories"`
		Zones      []zoneDoc     `json:"zones"`
		Seats      []seatDoc     `json:"seats"`
	}
	categoryDoc struct {
		Name  string `json:"name"`
		Color string `json:"color"`
	}
	zoneDoc struct {
		Name  string    `json:"name"`
		Areas []areaDoc `json:"areas"`
	}
	areaDoc struct {
		Shape       string       `json:"shape"`
		X           float64      `json:"x"`
		Y           float64      `json:"y"`
		Rotation    float64      `json:"rotation,omitzero"`
		Color       string       `json:"color,omitzero"`
		BorderColor string       `json:"borderColor,omitzero"`
		Width       float64      `json:"width,omitzero"`
		Height      float64      `json:"height,omitzero"`
		RadiusX     float64      `json:"radiusX,omitzero"`
		RadiusY     float64      `json:"radiusY,omitzero"`
		Points      [][2]float64 `json:"points,omitzero"`
		Text        string       `json:"text,omitzero"`
		TextX       float64      `json:"textX,omitzero"`
		TextY       float64      `json:"textY,omitzero"`
		TextSize    float64      `json:"textSize,omitzero"`
		TextColor   string       `json:"textColor,omitzero"`
	}
	seatDoc struct {
		ID       seatflow.SeatID `json:"id"`
		GUID     string          `json:"guid"`
		Zone     int             `json:"zone"`
		Category int             `json:"category"`
		Row      string          `json:"row"`
		Number   string          `json:"number"`
		X        float64         `json:"x"`
		Y        float64         `json:"y"`
		Radius   float64         `json:"radius,omitzero"`
	}
)

func encodePlan(p *seatflow.Plan) ([]byte, error) {
	d := planDoc{Width: p.Width, Height: p.Height, Categories: make([]categoryDoc, len(p.Categories)),
		Zones: make([]zoneDoc, len(p.Zones)), Seats: make([]seatDoc, len(p.Seats))}
	for i, c := range p.Categories {
		d.Categories[i] = categoryDoc(c)
	}
	for i, z := range p.Zones {
		d.Zones[i] = zoneDoc{Name: z.Name, Areas: make([]areaDoc, len(z.Areas))}
		for j, a := range z.Areas {
			d.Zones[i].Areas[j] = areaDoc(a)
		}
	}
	for i, s := range p.Seats {
		d.Seats[i] = seatDoc(s)
	}
	b, err := json.Marshal(&d)
	if err != nil {
		return nil, fmt.Errorf("ledger: plan: %w", err)
	}
	return b, nil
}

func decodePlan(b []byte, p *seatflow.Plan) error {
	var d planDoc
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("ledger: plan %d of hall %d: %w", p.Version, p.Hall, err)
	}
	p.Width, p.Height = d.Width, d.Height
	for _, c := range d.Categories {
		p.Categories = append(p.Categories, seatflow.Category(c))
	}
	for _, z := range d.Zones {
		zone := seatflow.Zone{Name: z.Name}
		for _, a := range z.Areas {
			zone.Areas = append(zone.Areas, seatflow.Area(a))
		}
		p.Zones = append(p.Zones, zone)
	}
	p.Seats = make([]seatflow.PlanSeat, len(d.Seats))
	for i, s := range d.Seats {
		p.Seats[i] = seatflow.PlanSeat(s)
	}
	return nil
}

// HallSeats implements [seatflow.Catalog].
func (l *Ledger) HallSeats(ctx context.Context, hall seatflow.HallID) (seatflow.HallSeats, error) {
	var h seatflow.HallSeats
	err := l.consistently(ctx, func(q querier) (err error) {
		h, err = hallSeats(ctx, q, hall)
		return err
	})
	return h, err
}

func hallSeats(ctx context.Context, q querier, hall seatflow.HallID) (seatflow.HallSeats, error) {
	h := seatflow.HallSeats{ByGUID: map[string]seatflow.SeatID{}, NextID: 1}
	var one int
	if err := q.QueryRowContext(ctx, "SELECT 1 FROM hall WHERE id = ?", int64(hall)).Scan(&one); err != nil {
		return h, notFound(err)
	}
	if err := q.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM seat_plan WHERE hall_id = ?", int64(hall)).Scan(&h.Latest); err != nil {
		return h, err
	}
	rows, err := q.QueryContext(ctx, "SELECT seat_id, guid FROM seat WHERE hall_id = ?", int64(hall))
	if err != nil {
		return h, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			id   seatflow.SeatID
			guid string
		)
		if err := rows.Scan(&id, &guid); err != nil {
			return h, err
		}
		h.ByGUID[guid] = id
		h.NextID = max(h.NextID, id+1)
	}
	return h, rows.Err()
}

var planSeatTable = newInsertTable("seat", "hall_id, seat_id, guid, since", 4, "", "", false)

// PublishPlan implements [seatflow.Catalog]. A seat whose guid has an id must
// keep it, and guids and ids must be distinct; else an error that is none of
// the port's.
func (l *Ledger) PublishPlan(ctx context.Context, plan *seatflow.Plan) error {
	document, err := encodePlan(plan) // outside the transaction
	if err != nil {
		return err
	}
	source := plan.Source
	if source == nil {
		source = []byte{}
	}
	if document, err = l.dialect.pack(document); err != nil {
		return err
	}
	if source, err = l.dialect.pack(source); err != nil {
		return err
	}
	_, err = change(ctx, l, len(document)+len(source)+64*len(plan.Seats), func(t *tx) (struct{}, error) {
		var none struct{}
		known, err := hallSeats(t.ctx, t, plan.Hall)
		if errors.Is(err, seatflow.ErrNotFound) {
			return none, domainError{fmt.Errorf("ledger: hall %d: %w", plan.Hall, err)}
		}
		if err != nil {
			return none, err
		}
		fresh, err := freshSeats(plan, known)
		if err != nil {
			return none, domainError{err}
		}
		if _, err := t.exec("INSERT INTO seat_plan (hall_id, version, name, document, source, created_at) VALUES (?,?,?,?,?,?)",
			int64(plan.Hall), int64(plan.Version), plan.Name, document, source, micros(l.opts.Clock.Now())); err != nil {
			return none, err
		}
		values := make([]driver.NamedValue, 0, len(fresh)*planSeatTable.columns)
		for _, s := range fresh {
			values = appendValues(values, int64(plan.Hall), int64(s.ID), s.GUID, int64(plan.Version))
		}
		return none, t.insertRows(rowsOf{planSeatTable, values})
	})
	return err
}

// freshSeats checks a plan against what its hall has and returns the seats
// that have no row yet.
func freshSeats(plan *seatflow.Plan, known seatflow.HallSeats) ([]*seatflow.PlanSeat, error) {
	if plan.Version != known.Latest+1 {
		return nil, fmt.Errorf("ledger: plan version %d after %d: %w", plan.Version, known.Latest, seatflow.ErrWrongState)
	}
	var fresh []*seatflow.PlanSeat
	ids, guids := make(map[seatflow.SeatID]bool, len(plan.Seats)), make(map[string]bool, len(plan.Seats))
	first := seatflow.SeatID(0)
	for i := range plan.Seats {
		s := &plan.Seats[i]
		if ids[s.ID] || guids[s.GUID] {
			return nil, fmt.Errorf("ledger: plan repeats seat %d (%q)", s.ID, s.GUID)
		}
		if s.Zone < 0 || s.Zone >= len(plan.Zones) || s.Category < 0 || s.Category >= len(plan.Categories) {
			return nil, fmt.Errorf("ledger: seat %d (%q) has no such zone or category", s.ID, s.GUID)
		}
		ids[s.ID], guids[s.GUID] = true, true
		if id, ok := known.ByGUID[s.GUID]; ok {
			if id != s.ID {
				return nil, fmt.Errorf("ledger: seat %q is %d, not %d", s.GUID, id, s.ID)
			}
			continue
		}
		if s.ID < known.NextID {
			return nil, fmt.Errorf("ledger: new seat %d, the next id is %d: %w", s.ID, known.NextID, seatflow.ErrWrongState)
		}
		if first == 0 || s.ID < first {
			first = s.ID
		}
		fresh = append(fresh, s)
	}
	if len(fresh) > 0 && first != known.NextID {
		return nil, fmt.Errorf("ledger: new seats from %d, the next id is %d: %w", first, known.NextID, seatflow.ErrWrongState)
	}
	return fresh, nil
}

// Plan implements [seatflow.Catalog].
func (l *Ledger) Plan(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) (_ *seatflow.Plan, err error) {
	defer l.unread(&err)
	query, args := "SELECT version, name, document, source FROM seat_plan WHERE hall_id = ? ORDER BY version DESC LIMIT 1", []any{int64(hall)}
	if version != 0 {
		query, args = "SELECT version, name, document, source FROM seat_plan WHERE hall_id = ? AND version = ?", []any{int64(hall), int64(version)}
	}
	p := &seatflow.Plan{Hall: hall}
	var document []byte
	if err := l.reads.QueryRowContext(ctx, query, args...).Scan(&p.Version, &p.Name, &document, &p.Source); err != nil {
		return nil, notFound(err)
	}
	if document, err = l.dialect.unpack(document); err != nil {
		return nil, fmt.Errorf("ledger: plan %d of hall %d: %w", p.Version, hall, err)
	}
	if p.Source, err = l.dialect.unpack(p.Source); err != nil {
		return nil, fmt.Errorf("ledger: source of plan %d of hall %d: %w", p.Version, hall, err)
	}
	if len(p.Source) == 0 {
		p.Source = nil
	}
	if err := decodePlan(document, p); err != nil {
		return nil, err
	}
	return p, nil
}
