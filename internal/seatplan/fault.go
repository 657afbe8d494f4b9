package seatplan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"seatflow"
)

// Kind is a stable word for what is wrong.
type Kind string

// The kinds of faults.
const (
	KindNotJSON         Kind = "not_json"
	KindInvalidUTF8     Kind = "invalid_utf8"
	KindDuplicateMember Kind = "duplicate_member" // a name twice in one object
	KindTrailingData    Kind = "trailing_data"    // something after the document
	KindTooDeep         Kind = "too_deep"
	KindTooLarge        Kind = "too_large" // more bytes than accepted

	KindWrongType    Kind = "wrong_type"
	KindMissingField Kind = "missing_field"
	KindBadValue     Kind = "bad_value" // right type, but not one of the words allowed
	KindBadText      Kind = "bad_text"  // control characters in a name
	KindTooLong      Kind = "too_long"  // a name or text
	KindBadColor     Kind = "bad_color"
	KindBadPosition  Kind = "bad_position" // outside ±MaxUnits, by itself or added up
	KindAbsurdSize   Kind = "absurd_size"  // an extent that is negative or beyond MaxUnits
	KindTooMany      Kind = "too_many"     // categories, zones, areas or points

	KindDuplicateCategory Kind = "duplicate_category"
	KindUnknownCategory   Kind = "unknown_category"
	KindMissingGUID       Kind = "missing_guid"
	KindRepeatedGUID      Kind = "repeated_guid"              // within one zone
	KindRepeatedAcross    Kind = "repeated_guid_across_zones" // can be kept apart by zone
	KindUnnamedZone       Kind = "unnamed_zone"               // only matters when told apart by zone
	KindRepeatedZone      Kind = "repeated_zone"              // likewise
	KindEmptyRow          Kind = "empty_row"
	KindEmptyPlan         Kind = "empty_plan"
	KindTooManySeats      Kind = "too_many_seats"
)

// Kinds lists every kind, in the order of the above.
var Kinds = [...]Kind{
	KindNotJSON, KindInvalidUTF8, KindDuplicateMember, KindTrailingData, KindTooDeep, KindTooLarge,
	KindWrongType, KindMissingField, KindBadValue, KindBadText, KindTooLong, KindBadColor, KindBadPosition,
	KindAbsurdSize, KindTooMany, KindDuplicateCategory, KindUnknownCategory, KindMissingGUID, KindRepeatedGUID,
	KindRepeatedAcross, KindUnnamedZone, KindRepeatedZone, KindEmptyRow, KindEmptyPlan, KindTooManySeats,
}

// Fault is one thing wrong with a document.
type Fault struct {
	Path    string `json:"path"`            // e.g. zones[1].rows[3].seats[7].category; "" is the document
	Place   string `json:"place,omitempty"` // e.g. zone "Balcony", row "17", seat "4"
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

// String returns the fault on one line.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Path)
	if f.Place != "" {
		if f.Path != "" {
			b.WriteByte(' ')
		}
		b.WriteString("(" + f.Place + ")")
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(string(f.Kind) + ": " + f.Message)
	return b.String()
}

// KindCount is how often a kind of fault was found.
type KindCount struct {
	Kind  Kind `json:"kind"`
	Count int  `json:"count"`
}

// FaultsError is everything that is wrong with a document.
type FaultsError struct {
	Faults []Fault     // in document order, at most MaxFaults
	Kinds  []KindCount // every kind with its count, the unlisted included; by name
	Total  int
}

// Error implements error with a summary and the first fault.
func (e *FaultsError) Error() string {
	parts := make([]string, len(e.Kinds))
	for i, k := range e.Kinds {
		parts[i] = strconv.Itoa(k.Count) + " × " + string(k.Kind)
	}
	s := fmt.Sprintf("seatplan: %s (%s)", plural(e.Total, "fault"), strings.Join(parts, ", "))
	if len(e.Faults) > 0 {
		s += "; first " + e.Faults[0].String()
	}
	return s
}

// Lines returns every listed fault on a line of its own, and a last line when
// some are not listed.
func (e *FaultsError) Lines() []string {
	lines := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	if more := e.Total - len(e.Faults); more > 0 {
		lines = append(lines, fmt.Sprintf("and %s more", plural(more, "fault")))
	}
	return lines
}

// Public returns what a caller is shown of the faults.
func (e *FaultsError) Public() *seatflow.Error {
	return &seatflow.Error{
		Code: seatflow.CodeInvalid, Reason: seatflow.ReasonPlanFaults,
		Args: []any{e.Total}, Faults: e.Lines(), Err: e,
	}
}

// loc is the place of a fault while names may not have been read yet: indexes
// plus one, 0 for "not in one". It is comparable, so that a value that is
// already known to be bad is not reported twice.
type loc struct {
	zone, cat, row, seat, area, point int32
	field                             string
}

func (l loc) in(field string) loc {
	if l.field != "" {
		field = l.field + "." + field
	}
	l.field = field
	return l
}

// compare orders places as they would stand in a document.
func (l loc) compare(m loc) int {
	return cmp.Or(
		cmp.Compare(l.zone, m.zone), cmp.Compare(l.cat, m.cat), cmp.Compare(l.row, m.row),
		cmp.Compare(l.seat, m.seat), cmp.Compare(l.area, m.area), cmp.Compare(l.point, m.point))
}

func (l loc) path() string {
	var b strings.Builder
	step := func(name string, i int32) {
		if i == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name + "[" + strconv.Itoa(int(i-1)) + "]")
	}
	step("categories", l.cat)
	step("zones", l.zone)
	step("areas", l.area)
	step("rows", l.row)
	step("seats", l.seat)
	step("polygon.points", l.point)
	if l.field != "" {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(l.field)
	}
	return b.String()
}

