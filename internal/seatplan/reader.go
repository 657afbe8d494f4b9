package seatplan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Parse reads and checks a whole document. The error is a [*FaultsError] when
// the document is at fault, and something else when r fails or the options
// are not valid.
func Parse(r io.Reader, o Options) (*Document, error) {
	if o.Disambiguate != "" && o.Disambiguate != DisambiguateZone {
		return nil, fmt.Errorf("seatplan: cannot disambiguate by %q, only by %q", o.Disambiguate, DisambiguateZone)
	}
	most := o.maxBytes()
	src, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("seatplan: read: %w", err)
	}
	p := &parser{doc: &Document{}, opts: o, src: src, unknown: map[string]int{}}
	switch {
	case int64(len(src)) > most:
		p.faults.add(loc{}, KindTooLarge, "the document is longer than %s bytes", group(int(most)))
		return nil, p.faults.err(p.doc)
	case !utf8.Valid(src):
		p.faults.add(loc{}, KindInvalidUTF8, "not valid UTF-8 at %s", p.where(int64(invalidAt(src))))
		return nil, p.faults.err(p.doc)
	}
	p.read()
	if !p.dead && !p.hopeless {
		if p.noSize {
			p.doc.fitSize()
		}
		p.doc.disambiguate(&p.faults, o)
		p.doc.check(&p.faults, o.maxSeats())
	}
	if err := p.faults.err(p.doc); err != nil {
		return nil, err
	}
	p.warn()
	if o.Progress != nil {
		o.Progress(len(src), len(src))
	}
	return p.doc, nil
}

// parser turns tokens into a Document and notes what does not fit. It judges
// shape only: types, missing and repeated members. Values are judged by
// [Document.check], which plans made in memory pass through as well.
type parser struct {
	dec      *jsontext.Decoder
	src      []byte
	opts     Options
	doc      *Document
	faults   findings
	dead     bool // the JSON cannot be followed any further
	hopeless bool // JSON, but nothing like a plan
	seats    int
	areas    int
	points   int
	noSize   bool
	told     int            // progress, in bytes
	unknown  map[string]int // pattern of a path → times
}

func (p *parser) read() {
	src := p.src
	if rest, ok := bytes.CutPrefix(src, []byte("\ufeff")); ok {
		src = rest
		p.doc.Warnings = append(p.doc.Warnings, "the document starts with a byte order mark, ignored")
	}
	p.src = src
	// Duplicate names are ours to find: the decoder would stop at the first.
	p.dec = jsontext.NewDecoder(bytes.NewBuffer(src), jsontext.AllowDuplicateNames(true))
	object := p.document()
	if p.dead {
		return
	}
	p.hopeless = !object
	if _, err := p.dec.ReadToken(); err == nil {
		p.faults.add(loc{}, KindTrailingData, "something follows the document at %s", p.where(p.dec.InputOffset()-1))
	} else if !errors.Is(err, io.EOF) {
		p.faults.add(loc{}, KindTrailingData, "something follows the document at %s", p.where(p.dec.InputOffset()))
	}
}

// token reads the next token; ok is false when the JSON ends or is broken.
func (p *parser) token(at loc) (tok jsontext.Token, ok bool) {
	if p.dead {
		return tok, false
	}
	tok, err := p.dec.ReadToken()
	if err == nil {
		return tok, true
	}
	p.dead = true
	offset := p.dec.InputOffset()
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &syn):
		offset = syn.ByteOffset
		if errors.Is(syn.Err, io.ErrUnexpectedEOF) {
			p.faults.add(at, KindNotJSON, "the document ends too early, at %s", p.where(offset))
			break
		}
		p.faults.add(at, KindNotJSON, "not JSON at %s: %s", p.where(offset), strings.TrimPrefix(syn.Err.Error(), "jsontext: "))
	case errors.Is(err, io.EOF):
		p.faults.add(at, KindNotJSON, "the document is empty")
	default:
		p.faults.add(at, KindNotJSON, "not JSON at %s", p.where(offset))
	}
	return tok, false
}

