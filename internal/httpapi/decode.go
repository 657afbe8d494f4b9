package httpapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"seatflow"
	"seatflow/internal/wording"
)

// depthMost is how deep a JSON body may nest. Ours nest three deep.
const depthMost = 16

// pageMost is the most entries of a page, and pageUsual how many there are
// when the caller does not say.
const (
	pageMost  = 100
	pageUsual = 50
)

// readBody reads the whole body into buf, at most the route's limit.
func (c *call) readBody(buf *buffer) error {
	limit := c.route.limit
	if c.r.ContentLength > limit {
		return tooLarge(limit)
	}
	b := buf.b[:0]
	if n := c.r.ContentLength; n > 0 && n < bufferKeep && int64(cap(b)) <= n {
		b = make([]byte, 0, n+1) // one more, to meet the end of the body in the same read
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := c.r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		buf.b = b
		switch {
		case int64(len(b)) > limit:
			return tooLarge(limit)
		case err == io.EOF:
			return nil
		case err != nil:
			return c.cutShort(err)
		}
	}
}

// cutShort is the failure of a body that could not be read to its end.
func (c *call) cutShort(err error) error {
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	var e *seatflow.Error
	if errors.As(err, &e) {
		return e
	}
	return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: reasonIncomplete, Err: err}
}

func tooLarge(limit int64) error {
	return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: reasonTooLarge, Args: []any{limit}}
}

// limited returns the body as a stream that fails at the route's limit.
func (c *call) limited() (io.Reader, error) {
	if c.r.ContentLength > c.route.limit {
		return nil, tooLarge(c.route.limit)
	}
	return &limitReader{c: c, left: c.route.limit}, nil
}

// limitReader is a body whose failures are those that a caller is shown.
type limitReader struct {
	c    *call
	left int64
}

func (l *limitReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.c.r.Body.Read(p)
	l.left -= int64(n)
	switch {
	case l.left < 0:
		return 0, tooLarge(l.c.route.limit)
	case err != nil && err != io.EOF:
		return n, l.c.cutShort(err)
	}
	return n, err
}

// mediaType refuses a body of another type than those; the first is named.
func (c *call) mediaType(types ...string) error {
	header := c.r.Header.Get("Content-Type")
	for _, t := range types {
		if header == t {
			return nil
		}
	}
	got, params, err := mime.ParseMediaType(header)
	if err == nil {
		charset := params["charset"]
		for _, t := range types {
			if got == t && (charset == "" || strings.EqualFold(charset, "utf-8")) {
				return nil
			}
		}
	}
	return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: reasonMediaType, Args: []any{types[0]}}
}

// decode reads a JSON body into a value. With optional, no body at all leaves
// the value as it is.
func (c *call) decode(into any, optional bool) error {
	buf := buffers.get()
	defer buffers.put(buf)
	if err := c.readBody(buf); err != nil {
		return err
	}
	if len(buf.b) == 0 && optional {
		return nil
	}
	if err := c.mediaType("application/json"); err != nil {
		return err
	}
	return decodeStrict(buf.b, into)
}

// nothing reads the body of a request that takes none: it may be empty or {}.
func (c *call) nothing() error { return c.decode(&struct{}{}, true) }

// decodeStrict reads JSON and refuses repeated and unknown members, trailing
// data, invalid UTF-8, deep nesting and numbers that do not fit, each with the
// place. Names are compared exactly.
func decodeStrict(body []byte, into any) error {
	if tooDeep(body) {
		return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: reasonMalformed,
			Args: []any{fmt.Sprintf("it nests deeper than %d", depthMost)}}
	}
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return invalid(fieldPath(syntactic.JSONPointer), "appears twice")
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return invalid(fieldPath(semantic.JSONPointer), "is not known here")
	case errors.As(err, &semantic):
		field := fieldPath(semantic.JSONPointer)
		if field == "" {
			return malformed("it must be " + wants(semantic.GoType))
		}
		return invalid(field, "must be "+wants(semantic.GoType))
	case errors.As(err, &syntactic):
		return malformed(fmt.Sprintf("%v, near byte %d", syntactic.Err, syntactic.ByteOffset))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("it is incomplete")
	}
	return malformed(err.Error())
}

