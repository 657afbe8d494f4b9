package bus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seatflow"
	"seatflow/internal/testkit"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name, want string
		o          Options
	}{
		{"nothing", "neither", Options{}},
		{"replicas in one process", "one replica", Options{Dir: "x", Replicas: 3}},
		{"too many replicas", "replicas", Options{URL: "nats://a", Replicas: 6}},
		{"too few bytes", "bytes", Options{Dir: "x", MaxBytes: 1000}},
		{"too short", "short", Options{Dir: "x", MaxAge: time.Millisecond}},
		{"another protocol", "neither nats:// nor tls://", Options{URL: "http://a"}},
		{"a second one of another protocol", "URL 2", Options{URL: "nats://a:1,redis://b:1"}},
		{"no host", "no host", Options{URL: "nats://:4222"}},
		{"a path", "more than a server", Options{URL: "nats://a:1/b"}},
		{"unreadable", "cannot be read", Options{URL: "nats://a:1\x7f"}},
	} {
		_, err := Open(t.Context(), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Open(t.Context(), Options{URL: "http://user:hidden@a"}); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("an error that shows a secret: %v", err)
	}
	o, err := Options{URL: "nats://a:1, tls://user:pass@b:2", MaxAge: time.Minute}.withDefaults()
	if err != nil || o.Duplicates != time.Minute || o.MaxBytes != 256<<20 || o.Replicas != 1 || o.Log == nil {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestPause(t *testing.T) {
	for n := range 100 {
		most := min(mostPause, firstPause<<min(max(n-1, 0), 10))
		if d := pause(n, firstPause, mostPause); d < most/2 || d > most {
			t.Errorf("pause %d is %v, most %v", n, d, most)
		}
	}
}

func TestVersions(t *testing.T) {
	for v, ok := range map[string]bool{
		"2.12.0": true, "2.12.0-RC.3": true, "2.15.3": true, "v2.14.1": true, "3.0.0": true, "2.12": true,
		"2.11.9": false, "2.9.25": false, "1.99.0": false, "": false, "new": false, "2.x.1": false,
	} {
		if err := checkVersion(v); (err == nil) != ok {
			t.Errorf("%q: %v", v, err)
		}
	}
}

// impostor says that it is a NATS server of some version.
func impostor(t *testing.T, version string) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "INFO {\"server_id\":\"X\",\"version\":%q,\"headers\":true,\"max_payload\":1048576}\r\n", version)
			for lines := bufio.NewScanner(c); lines.Scan(); {
				if lines.Text() == "PING" {
					_, _ = fmt.Fprint(c, "PONG\r\n")
				}
			}
			_ = c.Close()
		}
	}()
	return "nats://" + l.Addr().String()
}

func TestAnOldServerIsRefused(t *testing.T) {
	began := time.Now()
	_, err := Open(t.Context(), Options{URL: impostor(t, "2.9.25"), Patience: hang})
	if err == nil || !strings.Contains(err.Error(), `"2.9.25"; 2.12 or newer`) {
		t.Fatalf("opened: %v", err)
	}
	if time.Since(began) > hang/2 {
		t.Error("an old server was tried again and again")
	}
}

// A server that is found to be too old later on is told apart from one that is
// away.
func TestAnOldServerLater(t *testing.T) {
	s := startListener(t)
	p := testkit.StartProxy(t, s.addr)
	old := impostor(t, "2.11.0")
	// Which of the two is asked first is left to chance.
	o := Options{URL: "nats://" + p.Addr() + "," + old, Patience: hang}
	b, err := Open(t.Context(), o)
	for range 50 {
		if err == nil {
			break
		}
		b, err = Open(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	s.stop()
	limit := time.After(hang)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := b.Publish(ctx, numbered(1, 1))
		cancel()
		if err == nil {
			t.Fatal("published to an impostor")
		}
		if strings.Contains(err.Error(), "2.12 or newer") {
			break
		}
		select {
		case <-limit:
			t.Fatalf("says %v", err)
		default:
		}
	}
	if b.Stats().Connected {
		t.Error("connected to a server that is of no use")
	}
}

func TestWhoMayConnect(t *testing.T) {
	s := startListener(t, func(o *server.Options) { o.Username, o.Password = "seats", "secret" })
	for _, url := range []string{s.url(), "nats://seats:wrong@" + s.addr} {
		if _, err := Open(t.Context(), Options{URL: url, Patience: hang}); !errors.Is(err, nats.ErrAuthorization) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("opened %s: %v", url, err)
		}
	}
	publish(t, open(t, Options{URL: "nats://seats:secret@" + s.addr}), numbered(1, 1))

	s = startListener(t, func(o *server.Options) { o.Authorization = "token" })
	publish(t, open(t, Options{URL: "nats://token@" + s.addr}), numbered(1, 1))

	if _, err := Open(t.Context(), Options{URL: s.url(), Credentials: t.TempDir() + "/none", Patience: time.Second}); err == nil {
		t.Error("opened without the credentials")
	}
}

