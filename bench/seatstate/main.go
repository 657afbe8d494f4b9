// Command seatstate measures three ways to keep a house's seat states in
// Redis, and the pages that memseats keeps in memory: what they weigh, what
// reading a whole house costs, and what checking and taking two seats in one
// atomic step costs. Decision record 0004 rests on its output.
//
// It starts a redis-server of its own on a free port of 127.0.0.1, with its
// files in a folder of its own, and stops it when it ends:
//
//	go run ./bench/seatstate
//
// Costs inside Redis are those of its own commandstats, so that the client,
// the kernel and other programs on the machine weigh little in them. Every
// number is the median of several rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

func main() {
	rounds := flag.Int("rounds", 7, "rounds; the median is reported")
	reads := flag.Int("reads", 50, "whole-house reads a round")
	writes := flag.Int("writes", 20_000, "two-seat changes a round")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *rounds, *reads, *writes); err != nil {
		fmt.Fprintln(os.Stderr, "seatstate:", err)
		os.Exit(1)
	}
}

var sizes = []int{500, 10_000, 60_000}

func run(ctx context.Context, w io.Writer, rounds, reads, writes int) error {
	server, err := start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	fmt.Fprintf(w, "Redis %s; median of %d rounds of %d reads and %d changes.\n\n", server.version(ctx), rounds, reads, writes)
	fmt.Fprintln(w, "| seats | kept as | memory (bytes) | bytes a seat | whole house: reply (bytes) | in Redis (µs) | at the client (µs) | two seats: in Redis (µs) | changes a second, pipelined |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, n := range sizes {
		for _, l := range layouts {
			m, err := server.measure(ctx, l, n, rounds, reads, writes)
			if err != nil {
				return fmt.Errorf("%s of %d: %w", l.name, n, err)
			}
			change := "– | –"
			if l.script != "" {
				change = fmt.Sprintf("%.2f | %.0f", m.change, m.perSecond)
			}
			fmt.Fprintf(w, "| %d | %s | %d | %.2f | %d | %.1f | %.1f | %s |\n", n, l.name, m.memory,
				float64(m.memory)/float64(n), m.reply, m.readServer, m.readClient, change)
		}
	}
	fmt.Fprintln(w)
	return pages(ctx, w, rounds, writes)
}

// layout is one way to keep a house. Each script checks two seats and takes
// them when both are free; when both are taken it gives them back, so that a
// run can go on for ever. It replies 1 when it changed them.
type layout struct {
	name   string
	fill   func(c rueidis.Client, n int) []rueidis.Completed
	reads  func(c rueidis.Client, n int) rueidis.Completed
	verb   string // of the read, in commandstats
	script string
}

const key = "house"

var layouts = []layout{
	{
		name: "string, a character a seat",
		fill: func(c rueidis.Client, n int) []rueidis.Completed {
			return []rueidis.Completed{c.B().Set().Key(key).Value(strings.Repeat("0", n)).Build()}
		},
		reads: func(c rueidis.Client, _ int) rueidis.Completed { return c.B().Get().Key(key).Build() },
		verb:  "get",
		script: `
local a, b = tonumber(ARGV[1]), tonumber(ARGV[2])
local x = redis.call('GETRANGE', KEYS[1], a, a)
local y = redis.call('GETRANGE', KEYS[1], b, b)
if x ~= y then return 0 end
local to = x == '0' and '1' or '0'
redis.call('SETRANGE', KEYS[1], a, to)
redis.call('SETRANGE', KEYS[1], b, to)
return 1`,
	},
	{
		name: "hash, a field a seat",
		fill: func(c rueidis.Client, n int) []rueidis.Completed {
			var list []rueidis.Completed
			for from := 0; from < n; from += 1000 {
				pairs := c.B().Hset().Key(key).FieldValue()
				for i := from; i < min(from+1000, n); i++ {
					pairs = pairs.FieldValue(strconv.Itoa(i), "0")
				}
				list = append(list, pairs.Build())
			}
			return list
		},
		reads: func(c rueidis.Client, _ int) rueidis.Completed { return c.B().Hgetall().Key(key).Build() },
		verb:  "hgetall",
		script: `
local a, b = ARGV[1], ARGV[2]
local got = redis.call('HMGET', KEYS[1], a, b)
if got[1] ~= got[2] then return 0 end
local to = got[1] == '0' and '1' or '0'
redis.call('HSET', KEYS[1], a, to, b, to)
return 1`,
	},
	{
		name: "bitmap, two bits a seat",
		fill: func(c rueidis.Client, n int) []rueidis.Completed {
			return []rueidis.Completed{c.B().Setbit().Key(key).Offset(int64(2*n - 1)).Value(0).Build()}
		},
		reads: func(c rueidis.Client, _ int) rueidis.Completed { return c.B().Get().Key(key).Build() },
		verb:  "get",
		script: `
local a, b = '#' .. ARGV[1], '#' .. ARGV[2]
local got = redis.call('BITFIELD', KEYS[1], 'GET', 'u2', a, 'GET', 'u2', b)
if got[1] ~= got[2] then return 0 end
local to = got[1] == 0 and 1 or 0
redis.call('BITFIELD', KEYS[1], 'SET', 'u2', a, to, 'SET', 'u2', b, to)
return 1`,
	},
	{
		name: "bitmap, read with BITFIELD",
		fill: func(c rueidis.Client, n int) []rueidis.Completed {
			return []rueidis.Completed{c.B().Setbit().Key(key).Offset(int64(2*n - 1)).Value(0).Build()}
		},
		reads: func(c rueidis.Client, n int) rueidis.Completed {
			args := make([]string, 0, 3*n)
			for i := range n {
				args = append(args, "GET", "u2", "#"+strconv.Itoa(i))
			}
			return c.B().Arbitrary("BITFIELD").Keys(key).Args(args...).Build()
		},
		verb: "bitfield",
	},
}

