package redisseats

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"seatflow"
	"seatflow/internal/testkit"
)

// The yardstick of the store is the server itself: the same script with the
// same arguments, sent by a client that does nothing else.
const (
	bareConnections = 8
	bareDepth       = 32 // commands in flight on each
)

// command is a hold as it goes over the wire.
func command(b *testing.B, s *Store, req seatflow.HoldRequest) []string {
	b.Helper()
	in, err := s.current(b.Context(), req.Show.Partition)
	if err != nil {
		b.Fatal(err)
	}
	keys := s.keys.of(&req.Show).hold
	words := append([]string{"EVALSHA", in.sha[scriptHold], strconv.Itoa(len(keys))}, keys...)
	return append(words, holdArgs(&req)...)
}

// wire encodes a command.
func wire(words []string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
	}
	return out
}

// pipeline sends ready commands over one connection, bareDepth at a time, and
// wants each answered by a list that begins with a word.
func pipeline(addr string, commands [][]byte, want string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 1<<16)
	var out []byte
	for len(commands) > 0 {
		n := min(bareDepth, len(commands))
		out = out[:0]
		for _, c := range commands[:n] {
			out = append(out, c...)
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		for range n {
			if word, err := firstWord(in); err != nil || word != want {
				return fmt.Errorf("a reply begins with %q (%v), want %q", word, err, want)
			}
		}
		commands = commands[n:]
	}
	return nil
}

// firstWord reads a flat reply and returns its first element.
func firstWord(in *bufio.Reader) (first string, err error) {
	line, err := in.ReadString('\n')
	if err != nil || line[0] != '*' {
		return line, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	for i := 0; i < n && err == nil; i++ {
		var text string
		if line, err = in.ReadString('\n'); err != nil {
			break
		}
		if text = strings.TrimSpace(line[1:]); line[0] == '$' {
			size, _ := strconv.Atoi(text)
			body := make([]byte, size+2)
			_, err = io.ReadFull(in, body)
			text = string(body[:size])
		}
		if i == 0 {
			first = text
		}
	}
	return first, err
}

// BenchmarkBareHold is [BenchmarkHold] without the store.
func BenchmarkBareHold(b *testing.B) {
	redis := testkit.SharedRedis(b)
	s := open(b, Options{URL: redis.URL()})
	const n = 500
	shows := benchShows(b, s, n, b.N)
	commands := make([][][]byte, bareConnections)
	for i := range b.N {
		ref, seat := shows[2*i/n], seatflow.SeatID(2*i%n+1)
		at := i % bareConnections
		commands[at] = append(commands[at], wire(command(b, s, benchAsk(ref, i, 1_000_000, seat, seat+1))))
	}
	b.ResetTimer()
	var group errgroup.Group
	for _, c := range commands {
		group.Go(func() error { return pipeline(redis.Addr(), c, "held") })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkBareRefused is [BenchmarkRefused] by redis-benchmark.
func BenchmarkBareRefused(b *testing.B) {
	redis := testkit.SharedRedis(b)
	s := open(b, Options{URL: redis.URL()})
	ref := benchShows(b, s, 500, 1)[0]
	if err := benchHold(s, ref, 0, 0, seatflow.OutcomeHeld, 7, 8); err != nil {
		b.Fatal(err)
	}
	host, port, err := net.SplitHostPort(redis.Addr())
	if err != nil {
		b.Fatal(err)
	}
	args := append([]string{"-h", host, "-p", port, "-c", strconv.Itoa(bareConnections), "-P", strconv.Itoa(bareDepth), "-n", strconv.Itoa(max(b.N, 1000)),
		"--csv"}, command(b, s, benchAsk(ref, 1, 1_000_000, 7, 8))...)
	b.ResetTimer()
	out, err := exec.CommandContext(b.Context(), "redis-benchmark", args...).Output()
	if err != nil {
		b.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
	b.StopTimer()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fields := strings.Split(lines[len(lines)-1], `","`)
	if len(fields) < 2 {
		b.Fatalf("redis-benchmark printed %q", out)
	}
	rate, err := strconv.ParseFloat(strings.Trim(fields[1], `"`), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(rate, "calls/s")
}