func malformed(why string) error {
	return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: reasonMalformed, Args: []any{wording.Clip(why)}}
}

// wants names what a Go type reads, for people who do not know Go.
func wants(t reflect.Type) string {
	if t == nil {
		return "another type"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Int32:
		return "a whole number that fits into 32 bits"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map:
		return "an object"
	case reflect.Struct:
		if t.Name() == "Time" {
			return "a time as in RFC 3339, such as 2026-03-01T20:00:00Z"
		}
		return "an object"
	}
	return "another type"
}

// fieldPath turns a JSON pointer, /seats/3, into seats[3].
func fieldPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 31); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
		if b.Len() > 200 {
			break
		}
	}
	return wording.Clip(b.String())
}

// tooDeep counts brackets outside strings. It need not understand more: what
// is not JSON is refused later.
func tooDeep(body []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			if depth++; depth > depthMost {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// pathID reads an id from the path. One that is not a number from 1 cannot
// be anything that exists; it is a malformed request all the same.
func (c *call) pathID(name string) (int64, error) {
	text := c.param
	if text == "" {
		text = c.r.PathValue(name)
	}
	n, ok := parseID(text)
	if !ok {
		return 0, invalid(name, "must be a whole number from 1")
	}
	return n, nil
}

func (c *call) pathShow() (seatflow.ShowID, error) {
	id, err := c.pathID("id")
	return seatflow.ShowID(id), err
}

// parseID reads a positive whole number in its one form: digits, no sign, no
// leading zero.
func parseID(text string) (int64, bool) {
	if text == "" || len(text) > 19 || text[0] < '1' || text[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// pathOrder reads an order number from the path.
func (c *call) pathOrder() (seatflow.OrderNo, error) {
	no := seatflow.OrderNo(c.r.PathValue("no"))
	if !no.Valid() {
		return "", invalid("no", "is not an order number")
	}
	return no, nil
}

// page reads limit and cursor from the query. A cursor is opaque to callers;
// it is the key of the last entry that they have.
func (c *call) page() (cursor string, limit int, err error) {
	if c.r.URL.RawQuery == "" {
		return "", pageUsual, nil
	}
	q := c.r.URL.Query()
	limit = pageUsual
	if text := q.Get("limit"); text != "" {
		n, ok := parseID(text)
		if !ok || n > pageMost {
			return "", 0, invalid("limit", fmt.Sprintf("must be a whole number from 1 to %d", pageMost))
		}
		limit = int(n)
	}
	if text := q.Get("cursor"); text != "" {
		key, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || len(key) == 0 || len(key) > 64 {
			return "", 0, badCursor()
		}
		cursor = string(key)
	}
	return cursor, limit, nil
}

// pageAfter is page for lists that are keyed by a number.
func (c *call) pageAfter() (after int64, limit int, err error) {
	cursor, limit, err := c.page()
	if err != nil || cursor == "" {
		return 0, limit, err
	}
	after, ok := parseID(cursor)
	if !ok {
		return 0, 0, badCursor()
	}
	return after, limit, nil
}

func badCursor() error { return invalid("cursor", "is not one that this list gave") }

// cursorOf makes the cursor of an entry.
func cursorOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

func cursorOfID(id int64) string { return cursorOf(strconv.FormatInt(id, 10)) }

// headerOne returns a header that may be given once, or more than once with
// the same value.
func headerOne(h http.Header, canonical string) (value string, same bool) {
	values := h[canonical]
	if len(values) == 0 {
		return "", true
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return "", false
		}
	}
	return values[0], true
}
