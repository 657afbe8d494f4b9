package httpapi

import "seatflow"

// CreateOrder is the request for seats.
type CreateOrder struct {
	ShowID         int64   `json:"showId" minimum:"1" doc:"The show" example:"1"`
	Seats          []int32 `json:"seats" minItems:"1" maxItems:"50" doc:"Seat ids, each once; all of them or none" example:"[17,18]"`
	IdempotencyKey *string `json:"idempotencyKey,omitzero" nullable:"true" maxLength:"64" doc:"The same as the Idempotency-Key header; blank counts as absent"`
}

// decodeOrder reads the request for seats. What is well-formed and plain is
// read by quickOrder; everything else, and every refusal, is the strict
// decoder's.
func decodeOrder(body []byte, into *CreateOrder) error {
	if quickOrder(body, into) {
		return nil
	}
	*into = CreateOrder{}
	return decodeStrict(body, into)
}

// quickOrder reads the plain form of a request: the three members in any
// order, numbers without sign, fraction or exponent, a key without escapes.
// It returns false for anything else, right or wrong, and never accepts what
// the strict decoder refuses or reads differently.
func quickOrder(body []byte, into *CreateOrder) bool {
	s := scanner{b: body}
	if !s.token('{') {
		return false
	}
	*into = CreateOrder{}
	const show, seats, key = 1, 2, 4
	seen := 0
	for {
		name, ok := s.text()
		if !ok || !s.token(':') {
			return false
		}
		member := 0
		switch string(name) {
		case "showId":
			member = show
			into.ShowID, ok = s.number()
		case "seats":
			member = seats
			into.Seats, ok = s.seats()
		case "idempotencyKey":
			member = key
			var value []byte
			if value, ok = s.text(); ok {
				text := string(value)
				into.IdempotencyKey = &text
			}
		}
		if !ok || member == 0 || seen&member != 0 {
			return false
		}
		seen |= member
		if s.token(',') {
			continue
		}
		return s.token('}') && s.end()
	}
}

// scanner reads the plain part of JSON.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\r', '\t':
			s.i++
		default:
			return
		}
	}
}

// token steps over a delimiter, and says whether it was there.
func (s *scanner) token(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.b)
}

// text reads a string of printable ASCII without escapes.
func (s *scanner) text() ([]byte, bool) {
	if !s.token('"') {
		return nil, false
	}
	from := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[from : s.i-1], true
		case c < ' ', c > '~', c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// number reads up to 18 digits, which always fit.
func (s *scanner) number() (int64, bool) {
	s.space()
	from := s.i
	var n int64
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		n = n*10 + int64(s.b[s.i]-'0')
		if s.i++; s.i-from > 18 {
			return 0, false
		}
	}
	if s.i == from || s.b[from] == '0' && s.i-from > 1 {
		return 0, false
	}
	return n, true
}

func (s *scanner) seats() ([]int32, bool) {
	if !s.token('[') {
		return nil, false
	}
	list := make([]int32, 0, 8)
	for {
		n, ok := s.number()
		if !ok || n > 1<<31-1 || len(list) > seatflow.MaxSeatsPerOrder {
			return nil, false
		}
		list = append(list, int32(n))
		if s.token(',') {
			continue
		}
		return list, s.token(']')
	}
}
