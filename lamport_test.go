package seatflow

import (
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Whatever nodes send each other, in whatever order it arrives: what may have
// been caused by something has a greater number than it.
func TestLamportOrdersCauses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 4
		type event struct {
			number uint64
			before map[int]int // how many events of each node may have caused it
		}
		var clocks [nodes]Lamport
		var known [nodes]map[int]int
		for i := range known {
			known[i] = map[int]int{}
		}
		var all [nodes][]event
		type message struct {
			number uint64
			before map[int]int
		}
		var under []message
		happens := func(node int, number uint64) event {
			known[node][node]++
			e := event{number, map[int]int{}}
			for n, k := range known[node] {
				e.before[n] = k
			}
			all[node] = append(all[node], e)
			return e
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				node := rapid.IntRange(0, nodes-1).Draw(t, "node")
				e := happens(node, clocks[node].Tick())
				under = append(under, message(e))
			},
			"receive": func(t *rapid.T) { // any message, by anyone, for the second time too
				if len(under) == 0 {
					return
				}
				m := rapid.SampledFrom(under).Draw(t, "message")
				node := rapid.IntRange(0, nodes-1).Draw(t, "node")
				for n, k := range m.before {
					known[node][n] = max(known[node][n], k)
				}
				happens(node, clocks[node].Receive(m.number))
			},
			"nonsense": func(t *rapid.T) {
				node := rapid.IntRange(0, nodes-1).Draw(t, "node")
				happens(node, clocks[node].Receive(rapid.Uint64Min(lamportMost+1).Draw(t, "number")))
			},
			"": func(t *rapid.T) {
				for node := range all {
					if len(all[node]) == 0 {
						continue
					}
					last := all[node][len(all[node])-1]
					for n, k := range last.before {
						if n == node {
							k-- // itself
						}
						if k > 0 && all[n][k-1].number >= last.number {
							t.Fatalf("event %d of node %d has %d, and %d came of it", k, n, all[n][k-1].number, last.number)
						}
					}
				}
			},
		})
	})
}

func TestLamportIsNeverGivenTwice(t *testing.T) {
	var l Lamport
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range uint64(500) {
				n := l.Tick()
				if i%2 == 0 {
					n = l.Receive(j)
				}
				mu.Lock()
				if seen[n] {
					t.Errorf("%d came twice", n)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestLamportOnMessages(t *testing.T) {
	var a, b Lamport
	for range 5 {
		a.Tick()
	}
	var m Message
	a.Stamp(&m)
	if m.Header[HeaderLamport] != "6" {
		t.Errorf("%v", m.Header)
	}
	if n := b.ReceiveMessage(&m); n != 7 {
		t.Errorf("received at %d", n)
	}
	for _, text := range []string{"", "x", "-1", strconv.FormatUint(1<<63, 10), "99999999999999999999999"} {
		before := b.Tick()
		if n := b.ReceiveMessage(&Message{Header: map[string]string{HeaderLamport: text}}); n != before+1 {
			t.Errorf("%q: received at %d after %d", text, n, before)
		}
	}
}