// place names a loc for people, with the names as far as the document has
// them.
func (d *Document) place(l loc) string {
	if l.cat > 0 && int(l.cat) <= len(d.Categories) {
		return name("category", d.Categories[l.cat-1].Name, l.cat)
	}
	if l.zone == 0 || int(l.zone) > len(d.Zones) {
		return ""
	}
	z := &d.Zones[l.zone-1]
	s := name("zone", cmp.Or(z.Name, z.ZoneID), l.zone)
	if l.area > 0 {
		return s + fmt.Sprintf(", area %d", l.area)
	}
	if l.row == 0 || int(l.row) > len(z.Rows) {
		return s
	}
	r := &z.Rows[l.row-1]
	s += ", " + name("row", r.display(), l.row)
	if l.seat == 0 || int(l.seat) > len(r.Seats) {
		return s
	}
	return s + ", " + name("seat", r.Seats[l.seat-1].Number, l.seat)
}

func name(what, called string, i int32) string {
	if called == "" {
		return fmt.Sprintf("%s #%d", what, i)
	}
	return what + " " + clip(called, maxPlaceName)
}

// quote shows text that somebody else wrote: on one line, harmless on a
// terminal, and not longer than a name may be.
func quote(s string) string { return clip(s, MaxName) }

// maxPlaceName is how much of a name is enough to find a place by.
const maxPlaceName = 48

func clip(s string, most int) string {
	if len(s) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}

// finding is a fault whose place is not in words yet.
type finding struct {
	at      loc
	kind    Kind
	message string
}

// findings collects faults, bounded.
type findings struct {
	list  []finding
	seen  map[loc]bool
	count map[Kind]int
	total int
}

func (f *findings) add(at loc, kind Kind, format string, args ...any) {
	if f.count == nil {
		f.count, f.seen = map[Kind]int{}, map[loc]bool{}
	}
	f.count[kind]++
	f.total++
	if len(f.list) < MaxFaults {
		f.list = append(f.list, finding{at, kind, fmt.Sprintf(format, args...)})
		f.seen[at] = true
	}
}

// known reports whether a fault stands at this very place already.
func (f *findings) known(at loc) bool { return f.seen[at] }

// err returns nil or the faults in document order.
func (f *findings) err(d *Document) error {
	if f.total == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b finding) int { return a.at.compare(b.at) })
	e := &FaultsError{Total: f.total, Faults: make([]Fault, len(f.list))}
	for i, x := range f.list {
		e.Faults[i] = Fault{Path: x.at.path(), Place: d.place(x.at), Kind: x.kind, Message: x.message}
	}
	for _, k := range slices.Sorted(maps.Keys(f.count)) {
		e.Kinds = append(e.Kinds, KindCount{k, f.count[k]})
	}
	return e
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return group(n) + " " + what + "s"
}

// group writes a count with separators of thousands.
func group(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
