package redisseats

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seatflow"
)

// A record in the orders hash is one line that people can read:
//
//	STATE SEAT,SEAT… TAKEN DEADLINE CAP KEYHASH USER
//
// Instants are milliseconds since 1970; what is not there is a dash. The user
// is last because it may be anything, or nothing.

func formatRecord(o *seatflow.OrderRecord, seats []seatflow.SeatID) string {
	b := make([]byte, 0, 96+8*len(seats)+len(o.User))
	b = append(b, byte(o.State), ' ')
	b = appendSeats(b, seats)
	deadline := o.Deadline
	if o.State != seatflow.Held {
		deadline = time.Time{}
	}
	for _, t := range [...]time.Time{o.TakenAt, deadline, o.Cap} {
		b = append(b, ' ')
		b = append(b, formatTime(t)...)
	}
	b = append(b, ' ')
	b = append(b, formatKey(o.KeyHash)...)
	b = append(b, ' ')
	return string(append(b, o.User...))
}

func parseRecord(owner, text string) (seatflow.OrderRecord, error) {
	f := strings.SplitN(text, " ", 7)
	bad := func(what any) (seatflow.OrderRecord, error) {
		return seatflow.OrderRecord{}, fmt.Errorf("%w: the record of %q is %q (%v)", errForeignData, owner, text, what)
	}
	if len(f) != 7 || len(f[0]) != 1 || !seatflow.SeatState(f[0][0]).Owned() {
		return bad("not a record")
	}
	o := seatflow.OrderRecord{Owner: parseOwner(owner), User: seatflow.UserID(f[6]), State: seatflow.SeatState(f[0][0])}
	var err error
	if o.Seats, err = parseSeats(f[1]); err != nil {
		return bad(err)
	}
	for i, t := range [...]*time.Time{&o.TakenAt, &o.Deadline, &o.Cap} {
		if *t, err = parseTime(f[2+i]); err != nil {
			return bad(err)
		}
	}
	if f[5] != "-" {
		if n, err := hex.Decode(o.KeyHash[:], []byte(f[5])); err != nil || n != len(o.KeyHash) {
			return bad("its key")
		}
	}
	return o, nil
}

func formatKey(k seatflow.KeyHash) string {
	if k.IsZero() {
		return "-"
	}
	var b [2 * len(k)]byte
	hex.Encode(b[:], k[:])
	return string(b[:])
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func parseTime(s string) (time.Time, error) {
	if s == "-" || s == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	return time.UnixMilli(ms).UTC(), err
}

func formatSeat(id seatflow.SeatID) string { return strconv.Itoa(int(id)) }

func appendSeats(b []byte, seats []seatflow.SeatID) []byte {
	for i, id := range seats {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return b
}

func parseSeat(s string) (seatflow.SeatID, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	return seatflow.SeatID(n), err
}

// parseSeats reads ids between commas.
func parseSeats(s string) ([]seatflow.SeatID, error) {
	if s == "" {
		return nil, nil
	}
	ids := make([]seatflow.SeatID, 0, 1+strings.Count(s, ","))
	for one := range strings.SplitSeq(s, ",") {
		id, err := parseSeat(one)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

var verbs = func() map[string]seatflow.Verb {
	m := make(map[string]seatflow.Verb)
	for v := seatflow.VerbHold; v <= seatflow.VerbRepair; v++ {
		m[v.String()] = v
	}
	return m
}()

// parseChange reads a change as the scripts write it:
//
//	SHOW GENERATION.REVISION VERB CLOCK STATE±SEAT,SEAT… STATE±SEAT…
func parseChange(text string) (seatflow.Change, error) {
	f := strings.Split(text, " ")
	bad := func(what any) (seatflow.Change, error) {
		return seatflow.Change{}, fmt.Errorf("%w: the change %q (%v)", errForeignData, text, what)
	}
	if len(f) < 4 {
		return bad("too short")
	}
	show, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return bad(err)
	}
	c := seatflow.Change{Show: seatflow.ShowID(show), Verb: verbs[f[2]]}
	if c.Revision, err = seatflow.ParseRevision(f[1]); err != nil {
		return bad(err)
	}
	if c.At, err = parseTime(f[3]); err != nil {
		return bad(err)
	}
	for _, run := range f[4:] {
		if len(run) < 3 {
			continue
		}
		state, delta := seatflow.SeatState(run[0]), map[byte]int{'+': 1, '-': -1}[run[1]]
		ids, err := parseSeats(run[2:])
		if err != nil || !state.Valid() {
			return bad(err)
		}
		for _, id := range ids {
			c.Seats = append(c.Seats, seatflow.SeatChange{Seat: id, State: state, Delta: delta})
		}
	}
	return c, nil
}
