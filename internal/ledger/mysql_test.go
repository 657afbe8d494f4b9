package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seatflow"
	"seatflow/internal/conformance"
	"seatflow/internal/testkit"
)

// newDatabase returns the URL of an empty database.
func newDatabase(t testing.TB) string {
	t.Helper()
	return testkit.SharedMariaDB(t).NewDatabase(t)
}

// openMySQL opens a ledger that is closed with the test.
func openMySQL(t conformance.TB, url string, opts Options) *Ledger {
	t.Helper()
	l, err := OpenMySQL(context.Background(), url, opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// The suite holds whether the server notices writes that a transaction's
// snapshot does not show, or not.
func TestConformanceMySQL(t *testing.T) {
	for _, isolation := range []string{"OFF", "ON"} {
		t.Run("snapshot isolation "+isolation, func(t *testing.T) {
			m := testkit.SharedMariaDB(t)
			m.SetGlobal(t, "innodb_snapshot_isolation", isolation)
			conformance.Ledger(t, func(tb conformance.TB) seatflow.Ledger { return openMySQL(tb, m.NewDatabase(t), Options{}) })
		})
	}
}

func TestMySQLURLs(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct{ url, want string }{
		{"mysql://root:secret@127.0.0.1:1/", "must be mysql://"},
		{"mysql:///db", "must be mysql://"},
		{"mariadb://root:secret@127.0.0.1:1/db", "must be mysql://"},
		{"mysql://root:secret@127.0.0.1:1/a/b", "must be mysql://"},
		{"mysql://root:secret@127.0.0.1:1/db#x", "must be mysql://"},
		{"mysql://root:secret%zz@127.0.0.1:1/db", "is none"},
		{"mysql://root:secret@127.0.0.1:1/db?pool=3", `unknown parameter "pool"`},
		{"mysql://root:secret@127.0.0.1:1/db?tls=maybe", `tls="maybe"`},
		{"mysql://root:secret@127.0.0.1:1/db?tls-ca=/x", "tls-ca without tls"},
		{"mysql://root:secret@127.0.0.1:1/db?tls=true&tls-ca=/no/such/file", "tls-ca: "},
		{"mysql://root:secret@127.0.0.1:1/db", "refused"},
	} {
		_, err := OpenMySQL(ctx, c.url, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.url, err)
		}
		if err := Migrate(ctx, c.url, nil); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("migrate %s: %v", c.url, err)
		}
	}
	if _, err := OpenMySQL(ctx, newDatabase(t), Options{MaxConns: MinConns - 1}); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("too few connections: %v", err)
	}
	cfg, err := mysqlConfig("mysql://us%40er:p%2Fw%3A@[::1]/db?tls=true", nil)
	if err != nil || cfg.User != "us@er" || cfg.Passwd != "p/w:" || cfg.Addr != "[::1]:3306" || cfg.DBName != "db" || cfg.TLS.ServerName != "::1" ||
		cfg.TLS.InsecureSkipVerify {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestMySQLDurability(t *testing.T) {
	m := testkit.SharedMariaDB(t)
	url := m.NewDatabase(t)
	m.SetGlobal(t, "innodb_flush_log_at_trx_commit", "2")
	if _, err := OpenMySQL(context.Background(), url, Options{}); !errors.Is(err, ErrRelaxedDurability) || !strings.Contains(err.Error(), "is 2, not 1") {
		t.Fatalf("a server that may lose commits: %v", err)
	}
	l := openMySQL(t, url, Options{AllowRelaxedDurability: true})
	testShow(t, l, 1)
}

// TestMySQLBinaryLog: with a binary log, that log decides after a crash.
func TestMySQLBinaryLog(t *testing.T) {
	m := testkit.StartMariaDB(t, testkit.MariaDBOptions{Args: []string{"--log-bin=binlog", "--server-id=1", "--binlog-format=ROW"}})
	if _, err := OpenMySQL(context.Background(), m.URL(), Options{}); !errors.Is(err, ErrRelaxedDurability) || !strings.Contains(err.Error(), "sync_binlog") {
		t.Fatalf("a binary log that is not synced: %v", err)
	}
	m.SetGlobal(t, "sync_binlog", "1")
	l := openMySQL(t, m.URL(), Options{})
	show := testShow(t, l, 3)
	if _, err := l.InsertOrder(context.Background(), sale(show, "u", "k", 1)); err != nil {
		t.Error(err)
	}
}

// TestMySQLPlainUser: a node needs no rights beyond those on rows once the
// schema is there.
func TestMySQLPlainUser(t *testing.T) {
	database := newDatabase(t)
	owner := openMySQL(t, database, Options{})
	show := testShow(t, owner, 5)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	rawExecMySQL(t, owner, "CREATE USER 'node-"+name+"'@'127.0.0.1' IDENTIFIED BY 'p@ss:w/rd%'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO 'node-"+name+"'@'127.0.0.1'")
	t.Cleanup(func() { rawExecMySQL(t, owner, "DROP USER 'node-"+name+"'@'127.0.0.1'") })
	u.User = url.UserPassword("node-"+name, "p@ss:w/rd%")
	l := openMySQL(t, u.String(), Options{})
	o, err := l.InsertOrder(context.Background(), sale(show, "u", "k", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.CancelOrder(context.Background(), seatflow.OrderChange{No: o.No}); err != nil {
		t.Error(err)
	}
	sound(t, l)
}

func TestMySQLSession(t *testing.T) {
	l := openMySQL(t, newDatabase(t), Options{})
	for name, db := range map[string]*sql.DB{"writers": l.writeDB, "readers": l.readDB} {
		var isolation, zone, mode, lockWait, idle, charset, autocommit string
		err := db.QueryRow("SELECT @@SESSION.tx_isolation, @@SESSION.time_zone, @@SESSION.sql_mode, @@SESSION.innodb_lock_wait_timeout, "+
			"@@SESSION.wait_timeout, @@SESSION.character_set_client, @@SESSION.autocommit").Scan(&isolation, &zone, &mode, &lockWait, &idle, &charset, &autocommit)
		got := []string{isolation, zone, mode, lockWait, idle, charset, autocommit}
		if want := []string{"READ-COMMITTED", "+00:00", "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION", "1", "30", "utf8mb4", "1"}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q, %v", name, got, want, err)
		}
	}
	l = openMySQL(t, newDatabase(t), Options{MaxConns: 20})
	if s := l.Stats(); s.Writers.MaxOpenConnections+s.Readers.MaxOpenConnections != 20 {
		t.Errorf("bounds %d and %d, want 20 together", s.Writers.MaxOpenConnections, s.Readers.MaxOpenConnections)
	}
}

// TestMySQLPoolWaits: a pool that is used up is seen in the statistics.
func TestMySQLPoolWaits(t *testing.T) {
	l := openMySQL(t, newDatabase(t), Options{MaxConns: MinConns})
	var held []*sql.Conn
	for range MinConns - mysqlWriters {
		c, err := l.readDB.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	done := make(chan error, 1)
	go func() {
		_, err := l.Halls(context.Background(), 0, 1)
		done <- err
	}()
	waitFor(t, "a wait for a connection", func() bool { return l.Stats().Readers.WaitCount == 1 })
	if s := l.Stats().Readers; s.InUse != s.MaxOpenConnections {
		t.Errorf("%d of %d in use", s.InUse, s.MaxOpenConnections)
	}
	for _, c := range held {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// waitFor polls until something holds.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	hang := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-hang:
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// TestMigrateAtOnce: ten processes that start together migrate once.
func TestMigrateAtOnce(t *testing.T) {
	url := newDatabase(t)
	var all sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		all.Go(func() {
			if i%2 == 0 {
				errs[i] = Migrate(context.Background(), url, nil)
				return
			}
			l, err := OpenMySQL(context.Background(), url, Options{})
			if err == nil {
				err = l.Close()
			}
			errs[i] = err
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	l := openMySQL(t, url, Options{})
	files, err := mysqlMigrations.ReadDir("migrations/mysql")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("%d|%d|%d", len(files), len(files), len(files))}
	if got := rawTexts(t, l, "SELECT COUNT(*), COUNT(DISTINCT version_id), MAX(version_id) FROM goose_db_version WHERE version_id > 0"); !reflect.DeepEqual(got, want) {
		t.Errorf("migrations noted: %q, want %q", got, want)
	}
	// Six processes have opened it, each with a number of its own.
	if got := rawTexts(t, l, "SELECT value FROM meta WHERE name = 'nodes'"); !reflect.DeepEqual(got, []string{"5"}) {
		t.Errorf("the last process has number %q, want 5", got)
	}
}

// A migration that was interrupted before it was noted runs again.
func TestMigrateAgain(t *testing.T) {
	url := newDatabase(t)
	l := openMySQL(t, url, Options{})
	show := testShow(t, l, 2)
	if _, err := l.InsertOrder(context.Background(), sale(show, "u", "k", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.writeDB.Exec("DELETE FROM goose_db_version WHERE version_id > 0"); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(context.Background(), url, nil); err != nil {
		t.Fatal(err)
	}
	if f, err := l.Facts(context.Background(), show.ID); err != nil || len(f.Orders) != 1 {
		t.Errorf("after a second run: %v, %v", f.Orders, err)
	}
}

func TestMySQLNewerSchema(t *testing.T) {
	url := newDatabase(t)
	l := openMySQL(t, url, Options{})
	if _, err := l.writeDB.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenMySQL(context.Background(), url, Options{}); !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), "99999") {
		t.Errorf("opened a newer schema: %v", err)
	}
	if err := Migrate(context.Background(), url, nil); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("migrated a newer schema: %v", err)
	}
}

// TestSchemasAgree: both databases have the same tables with the same columns,
// NULL in the same places.
func TestSchemasAgree(t *testing.T) {
	m, s := openMySQL(t, newDatabase(t), Options{}), openTest(t, Options{})
	schema := func(rows []string) map[string][]string {
		tables := map[string][]string{}
		for _, r := range rows {
			table, column, _ := strings.Cut(r, "|")
			tables[table] = append(tables[table], column)
		}
		for _, columns := range tables {
			slices.Sort(columns)
		}
		return tables
	}
	a := schema(rawTexts(t, m, "SELECT table_name, column_name, IF(is_nullable = 'YES', 1, 0) FROM information_schema.columns "+
		"WHERE table_schema = DATABASE() AND table_name <> 'goose_db_version'"))
	b := schema(rawTexts(t, s, `SELECT m.name, c.name, CASE WHEN c."notnull" = 0 AND c.pk = 0 THEN 1 ELSE 0 END FROM sqlite_master m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version'`))
	if len(a) < 11 {
		t.Errorf("only %d tables", len(a))
	}
	for table := range maps.Keys(b) {
		if !slices.Equal(a[table], b[table]) {
			t.Errorf("%s:\n MySQL  %q\n SQLite %q", table, a[table], b[table])
		}
		delete(a, table)
	}
	if len(a) > 0 {
		t.Errorf("in MySQL only: %v", a)
	}
}

// rawTexts reads a query's rows as text, whatever their types are.
func rawTexts(t testing.TB, l *Ledger, query string) []string {
	t.Helper()
	rows, err := l.readDB.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		values, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		text := make([]string, len(values))
		for i, v := range values {
			text[i] = v.String
			if !v.Valid {
				text[i] = "NULL"
			}
		}
		all = append(all, strings.Join(text, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func wantTexts(t *testing.T, l *Ledger, query string, want ...string) {
	t.Helper()
	if got := rawTexts(t, l, query); !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", query, got, want)
	}
}

// TestMySQLRows reads the rows of a few orders past everything that this
// package makes of them; one batch is large enough for prepared inserts, which
// must write the same rows as the others.
func TestMySQLRows(t *testing.T) {
	clock := testkit.NewFakeClock(time.UnixMicro(1_000_000))
	l := openMySQL(t, newDatabase(t), Options{Clock: clock})
	ctx := context.Background()
	show := testShow(t, l, 200)
	insert := func(n seatflow.NewOrder) seatflow.Order {
		t.Helper()
		o, err := l.InsertOrder(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	us := func(n int64) time.Time { return time.UnixMicro(n) }
	actor := seatflow.Actor{User: "ann", Role: seatflow.RoleBuyer, TraceID: "tttt", Device: seatflow.DeviceWeb}
	n := seatflow.NewOrder{Generation: show.Generation, Actor: actor, Order: seatflow.Order{No: "01AAAAAAAAAAAAAAAAAAAAAAAA", Show: show.ID, User: "ann",
		Key: "k'1\\ \"钥匙\"", Fingerprint: seatflow.Fingerprint{0xab, 15: 0xcd}, Items: []seatflow.OrderItem{{Seat: 5, Price: 1200}, {Seat: 4, Price: 800}},
		Total: seatflow.Money{Amount: 2000, Currency: "EUR"}, TakenAt: us(10), Deadline: us(20), Cap: us(40), Device: seatflow.DeviceWeb}}
	insert(n)
	insert(seatflow.NewOrder{Generation: show.Generation, Actor: actor, Order: seatflow.Order{No: "01BBBBBBBBBBBBBBBBBBBBBBBB", Show: show.ID, User: "ann",
		Kind: seatflow.KindBlock, Reason: "camera\n'1'", Items: []seatflow.OrderItem{{Seat: 9}}, Device: seatflow.DeviceWeb}})
	if _, err := l.CancelOrder(ctx, seatflow.OrderChange{No: n.Order.No, Actor: seatflow.System("t")}); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, l, "SELECT no, attempt, version, show_id, user_id, okey, HEX(fingerprint), items, amount, currency, taken_at, deadline, cap_at, "+
		"created_at, updated_at, kind, state, extended, device, reason FROM order_info ORDER BY no",
		"01AAAAAAAAAAAAAAAAAAAAAAAA|1|2|1|ann|k'1\\ \"钥匙\"|AB0000000000000000000000000000CD|4:800,5:1200|2000|EUR|10|20|40|1000000|1000000|sale|cancelled|0|web|",
		"01BBBBBBBBBBBBBBBBBBBBBBBB|1|1|1|ann|NULL|NULL|9:0|0||0|0|0|1000000|1000000|block|blocked|0|web|camera\n'1'")
	wantTexts(t, l, "SELECT * FROM order_seat", "1|9|01BBBBBBBBBBBBBBBBBBBBBBBB")
	wantTexts(t, l, "SELECT order_no, version, type, from_state, to_state, seats, actor_user, actor_role, trace_id, span_id, device, at FROM order_event ORDER BY id",
		"01AAAAAAAAAAAAAAAAAAAAAAAA|1|order.created||pending|NULL|NULL|buyer|tttt|NULL|NULL|1000000",
		"01BBBBBBBBBBBBBBBBBBBBBBBB|1|seats.blocked||blocked|NULL|NULL|buyer|tttt|NULL|NULL|1000000",
		"01AAAAAAAAAAAAAAAAAAAAAAAA|2|order.cancelled|pending|cancelled|NULL|system:t|admin|||system|1000000")
	wantTexts(t, l, "SELECT b.order_no, b.version FROM outbox b JOIN order_event e ON e.id = b.id AND e.order_no = b.order_no AND e.version = b.version ORDER BY b.id",
		"01AAAAAAAAAAAAAAAAAAAAAAAA|1", "01BBBBBBBBBBBBBBBBBBBBBBBB|1", "01AAAAAAAAAAAAAAAAAAAAAAAA|2")

	g := holdWriter(t, l)
	errs := make(chan error, 70)
	for i := range 70 { // 64 by one prepared statement, the others by a text
		go func() {
			_, err := l.InsertOrder(ctx, sale(show, fmt.Sprint("u", i), "k", seatflow.SeatID(i+20)))
			errs <- err
		}()
	}
	waitQueued(l, 70)
	g()
	for range 70 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	wantTexts(t, l, "SELECT attempt, version, kind, state, extended, reason, COUNT(*) FROM order_info WHERE user_id LIKE 'u%' GROUP BY 1, 2, 3, 4, 5, 6",
		"1|1|sale|pending|0||70")
	wantTexts(t, l, "SELECT e.type, e.to_state, e.from_state, e.version, b.version, COUNT(*) FROM order_event e JOIN outbox b ON b.id = e.id JOIN order_info o ON o.no = e.order_no "+
		"WHERE o.user_id LIKE 'u%' GROUP BY 1, 2, 3, 4, 5", "order.created|pending||1|1|70")
}

// holdWriter holds the committer of new orders until the returned function is
// called.
func holdWriter(t testing.TB, l *Ledger) (release func()) {
	t.Helper()
	reached, open := make(chan struct{}), make(chan struct{})
	release = sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	o := &op{done: make(chan error, 1), do: func(*tx) error {
		close(reached)
		<-open
		return nil
	}}
	go func() { _, _ = l.commits.submit(context.Background(), o) }()
	<-reached
	return release
}

// TestMySQLKeysAreBytes: names that some collations hold for the same are not.
func TestMySQLKeysAreBytes(t *testing.T) {
	l := openMySQL(t, newDatabase(t), Options{})
	ctx := context.Background()
	show := testShow(t, l, 50)
	pairs := []userKey{{"user", "key"}, {"User", "key"}, {"user", "KEY"}, {"user", "kéy"}, {"user", "key "}, {"user", " key"}, {"user ", "key"}, {"user", "ke\u0301y"}}
	nos := map[userKey]seatflow.OrderNo{}
	for i, p := range pairs {
		o, err := l.InsertOrder(ctx, sale(show, string(p.user), p.key, seatflow.SeatID(i+1)))
		if err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		nos[p] = o.No
	}
	for _, p := range pairs {
		if o, err := l.OrderByKey(ctx, p.user, p.key); err != nil || o.No != nos[p] || o.Key != p.key || o.User != p.user {
			t.Errorf("%q finds %q of %q, %v", p, o.Key, o.User, err)
		}
	}
	if _, err := l.OrderByKey(ctx, "user", "key\xff"); !errors.Is(err, seatflow.ErrNotFound) {
		t.Errorf("a key that is no text: %v", err)
	}
	no := nos[pairs[0]]
	for _, other := range []seatflow.OrderNo{no + " ", " " + no, no[:25], "", "' OR 1=1 -- ", seatflow.OrderNo(strings.ToLower("01ABCDEFGHJKMNPQRSTVWXYZ00"))} {
		if _, err := l.Order(ctx, other, ""); !errors.Is(err, seatflow.ErrNotFound) {
			t.Errorf("order %q: %v", other, err)
		}
	}
}

// TestMySQLStadium: a plan of a stadium's size goes through packets of any
// server.
func TestMySQLStadium(t *testing.T) {
	m := testkit.SharedMariaDB(t)
	m.SetGlobal(t, "max_allowed_packet", "2097152")
	l := openMySQL(t, m.NewDatabase(t), Options{})
	ctx := context.Background()
	show := testShow(t, l, 60_000)
	p, err := l.Plan(ctx, show.Hall, 0)
	if err != nil || len(p.Seats) != 60_000 || p.Seats[59_999].ID != 60_000 {
		t.Fatalf("%d seats, %v", len(p.Seats), err)
	}
	if h, err := l.HallSeats(ctx, show.Hall); err != nil || len(h.ByGUID) != 60_000 || h.NextID != 60_001 {
		t.Errorf("%d guids, next id %d, %v", len(h.ByGUID), h.NextID, err)
	}
	// A block of a tenth of it, taken and given back.
	b := seatflow.NewOrder{Generation: show.Generation, Order: seatflow.Order{No: newNo(), Show: show.ID, User: "staff", Kind: seatflow.KindBlock}}
	for i := range 6_000 {
		b.Order.Items = append(b.Order.Items, seatflow.OrderItem{Seat: seatflow.SeatID(i + 1)})
	}
	if _, err := l.InsertOrder(ctx, b); err != nil {
		t.Fatal(err)
	}
	if list, err := l.Blocks(ctx, show.ID); err != nil || len(list) != 1 || len(list[0].Items) != 6_000 {
		t.Errorf("%d blocks, %v", len(list), err)
	}
	if o, err := l.UnblockSeats(ctx, seatflow.OrderChange{No: b.Order.No}, nil); err != nil || o.State != seatflow.OrderCancelled {
		t.Errorf("unblock: %s, %v", o.State, err)
	}
	wantTexts(t, l, "SELECT COUNT(*) FROM order_seat", "0")
}
