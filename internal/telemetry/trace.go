package telemetry

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
)

// TraceFrom returns the ids under which a request is served: the trace id of
// its traceparent header, or a new one when there is none or a malformed one,
// and a new span id. 32 and 16 lower-case hex digits.
func TraceFrom(r *http.Request) (traceID, spanID string) {
	if values := r.Header["Traceparent"]; len(values) == 1 {
		if id, ok := parseTraceparent(values[0]); ok {
			return id, newIDs()[32:]
		}
	}
	ids := newIDs()
	return ids[:32], ids[32:]
}

// NewTrace returns the ids of work that no request asked for.
func NewTrace() (traceID, spanID string) {
	ids := newIDs()
	return ids[:32], ids[32:]
}

// Traceparent renders ids as the header to send along with a call.
func Traceparent(traceID, spanID string) string { return "00-" + traceID + "-" + spanID + "-01" }

// newIDs makes a trace id and a span id in one string of 48 digits. They need
// to be unique, not secret; the runtime's generator (ChaCha8, seeded by the
// operating system) takes no system call and no lock.
func newIDs() string {
	var raw [24]byte
	for {
		a, b, c := rand.Uint64(), rand.Uint64(), rand.Uint64()
		if a|b == 0 || c == 0 {
			continue // all zeros mean "invalid" in the standard
		}
		binary.BigEndian.PutUint64(raw[0:], a)
		binary.BigEndian.PutUint64(raw[8:], b)
		binary.BigEndian.PutUint64(raw[16:], c)
		break
	}
	var text [48]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// parseTraceparent reads version-traceid-parentid-flags. Later versions may
// carry more after the flags; version ff is not one.
func parseTraceparent(s string) (traceID string, ok bool) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return "", false
	}
	version := s[:2]
	switch {
	case !isHex(version), version == "ff":
		return "", false
	case version == "00" && len(s) != length, len(s) > length && s[length] != '-':
		return "", false
	}
	if !isHex(s[3:35]) || isZero(s[3:35]) || !isHex(s[36:52]) || isZero(s[36:52]) || !isHex(s[53:55]) {
		return "", false
	}
	return s[3:35], true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isZero(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

type traceKey struct{}

type trace struct{ traceID, spanID string }

// WithTrace returns a context that carries a trace.
func WithTrace(ctx context.Context, traceID, spanID string) context.Context {
	return context.WithValue(ctx, traceKey{}, &trace{traceID, spanID})
}

// TraceOf returns the trace that a context carries, or empty strings.
func TraceOf(ctx context.Context) (traceID, spanID string) {
	if t, ok := ctx.Value(traceKey{}).(*trace); ok {
		return t.traceID, t.spanID
	}
	return "", ""
}
