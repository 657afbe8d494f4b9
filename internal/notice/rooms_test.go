package notice

import (
	"testing"

	"go.uber.org/goleak"

	"seatflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drain reads a channel until it is closed.
func drain(ch <-chan seatflow.Notice) (n int) {
	for range ch {
		n++
	}
	return n
}

func TestANoticeReachesItsUserOnEveryDeviceAndNobodyElse(t *testing.T) {
	var r Rooms
	phone, leave := r.Subscribe("ann")
	desk, leaveDesk := r.Subscribe("ann")
	other, leaveOther := r.Subscribe("bob")
	if !r.Deliver(seatflow.Notice{Kind: seatflow.NoticeOrder, User: "ann", ID: "1"}) {
		t.Fatal("nobody was found")
	}
	if r.Deliver(seatflow.Notice{User: "cid"}) {
		t.Error("somebody who is not here was found")
	}
	for _, ch := range []<-chan seatflow.Notice{phone, desk} {
		if n := <-ch; n.ID != "1" {
			t.Errorf("got %q", n.ID)
		}
	}
	leaveOther()
	if n := drain(other); n != 0 {
		t.Errorf("the other user got %d notices", n)
	}
	leave()
	leave() // twice is once
	if r.Users() != 1 || !r.Here("ann") {
		t.Error("the desk is still there")
	}
	leaveDesk()
	if r.Users() != 0 {
		t.Error("a room is left")
	}
}

func TestWhoDoesNotReadIsCut(t *testing.T) {
	var entered, left []seatflow.UserID
	r := Rooms{Entered: func(u seatflow.UserID) { entered = append(entered, u) }, Left: func(u seatflow.UserID) { left = append(left, u) }}
	ch, leave := r.Subscribe("ann")
	for range queueLen + 1 {
		r.Deliver(seatflow.Notice{User: "ann"})
	}
	if n := drain(ch); n != queueLen {
		t.Errorf("%d notices before the cut, want %d", n, queueLen)
	}
	leave()
	if r.Cuts() != 1 || len(entered) != 1 || len(left) != 1 {
		t.Errorf("cuts %d, entered %v, left %v", r.Cuts(), entered, left)
	}
}

func TestEveryoneIsToldAndAllEndsWithTheNode(t *testing.T) {
	var r Rooms
	a, leave := r.Subscribe("ann")
	defer leave()
	b, _ := r.Subscribe("bob")
	r.DeliverAll(seatflow.Notice{Kind: seatflow.NoticeMissed})
	r.Close()
	for _, ch := range []<-chan seatflow.Notice{a, b} {
		if n := drain(ch); n != 1 {
			t.Errorf("%d notices, want 1", n)
		}
	}
	late, leaveLate := r.Subscribe("cid")
	defer leaveLate()
	if _, ok := <-late; ok {
		t.Error("a node that has stopped delivered")
	}
}
