package redisseats

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seatflow"
	"seatflow/internal/testkit"
)

func TestURLs(t *testing.T) {
	for raw, want := range map[string]target{
		"redis://h:6379":                        {addrs: []string{"h:6379"}},
		"redis://h:6379/":                       {addrs: []string{"h:6379"}},
		"redis://h:6379/3":                      {addrs: []string{"h:6379"}, db: 3},
		"redis://:s%40crt@h:6379":               {addrs: []string{"h:6379"}, password: "s@crt"},
		"redis://me:p%3Aw@a:1,b:2":              {addrs: []string{"a:1", "b:2"}, user: "me", password: "p:w"},
		"redis://a@b:c@h:1":                     {addrs: []string{"h:1"}, user: "a@b", password: "c"},
		"rediss://[::1]:6379":                   {addrs: []string{"[::1]:6379"}, tls: true},
		"redis-sentinel://a:1,b:2,c:3/mymaster": {addrs: []string{"a:1", "b:2", "c:3"}, master: "mymaster"},
		"rediss-sentinel://u:p@a:1/m":           {addrs: []string{"a:1"}, user: "u", password: "p", master: "m", tls: true},
	} {
		got, err := parseURL(raw)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", raw, err, diff)
		}
	}
	for _, raw := range []string{
		"", "h:6379", "http://h:1", "redis://", "redis://h", "redis://h:", "redis://:1", "redis://h:0", "redis://h:x", "redis://h:70000",
		"redis://a:1,,b:2", "redis://h:1/x", "redis://h:1/-1", "redis://a:1,b:2/1", "redis://h:1?x=y", "redis://secret%zz@h:1",
		"redis-sentinel://a:1", "redis-sentinel://a:1/", "redis-sentinel://a:1/m/n",
	} {
		if got, err := parseURL(raw); err == nil {
			t.Errorf("%q reads as %+v", raw, got)
		}
	}
	if _, err := parseURL("redis://me:secret@h:1/x"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an error tells the password: %v", err)
	}
}

func TestPasswordAndDatabase(t *testing.T) {
	redis := testkit.StartRedis(t, testkit.RedisOptions{Args: []string{"--requirepass", "pass word"}})
	if _, err := Open(t.Context(), Options{URL: redis.URL()}); err == nil {
		t.Error("opened without the password")
	}
	s, ref := house(t, Options{URL: "redis://:pass%20word@" + redis.Addr() + "/5"}, 4)
	mustHold(t, s, seatflow.OutcomeHeld, ask(ref, 1, 1))
	if got := redis.CLI(t, "-a", "pass word", "--no-auth-warning", "-n", "5", "GET", "seatflow:{p07}:show:42:seats"); got != "1000" {
		t.Errorf("database 5 has %q", got)
	}
}

// Every script in the tables is there, and every file is in a table.
func TestScriptsAreComplete(t *testing.T) {
	files, err := sources.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[string]bool)
	for _, f := range files {
		left[strings.TrimSuffix(f.Name(), ".lua")] = true
	}
	use := func(sc script) {
		for _, name := range append(strings.Fields(sc.with), sc.name) {
			if source(name) == "" {
				t.Errorf("there is no script %q", name)
			}
			delete(left, name)
		}
	}
	for _, sc := range scripts {
		use(sc)
	}
	for _, sc := range plainScripts {
		use(sc)
	}
	if len(left) != 0 {
		t.Errorf("nothing uses %v", left)
	}
}

func TestRecordsAndChangesReadBack(t *testing.T) {
	o := seatflow.OrderRecord{Owner: order(1), User: "a user with spaces", KeyHash: seatflow.KeyHash{1, 2}, State: seatflow.Held,
		Seats: []seatflow.SeatID{1, 20}, TakenAt: today(), Deadline: today(), Cap: today()}
	got, err := parseRecord(o.Owner.String(), formatRecord(&o, o.Seats))
	if diff := cmp.Diff(o, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, bad := range []string{"", "1", "0 1 1 1 1 - u", "1 a 1 1 1 - u", "1 1 x 1 1 - u", "1 1 1 1 1 zz u", "1 1 1 1 1 ab u", "11 1 1 1 1 - u"} {
		if r, err := parseRecord("o", bad); err == nil {
			t.Errorf("record %q reads as %+v", bad, r)
		}
	}
	for _, bad := range []string{"", "1 1.1 hold", "x 1.1 hold 1 1+1", "1 1 hold 1 1+1", "1 1.1 hold x 1+1", "1 1.1 hold 1 1+x", "1 1.1 hold 1 ?+1"} {
		if c, err := parseChange(bad); err == nil {
			t.Errorf("change %q reads as %+v", bad, c)
		}
	}
	for _, pos := range []seatflow.Position{"", "$", "x", "a-b-c-d", "id-5-7-0", "id--1-7-0", "id-5-7-x"} {
		if p := parsePosition(pos); p.from == "id" && pos != "id-5-7-0" || p.id == "" {
			t.Errorf("position %q reads as %+v", pos, p)
		}
	}
}
