package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"seatflow"
	"seatflow/internal/wording"
)

// Problem is a failure as callers see it: a problem document (RFC 9457).
type Problem struct {
	Type      string   `json:"type" doc:"Where the code is described" example:"/docs#3002"`
	Title     string   `json:"title" doc:"The code in a few words, in the caller's language"`
	Status    int      `json:"status" doc:"The HTTP status"`
	Detail    string   `json:"detail" doc:"What went wrong, in the caller's language"`
	Code      int      `json:"code" doc:"Stable number of the failure; programs go by this"`
	Reason    string   `json:"reason,omitzero" doc:"Refines the code; stable"`
	Field     string   `json:"field,omitzero" doc:"Path of the invalid value" example:"seats[3]"`
	Seats     []int64  `json:"seats,omitempty" doc:"With 3002 and 3010: the seats that failed, every one"`
	Available []int64  `json:"available,omitempty" doc:"With 3002: those of the asked seats that are still free"`
	Order     *Order   `json:"order,omitzero" doc:"With 3005: the order as it stands"`
	Faults    []string `json:"faults,omitempty" doc:"With reason plan_faults: the whole list"`
	Left      *int64   `json:"left,omitzero" doc:"With 3004: how many more seats the caller may take"`
	TraceID   string   `json:"traceId" doc:"Names this request in the logs"`
}

// problemType is the media type of a problem document.
const problemType = "application/problem+json"

// statusOf returns the HTTP status of a failure: its code's, but for the few
// reasons for which HTTP has a closer one.
func statusOf(e *seatflow.Error) int {
	switch e.Reason {
	case reasonTooLarge:
		return http.StatusRequestEntityTooLarge
	case reasonMediaType:
		return http.StatusUnsupportedMediaType
	case reasonMethod:
		return http.StatusMethodNotAllowed
	}
	return e.Code.Status()
}

// shown returns what a caller is told about err, and whether err is internal
// and so has to be logged.
func shown(err error) (e *seatflow.Error, internal bool) {
	var tooLarge *http.MaxBytesError
	if !errors.As(err, &e) && errors.As(err, &tooLarge) {
		return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: reasonTooLarge, Args: []any{tooLarge.Limit}}, false
	}
	return wording.Shown(err)
}

// appendProblem appends the problem document of a failure. The order of a
// failure is appended by order, which knows the house that it is in.
func appendProblem(b []byte, l lang, e *seatflow.Error, trace string, order func([]byte, *seatflow.Order) []byte) []byte {
	b = append(b, `{"type":"/docs#`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	b = append(b, `","title":"`...)
	b = append(b, wording.Titles[e.Code][l]...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(statusOf(e)), 10)
	b = append(b, `,"detail":`...)
	if e.Reason == "" {
		b = append(b, '"')
		b = append(b, wording.Details[e.Code][l]...)
		b = append(b, '"')
	} else {
		b = appendString(b, wording.Detail(e, l))
	}
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	if e.Reason != "" {
		b = append(b, `,"reason":`...)
		b = appendString(b, string(e.Reason))
	}
	if e.Field != "" {
		b = append(b, `,"field":`...)
		b = appendString(b, wording.Clip(e.Field))
	}
	if len(e.Seats) > 0 {
		b = append(b, `,"seats":`...)
		b = appendSeats(b, e.Seats)
	}
	if len(e.Available) > 0 {
		b = append(b, `,"available":`...)
		b = appendSeats(b, e.Available)
	}
	if e.Order != nil && order != nil {
		b = append(b, `,"order":`...)
		b = order(b, e.Order)
	}
	if len(e.Faults) > 0 {
		b = append(b, `,"faults":[`...)
		for i, f := range e.Faults {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, f)
		}
		b = append(b, ']')
	}
	if e.Reason == seatflow.ReasonOverLimit && len(e.Args) > 1 {
		if left, err := strconv.ParseInt(fmt.Sprint(e.Args[1]), 10, 64); err == nil {
			b = append(b, `,"left":`...)
			b = strconv.AppendInt(b, left, 10)
		}
	}
	b = append(b, `,"traceId":"`...)
	b = append(b, trace...)
	return append(b, '"', '}')
}

// retryAfter is the value of Retry-After in whole seconds, at least one.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// invalid is a field that fails validation; why is English and continues the
// field's name.
func invalid(field, why string) error {
	return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonField, Field: field, Args: []any{why}}
}

// appendString appends a JSON string. Invalid UTF-8, which only an internal
// text could have, is replaced.
func appendString(b []byte, s string) []byte {
	n := len(b)
	b, err := jsontext.AppendQuote(b, s)
	if err != nil {
		b, _ = jsontext.AppendQuote(b[:n], strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}

func appendSeats(b []byte, seats []seatflow.SeatID) []byte {
	b = append(b, '[')
	for i, s := range seats {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(s), 10)
	}
	return append(b, ']')
}
