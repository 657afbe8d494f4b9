package ledger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"seatflow"
)

// TestKeyFilterNeverForgets: a pair that was added is never denied, through
// growth and concurrent additions, and few that were not are suspected.
func TestKeyFilterNeverForgets(t *testing.T) {
	var f keyFilter
	f.init()
	f.loaded.Store(true)
	const writers, each = 4, keyFirstStage / 2
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			user := seatflow.UserID(fmt.Sprint("user-", w))
			for i := range each {
				key := fmt.Sprint("key-", i)
				f.add(user, key)
				if f.never(user, key) {
					t.Errorf("%s %s is denied at once", user, key)
					return
				}
			}
		})
	}
	all.Wait()
	if n := len(*f.stages.Load()); n < 2 {
		t.Errorf("%d pairs and no growth", writers*each)
	}
	for w := range writers {
		for i := range each {
			if f.never(seatflow.UserID(fmt.Sprint("user-", w)), fmt.Sprint("key-", i)) {
				t.Fatalf("user-%d key-%d is denied later", w, i)
			}
		}
	}
	suspected := 0
	const asked = 100_000
	for i := range asked {
		if !f.never("user-x", fmt.Sprint("key-", i)) {
			suspected++
		}
	}
	if suspected > asked/50 {
		t.Errorf("%d of %d keys that were never used are suspected", suspected, asked)
	}
	// The pair counts, not its letters in a row.
	f.add("ab", "c")
	if !f.never("a", "bc") {
		t.Error("user a with key bc is taken for user ab with key c")
	}
}

// TestKeysAfterReopening: keys of earlier runs are found, before and after
// the filter is loaded.
func TestKeysAfterReopening(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := OpenSQLite(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	show := testShow(t, l, 300)
	for i := range 300 {
		if _, err := l.InsertOrder(ctx, sale(show, fmt.Sprint("user-", i%7), fmt.Sprint("key-", i), seatflow.SeatID(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenSQLite(ctx, path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := func(when string) {
		for i := range 300 {
			o, err := l.OrderByKey(ctx, seatflow.UserID(fmt.Sprint("user-", i%7)), fmt.Sprint("key-", i))
			if err != nil || o.Items[0].Seat != seatflow.SeatID(i+1) {
				t.Errorf("%s, key %d: %v, %v", when, i, o.Items, err)
			}
			if _, err := l.OrderByKey(ctx, "user-8", fmt.Sprint("key-", i)); !errors.Is(err, seatflow.ErrNotFound) {
				t.Errorf("%s, another's key %d: %v", when, i, err)
			}
		}
	}
	check("at once")
	<-l.keys.tried
	if !l.keys.loaded.Load() {
		t.Fatal("the filter is not loaded")
	}
	check("loaded")
	if !l.keys.never("user-8", "key-1") || l.keys.never("user-1", "key-1") {
		t.Error("the filter does not tell them apart")
	}
}

// TestKeysBesideAnOpenTransaction: keys are answered while a transaction that
// wrote is open, and what it wrote is not seen.
func TestKeysBesideAnOpenTransaction(t *testing.T) {
	l := openTest(t, Options{})
	ctx := context.Background()
	show := testShow(t, l, 20)
	if _, err := l.InsertOrder(ctx, sale(show, "u", "used", 1)); err != nil {
		t.Fatal(err)
	}
	inside := make(chan struct{})
	release := make(chan struct{})
	pending := make(chan error, 2)
	late := sale(show, "u", "late", 2)
	l.keys.add("u", "late")
	go func() {
		_, err := change(ctx, l, 0, func(t *tx) (struct{}, error) {
			if _, err := t.exec("UPDATE order_info SET reason = 'seen by nobody' WHERE okey = 'used'"); err != nil {
				return struct{}{}, err
			}
			if err := l.prepare(&late); err != nil {
				return struct{}{}, err
			}
			if err := l.insertOrders(t, []*seatflow.NewOrder{&late}); err != nil {
				return struct{}{}, err
			}
			close(inside)
			<-release
			return struct{}{}, nil
		})
		pending <- err
	}()
	<-inside
	if o, err := l.OrderByKey(ctx, "u", "used"); err != nil || o.Reason != "" {
		t.Errorf("a used key: %+v, %v", o, err)
	}
	for _, key := range []string{"never used", "late"} {
		if _, err := l.OrderByKey(ctx, "u", key); !errors.Is(err, seatflow.ErrNotFound) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, err := l.Facts(ctx, show.ID); err != nil { // nor do other reads wait
		t.Error(err)
	}
	close(release)
	if err := <-pending; err != nil {
		t.Error(err)
	}
	if _, err := l.OrderByKey(ctx, "u", "late"); err != nil {
		t.Errorf("after the commit: %v", err)
	}
}

// TestRepeatedKeysTakeNoRoom: the filter grows with keys, not with calls.
func TestRepeatedKeysTakeNoRoom(t *testing.T) {
	var f keyFilter
	f.init()
	for range 3 * keyFirstStage {
		f.add("u", "the same key")
	}
	if n := len(*f.stages.Load()); n != 1 {
		t.Errorf("one key fills %d stages", n)
	}
}
