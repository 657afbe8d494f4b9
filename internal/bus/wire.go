package bus

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"seatflow"
)

// reserved begins the names of headers that mean something to the servers.
const reserved = "Nats-"

// Headers of ours for the servers.
const (
	headerID     = "Nats-Msg-Id"
	headerStream = "Nats-Expected-Stream"
)

// overhead is what a message takes beside its parts: marks, a length or two,
// and the name of its stream.
const overhead = 128

// encode turns a message into NATS's form, or says what is wrong with it. The
// payload is shared, not copied.
func encode(m *seatflow.Message, into *nats.Msg) (*spec, int, error) {
	s, err := checkSubject(m.Subject, false)
	if err != nil {
		return nil, 0, err
	}
	size := len(m.Subject) + len(m.ID) + len(m.Payload) + overhead
	// One array for all the values; the headers are slices of it.
	values := make([]string, 0, len(m.Header)+2)
	header := make(nats.Header, len(m.Header)+2)
	put := func(name, value string) {
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
		size += len(name) + len(value) + 4
	}
	for name, value := range m.Header {
		if !isHeaderName(name) || strings.ContainsAny(value, "\r\n") {
			return nil, 0, fmt.Errorf("bus: %q: a header that cannot be: %q", m.Subject, name)
		}
		put(name, value)
	}
	if m.ID != "" {
		if strings.ContainsAny(m.ID, "\r\n") || strings.TrimSpace(m.ID) != m.ID {
			return nil, 0, fmt.Errorf("bus: %q: an id that cannot be: %q", m.Subject, m.ID)
		}
		put(headerID, m.ID)
	}
	put(headerStream, s.name)
	if size > MaxPayload {
		return nil, 0, fmt.Errorf("bus: %q: a message of %d bytes; it may have %d", m.Subject, size, MaxPayload)
	}
	into.Subject, into.Header, into.Data = m.Subject, header, m.Payload
	return s, size, nil
}

// isHeaderName reports whether callers may use a name for a header.
func isHeaderName(name string) bool {
	if name == "" || isReserved(name) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	return true
}

func isReserved(name string) bool {
	return len(name) >= len(reserved) && strings.EqualFold(name[:len(reserved)], reserved)
}

// decode turns what NATS delivers into a message.
func decode(subject string, header nats.Header, data []byte) seatflow.Message {
	m := seatflow.Message{Subject: subject, Payload: data}
	for name, values := range header {
		switch {
		case len(values) == 0:
		case name == headerID:
			m.ID = values[0]
		case isReserved(name):
		default:
			if m.Header == nil {
				m.Header = make(map[string]string, len(header))
			}
			m.Header[name] = values[0]
		}
	}
	return m
}