type measured struct {
	memory, reply          int64
	readServer, readClient float64 // µs
	change                 float64 // µs in Redis
	perSecond              float64
}

func (s *redisServer) measure(ctx context.Context, l layout, n, rounds, reads, writes int) (m measured, err error) {
	c := s.client
	if err := c.Do(ctx, c.B().Flushall().Build()).Error(); err != nil {
		return m, err
	}
	for _, r := range c.DoMulti(ctx, l.fill(c, n)...) {
		if r.Error() != nil {
			return m, r.Error()
		}
	}
	if m.memory, err = c.Do(ctx, c.B().MemoryUsage().Key(key).Samples(0).Build()).AsInt64(); err != nil {
		return m, err
	}
	if m.reply, err = s.replyBytes(ctx, l, n); err != nil {
		return m, err
	}
	var server, client, change, rate []float64
	for range rounds {
		if err := s.resetStats(ctx); err != nil {
			return m, err
		}
		began := time.Now()
		for range reads {
			if err := c.Do(ctx, l.reads(c, n)).Error(); err != nil {
				return m, err
			}
		}
		client = append(client, float64(time.Since(began).Microseconds())/float64(reads))
		us, err := s.perCall(ctx, l.verb)
		if err != nil {
			return m, err
		}
		server = append(server, us)
		if l.script == "" {
			continue
		}
		us, perSecond, err := s.changes(ctx, l, n, writes)
		if err != nil {
			return m, err
		}
		change, rate = append(change, us), append(rate, perSecond)
	}
	m.readServer, m.readClient, m.change, m.perSecond = median(server), median(client), median(change), median(rate)
	return m, nil
}

// changes runs two-seat changes in pipelines of 100.
func (s *redisServer) changes(ctx context.Context, l layout, n, writes int) (us, perSecond float64, err error) {
	const pipeline = 100
	sha, err := s.client.Do(ctx, s.client.B().ScriptLoad().Script(l.script).Build()).ToString()
	if err != nil {
		return 0, 0, err
	}
	if err := s.resetStats(ctx); err != nil {
		return 0, 0, err
	}
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	changed := int64(0)
	began := time.Now()
	for range writes / pipeline {
		batch := make([]rueidis.Completed, pipeline)
		for i := range batch {
			// Neighbours, as people ask for them; pairs do not overlap, so
			// that both seats of one are always alike.
			seat := rng.IntN(n/2) * 2
			batch[i] = s.client.B().Evalsha().Sha1(sha).Numkeys(1).Key(key).Arg(strconv.Itoa(seat), strconv.Itoa(seat+1)).Build()
		}
		for _, r := range s.client.DoMulti(ctx, batch...) {
			got, err := r.AsInt64()
			if err != nil {
				return 0, 0, err
			}
			changed += got
		}
	}
	took := time.Since(began)
	if want := int64(writes / pipeline * pipeline); changed != want {
		return 0, 0, fmt.Errorf("%d of %d changes were made", changed, want)
	}
	us, err = s.perCall(ctx, "evalsha")
	return us, float64(changed) / took.Seconds(), err
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

type redisServer struct {
	cmd    *exec.Cmd
	dir    string
	client rueidis.Client
}

// start runs a redis-server and waits until it answers.
func start(ctx context.Context) (*redisServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().(*net.TCPAddr)
	listener.Close()
	dir, err := os.MkdirTemp("", "seatstate-")
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir}
	s.cmd = exec.CommandContext(ctx, "redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(address.Port),
		"--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", filepath.Join(dir, "log"))
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s.client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address.String()}, DisableCache: true,
			ForceSingleClient: true, PipelineMultiplex: -1})
		if err == nil {
			return s, nil
		}
		if time.Now().After(end) {
			s.stop()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

func (s *redisServer) stop() {
	if s.client != nil {
		s.client.Close()
	}
	s.cmd.Process.Signal(os.Interrupt)
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

func (s *redisServer) version(ctx context.Context) string {
	v, err := s.info(ctx, "server", "redis_version:")
	if err != nil {
		return "(unknown version)"
	}
	return v
}

func (s *redisServer) info(ctx context.Context, section, field string) (string, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if v, ok := strings.CutPrefix(line, field); ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("INFO %s has no %s", section, field)
}

func (s *redisServer) resetStats(ctx context.Context) error {
	return s.client.Do(ctx, s.client.B().ConfigResetstat().Build()).Error()
}

// perCall is the mean time that Redis spent in a command, in µs.
func (s *redisServer) perCall(ctx context.Context, verb string) (float64, error) {
	line, err := s.info(ctx, "commandstats", "cmdstat_"+verb+":")
	if err != nil {
		return 0, err
	}
	for field := range strings.SplitSeq(line, ",") {
		if v, ok := strings.CutPrefix(field, "usec_per_call="); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, fmt.Errorf("no usec_per_call in %q", line)
}

// replyBytes is the size of a whole-house reply on the wire, from the
// server's own count of what it sent.
func (s *redisServer) replyBytes(ctx context.Context, l layout, n int) (int64, error) {
	sent := func(reads int) (int64, error) {
		if err := s.resetStats(ctx); err != nil {
			return 0, err
		}
		for range reads {
			if err := s.client.Do(ctx, l.reads(s.client, n)).Error(); err != nil {
				return 0, err
			}
		}
		v, err := s.info(ctx, "stats", "total_net_output_bytes:")
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(v, 10, 64)
	}
	one, err := sent(1)
	if err != nil {
		return 0, err
	}
	two, err := sent(2)
	return two - one, err
}