func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	if _, err := Open(t.Context(), Options{URL: "nats://" + addr, Patience: 200 * time.Millisecond}); !errors.Is(err, nats.ErrNoServers) {
		t.Errorf("opened: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{URL: "nats://" + addr, Patience: hang}); err == nil {
		t.Error("opened")
	}
	// One that comes in time is found.
	opened := make(chan error, 1)
	go func() {
		b, err := Open(t.Context(), Options{URL: "nats://" + addr, Patience: hang})
		if err == nil {
			err = b.Close()
		}
		opened <- err
	}()
	host, port, _ := net.SplitHostPort(addr)
	startListener(t, func(o *server.Options) {
		o.Host = host
		_, _ = fmt.Sscan(port, &o.Port)
	})
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestNoJetStream(t *testing.T) {
	s := startListener(t, func(o *server.Options) { o.JetStream = false })
	if _, err := Open(t.Context(), Options{URL: s.url(), Patience: time.Second}); err == nil || !strings.Contains(err.Error(), "JetStream is not on") {
		t.Errorf("opened: %v", err)
	}
}

func TestTheStreams(t *testing.T) {
	s := startListener(t)
	js := bare(t, s.url())
	config := func(name string) jetstream.StreamConfig {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	first := open(t, Options{URL: s.url()})
	for name, subjects := range map[string]string{SeatsStream: "seatflow.seats.>", OrdersStream: "seatflow.orders.>"} {
		c := config(name)
		if len(c.Subjects) != 1 || c.Subjects[0] != subjects || c.Storage != jetstream.FileStorage || c.Retention != jetstream.LimitsPolicy ||
			c.Discard != jetstream.DiscardOld || c.MaxAge != 24*time.Hour || c.MaxBytes != 256<<20 || c.Duplicates != 2*time.Minute ||
			c.Replicas != 1 || c.MaxMsgsPerSubject != -1 || c.MaxMsgSize != MaxPayload {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if seatflow.SeatsSubjects != specs[0].prefix+">" || seatflow.OrdersSubjects != specs[1].prefix+">" {
		t.Error("the streams' subjects are not those of the domain")
	}
	// What is set beside ours stays; what is ours follows; messages stay.
	publish(t, first, numbered(1, 1))
	c := config(SeatsStream)
	c.Metadata = map[string]string{"owner": "ops"}
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	open(t, Options{URL: s.url(), MaxAge: time.Hour, MaxBytes: 64 << 20, Duplicates: time.Minute})
	if c := config(SeatsStream); c.MaxAge != time.Hour || c.MaxBytes != 64<<20 || c.Duplicates != time.Minute || c.Metadata["owner"] != "ops" {
		t.Errorf("after an update: %+v", c)
	}
	if m, err := first.Last(t.Context(), "seatflow.seats.>"); err != nil || m.ID != "1.1" {
		t.Errorf("after an update: %+v, %v", m, err)
	}
	// Replicas need servers.
	if _, err := Open(t.Context(), Options{URL: s.url(), Replicas: 3, Patience: time.Second}); err == nil || !strings.Contains(err.Error(), "too few servers") {
		t.Errorf("opened with three replicas on one server: %v", err)
	}
	// A stream that cannot be ours.
	if err := js.DeleteStream(t.Context(), OrdersStream); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: OrdersStream, Subjects: []string{"seatflow.orders.>"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{URL: s.url(), Patience: hang}); err == nil || !strings.Contains(err.Error(), "another storage") {
		t.Errorf("opened on a stream in memory: %v", err)
	}
}

// On the wire: what others may rely on.
func TestRawMessage(t *testing.T) {
	s := startListener(t)
	b, js := open(t, Options{URL: s.url()}), bare(t, s.url())
	publish(t, b, seatflow.Message{Subject: "seatflow.seats.p07.42", ID: "the-id", Header: map[string]string{"ce-id": "x", "Ce-Type": "y"}, Payload: []byte("{}")})
	stream, err := js.Stream(t.Context(), SeatsStream)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := stream.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := nats.Header{"ce-id": {"x"}, "Ce-Type": {"y"}, "Nats-Msg-Id": {"the-id"}, "Nats-Expected-Stream": {SeatsStream}}
	if fmt.Sprint(raw.Header) != fmt.Sprint(want) || string(raw.Data) != "{}" || raw.Subject != "seatflow.seats.p07.42" {
		t.Errorf("stored as %s %v %s", raw.Subject, raw.Header, raw.Data)
	}
	// Others may publish as well, with whatever headers.
	l := make(chan []seatflow.Message, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error)
	go func() {
		done <- b.Subscribe(ctx, "seatflow.seats.>", func() { close(ready) }, func(m []seatflow.Message) { l <- m })
	}()
	<-ready
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "seatflow.seats.p07.42", Header: nats.Header{"a": {"1", "2"}, "Nats-TTL-not": {"x"}}}); err != nil {
		t.Fatal(err)
	}
	m := (<-l)[0]
	if m.Header["a"] != "1" || len(m.Header) != 1 || m.ID != "" || m.Sequence != 2 {
		t.Errorf("delivered %+v", m)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCallersMayNotSpeakToTheServer(t *testing.T) {
	for _, name := range []string{"Nats-Rollup", "nats-msg-id", "NATS-TTL", "a b", "", "é", "a:"} {
		m := numbered(1, 1)
		m.Header = map[string]string{name: "x"}
		if _, _, err := encode(&m, new(nats.Msg)); err == nil {
			t.Errorf("a header %q may be set", name)
		}
	}
}

func TestJudge(t *testing.T) {
	for data, want := range map[string]string{
		`{"stream":"S","seq":1}`:                  "",
		`{"stream":"S","seq":1,"duplicate":true}`: "",
		`{"domain":"hub","stream":"S","seq":1}`:   "",
		`{"stream":"S2","seq":1}`:                 "another stream",
		`{"stream":"S"`:                           "cannot be read",
		`{"seq":1}`:                               "another stream",
		``:                                        "cannot be read",
		`{"error":{"code":400,"err_code":10060,"description":"no"},"stream":"S","seq":0}`: "10060",
		`{"stream":"S","seq":0,"error":{"code":503,"err_code":10077,"description":"no"}}`: "10077",
	} {
		got := ""
		if err := judge(&nats.Msg{Data: []byte(data)}, "S"); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", data, got, want)
		}
	}
	if err := judge(&nats.Msg{Header: nats.Header{"Status": {"503"}}}, "S"); !errors.Is(err, errNoStream) {
		t.Error(err)
	}
	for code, final := range map[int]bool{400: true, 401: true, 404: false, 408: false, 409: false, 429: false, 500: false, 503: false} {
		if isRefusal(fmt.Errorf("x: %w", &jetstream.APIError{Code: code})) != final {
			t.Errorf("%d", code)
		}
	}
}

// An acknowledgement that comes after its run was sent again is another one's.
func TestFlights(t *testing.T) {
	a := &acks{prefix: "_INBOX.x.", flights: map[uint64]*flight{}}
	out := make([]parcel, 3)
	for i := range out {
		out[i].stream = specs[0]
	}
	ok := []byte(`{"stream":"` + SeatsStream + `","seq":1}`)
	first := a.open(out)
	stale := first.reply(1)
	a.forget(first)
	f := a.open(out)
	for _, subject := range []string{stale, "_INBOX.x.zz.0", "_INBOX.x..", "_INBOX.x." + strings.Repeat("z", 40) + ".0", strings.TrimSuffix(f.reply(0), "0") + "9", f.reply(2), f.reply(2)} {
		a.receive(&nats.Msg{Subject: subject, Data: ok})
	}
	if n, err := f.outcome(errNoAck); n != 0 || err != errNoAck || a.waiting() != 3 {
		t.Errorf("%d, %v, %d waiting", n, err, a.waiting())
	}
	a.receive(&nats.Msg{Subject: f.reply(0), Data: ok})
	a.receive(&nats.Msg{Subject: f.reply(1), Data: []byte(`{"error":{"code":500,"description":"full"}}`)})
	<-f.done
	if n, err := f.outcome(nil); n != 1 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestRuns(t *testing.T) {
	sized := func(n, size int) []parcel {
		out := make([]parcel, n)
		for i := range out {
			out[i].size = size
		}
		return out
	}
	for _, c := range []struct{ n, size, want int }{{1, 10, 1}, {256, 10, 256}, {257, 10, 256}, {10, 300_000, 3}, {2, MaxPayload, 1}, {1, 2 * MaxPayload, 1}} {
		if got := run(sized(c.n, c.size)); got != c.want {
			t.Errorf("a run of %d, want %d of %d messages of %d bytes", got, c.want, c.n, c.size)
		}
	}
}

// The embedded server keeps what it has in its folder, for the next process.
func TestEmbeddedKeeps(t *testing.T) {
	dir := t.TempDir()
	b := open(t, Options{Dir: dir})
	publish(t, b, numbered(1, 1), numbered(1, 2))
	before, err := b.Last(t.Context(), "seatflow.seats.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, Options{Dir: dir})
	after, err := b.Last(t.Context(), "seatflow.seats.>")
	if err != nil || after.ID != "1.2" || after.Stream != before.Stream || after.Sequence != 2 {
		t.Errorf("%+v, %v", after, err)
	}
	if b.server.Addr() != nil {
		t.Errorf("listens on %v", b.server.Addr())
	}
	_ = b.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: file}); err == nil || !strings.Contains(err.Error(), "storage directory") {
		t.Errorf("opened in a file: %v", err)
	}
}

func FuzzSubject(f *testing.F) {
	for _, s := range []string{"seatflow.seats.p07.42", "seatflow.seats.>", "seatflow.orders.*.x", "seatflow.seats..", "seatflow.seats.*>", "seatflow.orders.a\x00b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, wild := range []bool{false, true} {
			_, err := checkSubject(s, wild)
			if err != nil {
				continue
			}
			if !server.IsValidSubject(s) || !wild && !server.IsValidPublishSubject(s) {
				t.Errorf("%q (wildcards %t) is let through, and the server refuses it", s, wild)
			}
		}
	})
}
