package live

import (
	"os"
	"slices"
	"strings"
	"testing"

	"seatflow"

	"github.com/go-json-experiment/json"
)

// TestDocumentedFrames reads the examples of docs/live-maps.md as a client
// would.
func TestDocumentedFrames(t *testing.T) {
	text, err := os.ReadFile("../../docs/live-maps.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```console\n")
	if len(blocks) != 5 {
		t.Fatalf("%d console examples, want 4", len(blocks)-1)
	}
	first := viewer{show: 1}
	var before viewer // what a client has that resumes at 1.5
	play := func(v *viewer, block string) {
		t.Helper()
		var f Frame
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch field {
			case "id":
				f.ID = value
			case "event":
				f.Event = value
			case "data":
				// A client on the wire does not know what a frame leads on from.
				f.Data = []byte(strings.Replace(value, `"node":"local"`, `"node":"n1"`, 1))
				f.since, _ = seatflow.ParseRevision(v.rev)
				if err := v.apply(f); err != nil {
					t.Fatal(err)
				}
				if v.rev == "1.5" {
					before = viewer{show: 1, rev: v.rev, states: append([]byte(nil), v.states...)}
				}
			}
		}
	}
	play(&first, blocks[1])
	again, synced := before.copy(), before.copy()
	play(&again, blocks[2])
	if first.rev != again.rev || string(first.states) != string(again.states) {
		t.Errorf("resumed to %s %s, want %s %s", again.rev, again.states, first.rev, first.states)
	}
	_, body, _ := strings.Cut(blocks[3], "\n")
	body, _, _ = strings.Cut(body, "\n")
	var m wireMap
	if err := json.Unmarshal([]byte(body), &m, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	whole := viewer{show: 1}
	if err := whole.apply(Frame{ID: m.Revision, Event: EventSnapshot, Data: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	if whole.rev != first.rev || string(whole.states) != string(first.states) {
		t.Errorf("the map is %s %s, the stream came to %s %s", whole.rev, whole.states, first.rev, first.states)
	}
	for line := range strings.Lines(blocks[4]) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := synced.since(documentedSync(t, line)); err != nil {
			t.Fatal(err)
		}
		if synced.rev != first.rev || string(synced.states) != string(first.states) {
			t.Errorf("synced to %s %s, want %s %s", synced.rev, synced.states, first.rev, first.states)
		}
	}
}

func (v viewer) copy() viewer {
	v.states = slices.Clone(v.states)
	return v
}

// documentedSync reads an answer of the sync endpoint.
func documentedSync(t *testing.T, line string) Since {
	t.Helper()
	var wire struct {
		ShowID              seatflow.ShowID `json:"showId"`
		LastAppliedRevision string          `json:"lastAppliedRevision"`
		Updates             []struct {
			SeatID seatflow.SeatID `json:"seatId"`
			Status string          `json:"status"`
			Delta  int             `json:"delta"`
		} `json:"updates"`
		Map *wireMap `json:"map"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(line)), &wire, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	s := Since{Show: wire.ShowID, Revision: wire.LastAppliedRevision}
	for _, u := range wire.Updates {
		s.Changes = append(s.Changes, seatflow.SeatChange{Seat: u.SeatID, State: stateOf[u.Status], Delta: u.Delta})
	}
	if wire.Map != nil {
		rev, err := seatflow.ParseRevision(wire.Map.Revision)
		if err != nil {
			t.Fatal(err)
		}
		s.Map = encodeMap(wire.Map.ShowID, rev, "", []byte(wire.Map.States))
	}
	return s
}
