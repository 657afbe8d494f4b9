package booking

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"seatflow"
)

// The rules of a request that every transport applies before it calls.

// invalid is a field that fails validation; why is English and continues the
// field's name.
func invalid(field, why string) error {
	return &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonField, Field: field, Args: []any{why}}
}

// OriginDevice is the terminal that a caller names in a field, or its usual
// one when it names none.
func OriginDevice(field, named string, usual seatflow.Device) (seatflow.Device, error) {
	switch device := seatflow.Device(named); device {
	case "":
		return usual, nil
	case seatflow.DeviceWeb, seatflow.DeviceMobile, seatflow.DeviceKiosk:
		return device, nil
	}
	return "", invalid(field, "must be web, mobile or kiosk")
}

// SeatList checks the seats of a request and returns them sorted. Whether
// they exist is the house's to say.
func SeatList(asked []int32, most int) ([]seatflow.SeatID, error) {
	if len(asked) == 0 {
		return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonNoSeats, Field: "seats"}
	}
	if len(asked) > most {
		return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonTooManySeats, Field: "seats", Args: []any{most}}
	}
	seats := make([]seatflow.SeatID, len(asked))
	sorted := true
	for i, id := range asked {
		if id < 1 {
			return nil, invalid(fmt.Sprintf("seats[%d]", i), "must be a whole number from 1")
		}
		seats[i] = seatflow.SeatID(id)
		sorted = sorted && (i == 0 || seats[i-1] < seats[i])
	}
	if sorted {
		return seats, nil
	}
	slices.Sort(seats)
	for i := 1; i < len(seats); i++ {
		if seats[i] != seats[i-1] {
			continue
		}
		again := 0 // the second place at which the caller named it
		for at, first := 0, true; at < len(asked); at++ {
			if asked[at] == int32(seats[i]) {
				if !first {
					again = at
					break
				}
				first = false
			}
		}
		return nil, &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonRepeatedSeat,
			Field: fmt.Sprintf("seats[%d]", again), Args: []any{seats[i]}}
	}
	return seats, nil
}

// OrderKey settles the idempotency key that a call's header and its body give.
// Blank counts as absent; "" means that there is none.
func OrderKey(header string, headersAgree bool, body *string) (string, error) {
	header = present(header)
	inBody := ""
	if body != nil {
		inBody = present(*body)
	}
	if !headersAgree || header != "" && inBody != "" && header != inBody {
		return "", &seatflow.Error{Code: seatflow.CodeInvalid, Reason: seatflow.ReasonKeyMismatch, Field: "idempotencyKey"}
	}
	if header == "" {
		header = inBody
	}
	if header == "" {
		return "", nil
	}
	if err := CheckKey(header); err != nil {
		return "", err
	}
	return header, nil
}

// present returns a key, or "" for one of nothing but spaces.
func present(key string) string {
	if strings.Trim(key, " ") == "" {
		return ""
	}
	return key
}

// RequestFingerprint digests what an order asks for, so that a key that is used for
// something else is noticed, whichever transport it comes by. Seats are
// sorted: their order means nothing.
func RequestFingerprint(show seatflow.ShowID, seats []seatflow.SeatID) seatflow.Fingerprint {
	var space [8 + 8 + 4*seatflow.MaxSeatsPerOrder]byte
	b := append(space[:0], "order/1\x00"...)
	b = binary.BigEndian.AppendUint64(b, uint64(show))
	for _, s := range seats {
		b = binary.BigEndian.AppendUint32(b, uint32(s))
	}
	sum := sha256.Sum256(b)
	return seatflow.Fingerprint(sum[:16])
}
