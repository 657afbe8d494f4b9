package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"

	"seatflow"
	"seatflow/internal/live"
)

// show renders a show; counts are left out while its map cannot be read.
func (c *call) show(house *seatflow.House) Show {
	s := &house.Show
	now := c.api.opt.Clock.Now()
	out := Show{
		ID: int64(s.ID), Title: s.Title, Hall: HallRef{ID: int64(s.Hall), Name: house.Hall.Name, Zone: house.Hall.Zone},
		PlanVersion: int(s.PlanVersion), Starts: instant(s.Starts), Ends: instant(s.Ends),
		SaleFrom: instant(s.SaleFrom), SaleUntil: instant(s.SaleUntil), Currency: s.Currency, Prices: s.Prices,
		LimitPerUser: s.LimitPerUser, HoldSeconds: int64(s.HoldFor.Seconds()), HoldCapSeconds: int64(s.HoldCap.Seconds()),
		ExtendSeconds: int64(s.ExtendBy.Seconds()), Status: string(s.Status), Version: s.Version, Partition: int(s.Partition),
		OnSale: s.Status == seatflow.ShowPublished && !now.Before(s.SaleFrom) && now.Before(s.SaleUntil),
	}
	if m, err := c.api.opt.Live.Map(c.ctx, s.ID); err == nil {
		out.Counts = &Counts{Available: m.Counts.Available, Held: m.Counts.Held, Sold: m.Counts.Sold, Blocked: m.Counts.Blocked}
	}
	return out
}

// listShows lists the shows that are not over, by start.
func (a *API) listShows(c *call) error {
	after, limit, err := c.pageAfter()
	if err != nil {
		return err
	}
	houses, err := a.opt.Catalog.Shows(c.ctx, seatflow.ShowID(after), a.opt.Clock.Now(), limit+1)
	if err != nil {
		return err
	}
	out := ShowList{Shows: []Show{}}
	if len(houses) > limit {
		houses = houses[:limit]
		out.Next = cursorOfID(int64(houses[limit-1].Show.ID))
	}
	for _, h := range houses {
		out.Shows = append(out.Shows, c.show(h))
	}
	return c.reply(http.StatusOK, &out)
}

// house returns the house of the show in the path.
func (c *call) house() (*seatflow.House, error) {
	id, err := c.pathShow()
	if err != nil {
		return nil, err
	}
	house, err := c.api.opt.Catalog.House(c.ctx, id)
	return house, noShow(err)
}

func (a *API) oneShow(c *call) error {
	house, err := c.house()
	if err != nil {
		return err
	}
	out := c.show(house)
	return c.reply(http.StatusOK, &out)
}

// seats answers with a show's seat map. The compact form is encoded once per
// revision by the hub and the full one once by the cache here.
func (a *API) seats(c *call) error {
	id, err := c.pathShow()
	if err != nil {
		return err
	}
	compact, err := compactForm(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	m, err := a.opt.Live.Map(c.ctx, id)
	if err != nil {
		return noShow(err)
	}
	if compact {
		c.cached(m.ETag, m.Compact)
		return nil
	}
	house, err := a.opt.Catalog.House(c.ctx, id)
	if err != nil {
		return noShow(err)
	}
	full := a.fullMaps.of(house, m)
	c.cached(full.etag, full.body)
	return nil
}

// compactForm reads the form that is asked for.
func compactForm(query string) (bool, error) {
	switch query {
	case "", "form=full":
		return false, nil
	case "form=compact":
		return true, nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name != "form" {
			continue
		}
		switch value {
		case "compact":
			return true, nil
		case "full", "":
			return false, nil
		}
		return false, invalid("form", "must be full or compact")
	}
	return false, nil
}

// cached answers with an entity that has a tag, or with 304 if the caller has
// it. Callers may keep it, and must ask each time.
func (c *call) cached(etag string, body []byte) {
	h := c.w.Header()
	h["Etag"] = []string{etag}
	h["Cache-Control"] = revalidate
	if matches(c.r.Header["If-None-Match"], etag) {
		c.status = http.StatusNotModified
		c.w.WriteHeader(http.StatusNotModified)
		return
	}
	h["Content-Type"] = jsonValue
	c.write(http.StatusOK, body)
}

// matches is the comparison of If-None-Match: weak, over a list, or any.
func matches(headers []string, etag string) bool {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == etag || one == "*" {
				return true
			}
		}
	}
	return false
}

