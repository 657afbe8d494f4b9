package plain

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
)

// Defaults of [Options].
const (
	DefaultConns = 64
	DefaultRate  = 10
	DefaultSpan  = time.Minute
	DefaultHold  = 15 * time.Minute
	// MostSeats an order may have: statements are prepared for each number.
	MostSeats = 10
)

const (
	// tries of a transaction that the server ended to break a deadlock.
	tries = 4
	// finish is how long an order that has its seats may take to be stored,
	// or to give them back, when its caller has gone.
	finish = 5 * time.Second
)

var (
	//go:embed lua/window.lua
	windowLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/free.lua
	freeLua string
)

// Errors that a buyer may see.
var (
	// ErrRate: the user made too many attempts within the span.
	ErrRate = errors.New("plain: over the rate")
	// ErrInvalid: a request that no try can make good.
	ErrInvalid = errors.New("plain: invalid request")
	// ErrKeyUsed: the user's idempotency key has an order already.
	ErrKeyUsed = errors.New("plain: key used before")
)

// TakenError names the seats that are not free (or not there).
type TakenError struct{ Seats []int }

// Error implements error.
func (e *TakenError) Error() string { return fmt.Sprintf("plain: seats %v are taken", e.Seats) }

// Options tell where the stores are. Zero values take the defaults.
type Options struct {
	Redis string // host:port
	MySQL string // mysql://user:password@host:port/database
	Conns int    // to the database, kept open
	Rate  int    // attempts of a user within Span
	Span  time.Duration
	Hold  time.Duration // until an order's seats are due
	// Between, if set, is called after the seats were taken and before the
	// transaction; when it fails the order ends there as if its process had
	// died. For simulations.
	Between func(ctx context.Context) error
}

// Request asks for seats.
type Request struct {
	User  string
	Show  int64
	Seats []int // distinct
	Key   string
}

// Order is an order that was stored.
type Order struct {
	No       string
	Show     int64
	User     string
	Seats    []int
	Deadline time.Time
}

// Store takes orders. It is safe for concurrent use.
type Store struct {
	o                  Options
	redis              rueidis.Client
	db                 *sql.DB
	window, take, free *rueidis.Lua
	order              *sql.Stmt
	seats              [MostSeats]*sql.Stmt // by number of seats − 1
	deadlocks          atomic.Int64
}