// where names a byte offset as people's editors do.
func (p *parser) where(offset int64) string {
	offset = max(0, min(offset, int64(len(p.src))))
	before := p.src[:offset]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

var kindNames = map[jsontext.Kind]string{
	'n': "null", 'f': "false", 't': "true", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
}

// want reports whether the next value is of a kind. If not it says so and
// skips the value.
func (p *parser) want(at loc, kind jsontext.Kind) bool {
	if p.dead {
		return false
	}
	got := p.dec.PeekKind()
	if got == kind {
		return true
	}
	if kindNames[got] == "" {
		p.token(at) // names the syntax error
		return false
	}
	p.faults.add(at, KindWrongType, "want %s, found %s", kindNames[kind], kindNames[got])
	p.skip(at)
	return false
}

// skip passes over one value of any kind, with the same rules for JSON itself
// as elsewhere.
func (p *parser) skip(at loc) {
	base := p.dec.StackDepth()
	var names []map[string]bool // of the open objects above base
	for {
		tok, ok := p.token(at)
		if !ok {
			return
		}
		depth := p.dec.StackDepth()
		if depth > MaxDepth {
			p.faults.add(at, KindTooDeep, "nested deeper than %d levels at %s", MaxDepth, p.where(p.dec.InputOffset()))
			p.dead = true
			return
		}
		switch tok.Kind() {
		case '{', '[':
			names = append(names, nil)
		case '}', ']':
			names = names[:len(names)-1]
		case '"':
			if kind, n := p.dec.StackIndex(depth); depth > base && kind == '{' && n%2 == 1 {
				top := &names[len(names)-1]
				if *top == nil {
					*top = map[string]bool{}
				}
				s := tok.String()
				if (*top)[s] {
					p.faults.add(at, KindDuplicateMember, "member %s stands twice in one object", quote(s))
				}
				(*top)[s] = true
			}
		}
		if depth == base {
			return
		}
	}
}

// members reads an object. It calls field with the index of each known name;
// field must read exactly one value. Names with their bit set in required
// must be there. It reports whether the value was an object.
func (p *parser) members(at loc, names []string, required uint, field func(i int)) bool {
	if !p.want(at, '{') {
		return false
	}
	p.token(at)
	var seen uint
	var others map[string]bool
	for !p.dead {
		tok, ok := p.token(at)
		if !ok || tok.Kind() == '}' {
			break
		}
		called := tok.String()
		i := slices.Index(names, called)
		if i < 0 {
			if others[called] {
				p.faults.add(at.in(plain(called)), KindDuplicateMember, "member %s stands twice in one object", quote(called))
			} else {
				if others == nil {
					others = map[string]bool{}
				}
				others[called] = true
				p.ignored(at, called)
			}
			p.skip(at.in(plain(called)))
			continue
		}
		if seen&(1<<i) != 0 {
			p.faults.add(at.in(names[i]), KindDuplicateMember, "member %s stands twice in one object", quote(called))
			p.skip(at.in(names[i]))
			continue
		}
		seen |= 1 << i
		field(i)
	}
	if p.dead {
		return true
	}
	for missing := required &^ seen; missing != 0; missing &= missing - 1 {
		f := names[bits.TrailingZeros(missing)]
		if f == "seat_guid" {
			p.faults.add(at.in(f), KindMissingGUID, "a seat without a guid")
			continue
		}
		p.faults.add(at.in(f), KindMissingField, "%s is missing", f)
	}
	return true
}

// elements reads an array and calls each for its elements, which must read
// exactly one value.
func (p *parser) elements(at loc, each func(i int)) bool {
	if !p.want(at, '[') {
		return false
	}
	p.token(at)
	for i := 0; !p.dead; i++ {
		if p.dec.PeekKind() == ']' {
			p.token(at)
			break
		}
		each(i)
	}
	return true
}

// plain is a stranger's member name as part of a path.
func plain(s string) string {
	if len(s) <= 40 && s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" {
		return s
	}
	return quote(s)
}

// ignored counts a member that is not known, by the pattern of its path.
func (p *parser) ignored(at loc, called string) {
	at = at.in(plain(called))
	for _, i := range []*int32{&at.cat, &at.zone, &at.row, &at.seat, &at.area, &at.point} {
		*i = min(*i, 1)
	}
	pattern := strings.ReplaceAll(at.path(), "[0]", "[]")
	if _, ok := p.unknown[pattern]; !ok && len(p.unknown) >= maxWarnings {
		pattern = ""
	}
	p.unknown[pattern]++
}

const maxWarnings = 100

func (p *parser) warn() {
	for _, pattern := range slices.Sorted(maps.Keys(p.unknown)) {
		times := plural(p.unknown[pattern], "time")
		if pattern == "" {
			p.doc.Warnings = append(p.doc.Warnings, "further members that are not known, ignored "+times)
			continue
		}
		p.doc.Warnings = append(p.doc.Warnings, pattern+": not known, ignored "+times)
	}
	if p.noSize {
		p.doc.Warnings = append(p.doc.Warnings, fmt.Sprintf("size is missing; %s × %s fits the seats",
			strconv.FormatFloat(p.doc.Width, 'f', -1, 64), strconv.FormatFloat(p.doc.Height, 'f', -1, 64)))
	}
}

func (p *parser) text(at loc, to *string) {
	if !p.want(at, '"') {
		return
	}
	if tok, ok := p.token(at); ok {
		*to = tok.String()
	}
}

// optional is text or null.
func (p *parser) optional(at loc, to *string) {
	if !p.dead && p.dec.PeekKind() == 'n' {
		p.token(at)
		return
	}
	p.text(at, to)
}

func (p *parser) number(at loc, to *float64) {
	if !p.want(at, '0') {
		return
	}
	if tok, ok := p.token(at); ok {
		// A number out of range becomes an infinity, which check refuses.
		*to, _ = strconv.ParseFloat(tok.String(), 64)
	}
}

var positionFields = []string{"x", "y"}

func (p *parser) position(at loc, to *Point) {
	p.members(at, positionFields, 0b11, func(i int) {
		if i == 0 {
			p.number(at.in("x"), &to.X)
		} else {
			p.number(at.in("y"), &to.Y)
		}
	})
}

// progress tells about one more per cent.
func (p *parser) progress() {
	if p.opts.Progress == nil {
		return
	}
	if done := int(p.dec.InputOffset()); done-p.told > len(p.src)/100 {
		p.told = done
		p.opts.Progress(done, len(p.src))
	}
}
