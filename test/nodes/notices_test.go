package nodes_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/testkit"
)

// What happens to an order on one node is heard of on another, by its buyer
// and nobody else.
func TestAnOrderIsHeardOfOnAnotherNode(t *testing.T) {
	d := deploy(t, testkit.RedisOptions{})
	d.start(2)
	show := d.openShow(2, 10, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	client := &http.Client{Transport: &http.Transport{}} // one that lets an answer take its time
	defer client.CloseIdleConnections()
	type heard struct {
		Type, OrderNo, Event, State string
		At                          time.Time
		after                       time.Duration
	}
	listen := func(token string) <-chan heard {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, "GET", d.nodes[1].url+"/api/v1/me/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("listen: %v, %v", resp, err)
		}
		list := make(chan heard, 64)
		go func() {
			defer close(list)
			defer resp.Body.Close()
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				data, ok := strings.CutPrefix(lines.Text(), "data: ")
				var h heard
				if ok && json.Unmarshal([]byte(data), &h, json.MatchCaseInsensitiveNames(true)) == nil {
					h.after = time.Since(h.At)
					list <- h
				}
			}
		}()
		return list
	}
	token := d.token("ann", seatflow.RoleBuyer)
	ann, bob := listen(token), listen(d.token("bob", seatflow.RoleBuyer))
	if h := <-ann; h.Type != string(seatflow.NoticeMissed) { // as nobody was there for whom to listen before
		t.Fatalf("the first to come hears %+v", h)
	}
	a, err := d.try(t.Context(), d.nodes[0].url, token, "POST", "/api/v1/orders", "k", map[string]any{"showId": show, "seats": []int{1, 2}})
	if err != nil || a.status != 201 {
		t.Fatalf("order: %d %s %v", a.status, a.body, err)
	}
	var o order
	if err := json.Unmarshal(a.body, &o); err != nil {
		t.Fatal(err)
	}
	if a, err = d.try(t.Context(), d.nodes[0].url, token, "POST", fmt.Sprintf("/api/v1/orders/%s/cancel", o.No), "", map[string]any{}); err != nil || a.status != 200 {
		t.Fatalf("cancel: %d %s %v", a.status, a.body, err)
	}
	var got []string
	limit := time.After(startLimit)
	for len(got) < 2 {
		select {
		case h, ok := <-ann:
			if !ok {
				t.Fatalf("the stream ended after %q", got)
			}
			if h.OrderNo != o.No {
				t.Errorf("heard of order %q", h.OrderNo)
			}
			got = append(got, h.Event+" "+h.State)
			t.Logf("%s came %v after it happened", h.Event, h.after)
		case <-limit:
			t.Fatalf("heard only %q", got)
		}
	}
	if want := []string{"order.created pending", "order.cancelled cancelled"}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	select {
	case h := <-bob:
		if h.Type != string(seatflow.NoticeMissed) {
			t.Errorf("bob heard %+v", h)
		}
	default:
	}
}
