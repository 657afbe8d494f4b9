package main

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
)

// crowd describes who asks for what.
type crowd struct {
	Workers int     `json:"workers"` // buyers at a time; each asks again when it is answered
	Users   int     `json:"users"`
	Hot     float64 `json:"hot"`   // share of buyers who want the seats that everybody wants
	Asks    int     `json:"asks"`  // how many ask for a hot pair of seats before the next is in fashion
	Pairs   float64 `json:"pairs"` // share of buyers of two seats side by side
	Seed    uint64  `json:"seed"`
}

// demand gives buyers their wishes. The shows of the first hall are the hot
// part: everybody there wants the same two neighbouring seats, one of them or
// both, until enough have asked and the next two are in fashion. The other
// shows are the cold part: nobody else wants the same seat. Whoever is refused
// a seat asks for a cold one instead.
type demand struct {
	house House
	crowd crowd
	users []string
	asked atomic.Int64   // in the hot part
	next  []atomic.Int64 // by show: the last seat that was given out
}

func newDemand(house House, c crowd) *demand {
	d := &demand{house: house, crowd: c, users: make([]string, c.Users), next: make([]atomic.Int64, house.Shows()+1)}
	for i := range d.users {
		d.users[i] = "user-" + strconv.Itoa(i)
	}
	return d
}

// buyer is one worker's source of wishes; it is not for concurrent use.
type buyer struct {
	d   *demand
	rng *rand.Rand
}

func (d *demand) buyer(n int) *buyer {
	return &buyer{d: d, rng: rand.New(rand.NewPCG(d.crowd.Seed, uint64(n)))}
}

// wish is what the next buyer wants; false when the house is sold out.
func (b *buyer) wish() (Request, bool) {
	r := Request{User: b.d.users[b.rng.IntN(len(b.d.users))]}
	two := b.rng.Float64() < b.d.crowd.Pairs
	if b.rng.Float64() < b.d.crowd.Hot {
		if r.Show, r.Seats = b.hot(two); r.Seats != nil {
			return r, true
		}
	}
	if r.Show, r.Seats = b.cold(two); r.Seats != nil {
		return r, true
	}
	r.Show, r.Seats = b.hot(two)
	return r, r.Seats != nil
}

// instead is what a refused buyer wants next; false when nothing fresh is left.
func (b *buyer) instead(r Request) (Request, bool) {
	r.Show, r.Seats = b.cold(len(r.Seats) > 1)
	return r, r.Seats != nil
}

func (b *buyer) hot(two bool) (int, []int) {
	n := int(b.d.asked.Add(1)-1) / b.d.crowd.Asks
	show, first := n%b.d.house.PerHall+1, 2*(n/b.d.house.PerHall)+1
	if first+1 > b.d.house.Seats {
		return 0, nil
	}
	left := b.rng.IntN(2)
	seats := []int{first + left, first + 1 - left} // in either order
	if !two {
		seats = seats[:1]
	}
	return show, seats
}

func (b *buyer) cold(two bool) (int, []int) {
	shows := b.d.house.Shows() - b.d.house.PerHall
	if shows == 0 {
		return 0, nil
	}
	wanted := int64(1)
	if two {
		wanted = 2
	}
	from := b.rng.IntN(shows)
	for i := range shows {
		show := b.d.house.PerHall + 1 + (from+i)%shows
		if b.d.next[show].Load()+wanted > int64(b.d.house.Seats) {
			continue
		}
		last := int(b.d.next[show].Add(wanted))
		if last > b.d.house.Seats {
			continue
		}
		if two {
			return show, []int{last - 1, last}
		}
		return show, []int{last}
	}
	return 0, nil
}
