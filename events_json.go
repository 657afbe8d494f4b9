package seatflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// appendJSONString appends s in quotes. Bytes that are no UTF-8 become U+FFFD.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < ' ':
				b = append(b, `\u00`...)
				b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			default:
				b = append(b, c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		b = utf8.AppendRune(b, r)
		i += size
	}
	return append(b, '"')
}

// jsonReader reads the few shapes of payload there are. After its first
// failure it reads nothing more, and keeps the error.
type jsonReader struct {
	b   []byte
	i   int
	err error
}

func (r *jsonReader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s near byte %d", what, r.i)
	}
}

// next skips white space and returns the next byte without taking it; 0 at the
// end and after a failure.
func (r *jsonReader) next() byte {
	if r.err != nil {
		return 0
	}
	for r.i < len(r.b) {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\r', '\n':
			r.i++
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) take(c byte) bool {
	if r.next() != c || c == 0 {
		return false
	}
	r.i++
	return true
}

func (r *jsonReader) expect(c byte) {
	if !r.take(c) {
		r.fail("not " + string(c))
	}
}

func (r *jsonReader) end() {
	if r.next() != 0 || r.err == nil && r.i < len(r.b) {
		r.fail("something after the end")
	}
}

// object reads an object and calls value for each member, by its place in the
// list, to read its value. It returns the members met, as bits.
func (r *jsonReader) object(members []string, value func(member int)) (met uint32) {
	r.expect('{')
	if r.take('}') {
		return 0
	}
	for r.err == nil {
		name := r.raw()
		member := -1
		for i, m := range members {
			if m == string(name) {
				member = i
				break
			}
		}
		if member < 0 {
			r.fail("an unknown member")
			return met
		}
		if met&(1<<member) != 0 {
			r.fail("a member that comes twice")
			return met
		}
		met |= 1 << member
		r.expect(':')
		value(member)
		if r.take('}') {
			return met
		}
		r.expect(',')
	}
	return met
}

func (r *jsonReader) array(element func()) {
	r.expect('[')
	if r.take(']') {
		return
	}
	for r.err == nil {
		element()
		if r.take(']') {
			return
		}
		r.expect(',')
	}
}

// integer reads a whole number that is not below least.
func (r *jsonReader) integer(least int64) int64 {
	r.next()
	start := r.i
	for r.i < len(r.b) && (r.b[r.i] == '-' || r.b[r.i] >= '0' && r.b[r.i] <= '9') {
		r.i++
	}
	digits := bytes.TrimPrefix(r.b[start:r.i], []byte("-"))
	n, err := strconv.ParseInt(string(r.b[start:r.i]), 10, 64)
	if err != nil || n < least || len(digits) > 1 && digits[0] == '0' {
		r.fail("not a number that may stand here")
		return 0
	}
	return n
}

func (r *jsonReader) text() string { return string(r.raw()) }

// raw reads a string. What it returns may be part of the payload.
func (r *jsonReader) raw() []byte {
	r.expect('"')
	if r.err != nil {
		return nil
	}
	start, plain := r.i, true
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; {
		case c == '"':
			s := r.b[start:r.i]
			r.i++
			if plain {
				return s
			}
			return r.unquote(r.b[start-1 : r.i])
		case c == '\\':
			plain = false
			r.i++
		case c < ' ':
			r.fail("a control character in a string")
			return nil
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	r.fail("a string without an end")
	return nil
}

// unquote reads a string that has escapes or is not all ASCII.
func (r *jsonReader) unquote(quoted []byte) []byte {
	var s string
	err := json.Unmarshal(quoted, &s)
	if err == nil && !utf8.Valid(quoted) {
		err = errors.New("not UTF-8")
	}
	if err != nil {
		r.fail("a string that is none")
		return nil
	}
	return []byte(s)
}