// schema is safe to run again.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS order_info (
		no CHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
		show_id BIGINT NOT NULL,
		user_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
		okey VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
		seats VARCHAR(200) NOT NULL,
		state VARCHAR(10) NOT NULL,
		deadline BIGINT NOT NULL,
		created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
		UNIQUE KEY uk_order_info_user_key (user_id, okey)
	) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS order_seat (
		show_id BIGINT NOT NULL,
		seat_id INT NOT NULL,
		order_no CHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
		PRIMARY KEY (show_id, seat_id)
	) ENGINE=InnoDB`,
}

// Open connects to both stores and makes the tables.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	if o.Conns <= 0 {
		o.Conns = DefaultConns
	}
	if o.Rate <= 0 {
		o.Rate = DefaultRate
	}
	if o.Span <= 0 {
		o.Span = DefaultSpan
	}
	if o.Hold <= 0 {
		o.Hold = DefaultHold
	}
	s := &Store{o: o, window: rueidis.NewLuaScript(windowLua), take: rueidis.NewLuaScript(takeLua), free: rueidis.NewLuaScript(freeLua)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{o.Redis}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return nil, fmt.Errorf("plain: connect to Redis: %w", err)
	}
	if s.db, err = OpenDB(ctx, o.MySQL, o.Conns); err != nil {
		return nil, err
	}
	for _, statement := range schema {
		if _, err = s.db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("plain: make the tables: %w", err)
		}
	}
	if s.order, err = s.db.PrepareContext(ctx, "INSERT INTO order_info (no, show_id, user_id, okey, seats, state, deadline) VALUES (?,?,?,?,?,'pending',?)"); err != nil {
		return nil, fmt.Errorf("plain: prepare: %w", err)
	}
	for i := range s.seats {
		text := "INSERT INTO order_seat (show_id, seat_id, order_no) VALUES (?,?,?)" + strings.Repeat(",(?,?,?)", i)
		if s.seats[i], err = s.db.PrepareContext(ctx, text); err != nil {
			return nil, fmt.Errorf("plain: prepare: %w", err)
		}
	}
	return s, nil
}

func showKey(show int64) string { return "plain:show:" + strconv.FormatInt(show, 10) }

const deadlinesKey = "plain:deadlines"

// OpenShow puts a show's seats 1…seats on sale, but for those that the tables
// say are sold.
func (s *Store) OpenShow(ctx context.Context, show int64, seats int) error {
	sold := map[int]string{}
	rows, err := s.db.QueryContext(ctx, "SELECT seat_id, order_no FROM order_seat WHERE show_id = ?", show)
	if err != nil {
		return fmt.Errorf("plain: open show %d: %w", show, err)
	}
	defer rows.Close()
	for rows.Next() {
		var seat int
		var order string
		if err := rows.Scan(&seat, &order); err != nil {
			return fmt.Errorf("plain: open show %d: %w", show, err)
		}
		sold[seat] = order
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("plain: open show %d: %w", show, err)
	}
	const chunk = 5000
	for from := 1; from <= seats; from += chunk {
		set := s.redis.B().Hset().Key(showKey(show)).FieldValue()
		for seat := from; seat < from+chunk && seat <= seats; seat++ {
			value := sold[seat]
			if value == "" {
				value = "0"
			}
			set = set.FieldValue(strconv.Itoa(seat), value)
		}
		if err := s.redis.Do(ctx, set.Build()).Error(); err != nil {
			return fmt.Errorf("plain: open show %d: %w", show, err)
		}
	}
	return nil
}

// Order takes seats and stores the order that has them. Errors: ErrInvalid,
// ErrRate, ErrKeyUsed, *TakenError; any other is the stores'.
func (s *Store) Order(ctx context.Context, r Request) (Order, error) {
	if len(r.Seats) == 0 || len(r.Seats) > MostSeats || r.User == "" || len(r.User) > 64 || len(r.Key) > 64 {
		return Order{}, ErrInvalid
	}
	id, err := ulid.New(ulid.Now(), rand.Reader)
	if err != nil {
		return Order{}, fmt.Errorf("plain: order number: %w", err)
	}
	o := Order{No: id.String(), Show: r.Show, User: r.User, Seats: slices.Sorted(slices.Values(r.Seats))}
	if len(slices.Compact(slices.Clone(o.Seats))) != len(o.Seats) {
		return Order{}, ErrInvalid
	}
	within, err := s.window.Exec(ctx, s.redis, []string{"plain:rate:" + r.User},
		[]string{strconv.Itoa(s.o.Rate), strconv.FormatInt(s.o.Span.Milliseconds(), 10), o.No}).AsInt64()
	if err != nil {
		return Order{}, fmt.Errorf("plain: rate window: %w", err)
	}
	if within == 0 {
		return Order{}, ErrRate
	}
	args := make([]string, 3, 3+len(o.Seats))
	args[0], args[1], args[2] = strconv.FormatInt(r.Show, 10), o.No, strconv.FormatInt(s.o.Hold.Milliseconds(), 10)
	for _, seat := range o.Seats {
		args = append(args, strconv.Itoa(seat))
	}
	reply, err := s.take.Exec(ctx, s.redis, []string{showKey(r.Show), deadlinesKey}, args).AsIntSlice()
	if err != nil {
		return Order{}, fmt.Errorf("plain: take seats: %w", err)
	}
	if len(reply) == 0 {
		return Order{}, errors.New("plain: take seats: empty reply")
	}
	if reply[0] == 0 {
		taken := &TakenError{Seats: make([]int, 0, len(reply)-1)}
		for _, seat := range reply[1:] {
			taken.Seats = append(taken.Seats, int(seat))
		}
		return Order{}, taken
	}
	o.Deadline = time.UnixMilli(reply[0]).UTC()
	if s.o.Between != nil {
		if err := s.o.Between(ctx); err != nil {
			return Order{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finish)
	defer cancel()
	unknown, err := s.store(ctx, o, r.Key)
	if err == nil {
		return o, nil
	}
	var sold *TakenError
	if !unknown && !errors.As(err, &sold) { // what the tables say is sold is not offered again at once
		err = errors.Join(err, s.giveBack(context.WithoutCancel(ctx), o.Show, o.No, args[3:]))
	}
	return Order{}, err
}

// giveBack frees seats in Redis.
func (s *Store) giveBack(ctx context.Context, show int64, no string, seats []string) error {
	ctx, cancel := context.WithTimeout(ctx, finish)
	defer cancel()
	args := append([]string{strconv.FormatInt(show, 10), no}, seats...)
	if err := s.free.Exec(ctx, s.redis, []string{showKey(show), deadlinesKey}, args).Error(); err != nil {
		return fmt.Errorf("plain: give seats back: %w", err)
	}
	return nil
}

// store writes an order in one transaction, again when the server broke a
// deadlock. unknown: the commit may have happened.
func (s *Store) store(ctx context.Context, o Order, key string) (unknown bool, err error) {
	for range tries {
		unknown, err = s.storeOnce(ctx, o, key)
		if IsDeadlock(err) {
			s.deadlocks.Add(1)
		}
		if err == nil || unknown || !Again(err) {
			break
		}
	}
	switch {
	case err == nil:
		return false, nil
	case IsDuplicate(err) && strings.Contains(err.Error(), "uk_order_info_user_key"):
		return false, ErrKeyUsed
	case IsDuplicate(err):
		return false, errors.Join(&TakenError{Seats: o.Seats}, err)
	}
	return unknown, fmt.Errorf("plain: store order: %w", err)
}

func (s *Store) storeOnce(ctx context.Context, o Order, key string) (unknown bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.StmtContext(ctx, s.order).ExecContext(ctx, o.No, o.Show, o.User,
		sql.NullString{String: key, Valid: key != ""}, joined(o.Seats), o.Deadline.UnixMilli()); err != nil {
		return false, err
	}
	args := make([]any, 0, 3*len(o.Seats))
	for _, seat := range o.Seats {
		args = append(args, o.Show, seat, o.No)
	}
	if _, err := tx.StmtContext(ctx, s.seats[len(o.Seats)-1]).ExecContext(ctx, args...); err != nil {
		return false, err
	}
	err = tx.Commit()
	return err != nil && ErrorNumber(err) == 0, err
}

func joined(seats []int) string {
	b := make([]byte, 0, 8*len(seats))
	for i, seat := range seats {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(seat), 10)
	}
	return string(b)
}

// Sweep frees the seats of holds that are due and have no order, and returns
// how many it looked at. Paying and expiring orders is not part of this
// design's measurement.
func (s *Store) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	due, err := s.redis.Do(ctx, s.redis.B().Zrangebyscore().Key(deadlinesKey).Min("-inf").
		Max(strconv.FormatInt(now.UnixMilli(), 10)).Limit(0, int64(most)).Build()).AsStrSlice()
	if err != nil {
		return 0, fmt.Errorf("plain: sweep: %w", err)
	}
	for _, member := range due {
		parts := strings.Split(member, ":")
		show, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil || len(parts) < 3 {
			return 0, fmt.Errorf("plain: sweep: strange deadline %q", member)
		}
		var one int
		err = s.db.QueryRowContext(ctx, "SELECT 1 FROM order_info WHERE no = ?", parts[1]).Scan(&one)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			err = s.giveBack(ctx, show, parts[1], parts[2:])
		case err == nil:
			err = s.redis.Do(ctx, s.redis.B().Zrem().Key(deadlinesKey).Member(member).Build()).Error()
		}
		if err != nil {
			return 0, fmt.Errorf("plain: sweep: %w", err)
		}
	}
	return len(due), nil
}

// Orders reads every order that is stored, by number.
func (s *Store) Orders(ctx context.Context, each func(Order) error) error {
	rows, err := s.db.QueryContext(ctx, "SELECT no, show_id, user_id, seats, deadline FROM order_info ORDER BY no")
	if err != nil {
		return fmt.Errorf("plain: read orders: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var o Order
		var seats string
		var deadline int64
		if err := rows.Scan(&o.No, &o.Show, &o.User, &seats, &deadline); err != nil {
			return fmt.Errorf("plain: read orders: %w", err)
		}
		o.Deadline = time.UnixMilli(deadline).UTC()
		for part := range strings.SplitSeq(seats, ",") {
			seat, err := strconv.Atoi(part)
			if err != nil {
				return fmt.Errorf("plain: order %s: seats %q: %w", o.No, seats, err)
			}
			o.Seats = append(o.Seats, seat)
		}
		if err := each(o); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Healthy reports whether both stores answer.
func (s *Store) Healthy(ctx context.Context) error {
	return errors.Join(s.redis.Do(ctx, s.redis.B().Ping().Build()).Error(), s.db.PingContext(ctx))
}

// Deadlocks is how many transactions the server ended to break a deadlock.
func (s *Store) Deadlocks() int64 { return s.deadlocks.Load() }

// Close frees the connections.
func (s *Store) Close() error {
	if s.redis != nil {
		s.redis.Close()
	}
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}