// entity is an encoded answer with its tag.
type entity struct {
	etag string
	body []byte
}

// fullMaps keeps the newest full form of the maps that are asked for. A few
// only: the full form of a stadium has some megabytes.
type fullMaps struct {
	mu    sync.Mutex
	shows map[seatflow.ShowID]*fullMap
}

type fullMap struct {
	mu       sync.Mutex
	house    *seatflow.House
	revision seatflow.Revision
	entity   entity
}

const fullMapsMost = 16

// of returns the full form of a map. Callers that ask for the same revision
// at once wait for one encoding.
func (f *fullMaps) of(house *seatflow.House, m *live.Map) entity {
	id := house.Show.ID
	f.mu.Lock()
	slot := f.shows[id]
	if slot == nil {
		if f.shows == nil || len(f.shows) >= fullMapsMost {
			f.shows = make(map[seatflow.ShowID]*fullMap)
		}
		slot = &fullMap{}
		f.shows[id] = slot
	}
	f.mu.Unlock()

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.house == house && slot.revision == m.Revision {
		return slot.entity
	}
	body := appendSeatMap(make([]byte, 0, len(slot.entity.body)+4096), m, house)
	e := entity{body: body, etag: `"` + m.Revision.String() + "-" + itoa(house.Show.Version) + `"`}
	if slot.house != house || slot.revision.Before(m.Revision) {
		slot.house, slot.revision, slot.entity = house, m.Revision, e
	}
	return e
}

// plans keeps encoded geometries, plain and compressed.
type plans struct {
	mu    sync.Mutex
	shows map[seatflow.ShowID]*planSlot
}

type planSlot struct {
	mu     sync.Mutex
	house  *seatflow.House
	plain  entity
	zipped entity
}

const plansMost = 64

func (p *plans) of(house *seatflow.House) (plain, zipped entity, err error) {
	id := house.Show.ID
	p.mu.Lock()
	slot := p.shows[id]
	if slot == nil {
		if p.shows == nil || len(p.shows) >= plansMost {
			p.shows = make(map[seatflow.ShowID]*planSlot)
		}
		slot = &planSlot{}
		p.shows[id] = slot
	}
	p.mu.Unlock()

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.house != nil && slot.house.Plan == house.Plan && slot.house.Show.Version == house.Show.Version {
		return slot.plain, slot.zipped, nil
	}
	body, err := appendPlan(nil, house)
	if err != nil {
		return entity{}, entity{}, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(body); err != nil {
		return entity{}, entity{}, err
	}
	if err := w.Close(); err != nil {
		return entity{}, entity{}, err
	}
	// The tag is of the content: numbers start again in another data folder.
	sum := sha256.Sum256(body)
	tag := hex.EncodeToString(sum[:8])
	slot.house = house
	slot.plain = entity{etag: `"` + tag + `"`, body: body}
	slot.zipped = entity{etag: `"` + tag + `-gz"`, body: packed.Bytes()}
	return slot.plain, slot.zipped, nil
}

var (
	varyEncoding = []string{"Accept-Encoding"}
	gzipValue    = []string{"gzip"}
)

func (a *API) plan(c *call) error {
	house, err := c.house()
	if err != nil {
		return err
	}
	plain, zipped, err := a.plans.of(house)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h["Vary"] = varyEncoding
	if acceptsGzip(c.r.Header.Get("Accept-Encoding")) {
		h["Content-Encoding"] = gzipValue
		c.cached(zipped.etag, zipped.body)
		return nil
	}
	c.cached(plain.etag, plain.body)
	return nil
}

// acceptsGzip reports whether an Accept-Encoding header names gzip without
// refusing it.
func acceptsGzip(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q := strings.ReplaceAll(params, " ", "")
		return !strings.HasPrefix(q, "q=0") || strings.Trim(q[len("q=0"):], ".0") != ""
	}
	return false
}
