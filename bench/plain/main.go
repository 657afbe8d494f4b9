// Command plain serves the plain design over HTTP: the same request as
// SeatFlow's POST /api/v1/orders, answered by package
// bench/strategies/plain, so that wrk can drive both with one script.
//
// It checks the bearer token with the code that SeatFlow uses, refuses a body
// that is not an order, and answers 201, 400, 401, 409, 422, 429 or 500. GET
// /readyz answers 200 while Redis and the database do. It makes the shows
// 1…--shows of --seats seats each, writes buyers' tokens to a file, one a
// line, prints its URL and runs until it is interrupted.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"seatflow"
	"seatflow/bench/strategies/plain"
	"seatflow/internal/auth"
)

// settings are the command's flags.
type settings struct {
	listen string
	redis  string
	mysql  string
	conns  int
	rate   int
	shows  int
	seats  int
	tokens string
	buyers int
}

func main() {
	var s settings
	flag.StringVar(&s.listen, "listen", "127.0.0.1:0", "address to serve on")
	flag.StringVar(&s.redis, "redis", "127.0.0.1:6379", "Redis, host:port")
	flag.StringVar(&s.mysql, "mysql", "", "database, mysql://user:password@host:port/database")
	flag.IntVar(&s.conns, "conns", plain.DefaultConns, "connections to the database")
	flag.IntVar(&s.rate, "rate", plain.DefaultRate, "orders of a user in a minute")
	flag.IntVar(&s.shows, "shows", 1, "shows to put on sale")
	flag.IntVar(&s.seats, "seats", 1000, "seats in each")
	flag.StringVar(&s.tokens, "tokens", "", "write buyers' tokens to this file, one a line")
	flag.IntVar(&s.buyers, "buyers", 256, "how many")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	store, err := plain.Open(ctx, plain.Options{Redis: s.redis, MySQL: s.mysql, Conns: s.conns, Rate: s.rate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for show := 1; show <= s.shows; show++ {
		if err := store.OpenShow(ctx, int64(show), s.seats); err != nil {
			return err
		}
	}
	secret := make([]byte, auth.MinSecretLen)
	_, _ = rand.Read(secret) // never fails
	tokens, err := auth.NewTokens(secret, nil)
	if err != nil {
		return err
	}
	if s.tokens != "" {
		if err := writeTokens(tokens, s.tokens, s.buyers); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(store, tokens), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 32 << 10}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer ended()
	fmt.Println("http://" + l.Addr().String())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// writeTokens mints tokens for buyer-000 and so on.
func writeTokens(tokens *auth.Tokens, path string, buyers int) error {
	var b strings.Builder
	for i := range buyers {
		token, _, err := tokens.Mint(seatflow.UserID(fmt.Sprintf("buyer-%03d", i)), seatflow.RoleBuyer, 4*time.Hour)
		if err != nil {
			return err
		}
		b.WriteString(token + "\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}
