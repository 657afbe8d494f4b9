package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver that the ledger uses

	"seatflow/internal/ledger"
)

// lone measures one order after the other on one connection, by turns with
// one plain commit of the same rows into the same tables with the same
// pragmas on the same disk. It returns the medians.
func (b *bench) lone(ctx context.Context, p *process, h *house, dir string, n int) (order, commit time.Duration, err error) {
	path := filepath.Join(dir, "plain.db")
	made, err := ledger.OpenSQLite(ctx, path, ledger.Options{})
	if err != nil {
		return 0, 0, err
	}
	if err := made.Close(); err != nil {
		return 0, 0, err
	}
	q := url.Values{"_pragma": {"journal_mode(wal)", "synchronous(full)", "foreign_keys(1)", "temp_store(memory)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+q.Encode())
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	plain, err := newPlain(ctx, db)
	if err != nil {
		return 0, 0, err
	}
	token, err := os.ReadFile(h.tokens)
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := strings.Cut(string(token), "\n")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	orders, commits := make([]time.Duration, 0, n), make([]time.Duration, 0, n)
	for i := range n {
		body := fmt.Sprintf(`{"showId":%d,"seats":[%d]}`, h.quiet, i+1)
		request := fmt.Sprintf("POST /api/v1/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
			"Idempotency-Key: lone-%d\r\nContent-Length: %d\r\n\r\n%s", first, i, len(body), body)
		start := time.Now()
		if _, err := io.WriteString(conn, request); err != nil {
			return 0, 0, err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0, 0, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return 0, 0, err
		}
		orders = append(orders, time.Since(start))
		if resp.StatusCode != http.StatusCreated {
			return 0, 0, fmt.Errorf("a lone order got %s", resp.Status)
		}
		start = time.Now()
		if err := plain.commit(ctx, i); err != nil {
			return 0, 0, err
		}
		commits = append(commits, time.Since(start))
	}
	return middle(orders), middle(commits), nil
}

// plain writes an order's rows as straightforwardly as can be.
type plain struct {
	db                        *sql.DB
	info, seat, event, outbox *sql.Stmt
}

func newPlain(ctx context.Context, db *sql.DB) (*plain, error) {
	p := &plain{db: db}
	for to, text := range map[**sql.Stmt]string{
		&p.info: "INSERT INTO order_info (no, show_id, user_id, okey, fingerprint, items, amount, currency, taken_at, deadline, cap_at, " +
			"created_at, updated_at, kind, state, device, reason, attempt, version, extended) VALUES (?,1,?,?,?,?,1000,'EUR',?,?,?,?,?,'sale','pending','web','',1,1,0)",
		&p.seat: "INSERT INTO order_seat (show_id, seat_id, order_no) VALUES (1,?,?)",
		&p.event: "INSERT INTO order_event (order_no, id, type, to_state, actor_user, actor_role, trace_id, span_id, device, at, version, from_state) " +
			"VALUES (?,?,'order.created','pending',?,'buyer','0af7651916cd43dd8448eb211c80319c','b7ad6b7169203331','web',?,1,'')",
		&p.outbox: "INSERT INTO outbox (id, order_no, version) VALUES (?,?,1)",
	} {
		s, err := db.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		*to = s
	}
	return p, nil
}

func (p *plain) commit(ctx context.Context, n int) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	no, user, now := fmt.Sprintf("01HZX%021d", n), "buyer-000", time.Now().UnixMicro()
	for _, do := range []struct {
		s    *sql.Stmt
		args []any
	}{
		{p.info, []any{no, user, fmt.Sprintf("plain-%d", n), make([]byte, 16), fmt.Sprintf("%d:1000", n+1), now, now, now, now, now}},
		{p.seat, []any{n + 1, no}},
		{p.event, []any{no, n + 1, user, now}},
		{p.outbox, []any{n + 1, no}},
	} {
		if _, err := tx.StmtContext(ctx, do.s).ExecContext(ctx, do.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
