package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"
)

// conn is one keep-alive HTTP/1.1 connection that costs its machine little:
// a load generator on the cores of the server it measures takes from what it
// measures. It is used by one goroutine at a time and dials again after any
// failure.
type conn struct {
	secure  bool
	addr    string
	host    string
	timeout time.Duration

	c   net.Conn
	off func() bool // unhooks the connection from the context
	r   *bufio.Reader
	out []byte
	in  []byte
}

// answer is a response; its body is valid until the next request.
type answer struct {
	status     int
	body       []byte
	retryAfter string
	etag       string
	closes     bool
}

func newConn(base string, timeout time.Duration) (*conn, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("loadgen: %q is not the URL of a server", base)
	}
	c := &conn{secure: u.Scheme == "https", addr: u.Host, host: u.Host, timeout: timeout}
	if u.Port() == "" {
		c.addr = net.JoinHostPort(u.Hostname(), map[bool]string{false: "80", true: "443"}[c.secure])
	}
	return c, nil
}

func (c *conn) close() {
	if c.c != nil {
		c.off()
		c.c.Close()
		c.c = nil
	}
}

func (c *conn) dial(ctx context.Context) error {
	d := net.Dialer{Timeout: c.timeout}
	nc, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("loadgen: %w", err)
	}
	if c.secure {
		host, _, _ := net.SplitHostPort(c.addr)
		nc = tls.Client(nc, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
	}
	c.c = nc
	c.off = context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	if c.r == nil {
		c.r = bufio.NewReaderSize(nc, 16<<10)
	} else {
		c.r.Reset(nc)
	}
	return nil
}

// send sends one request and reads its answer. After an error nobody knows
// whether the server acted on it.
func (c *conn) send(ctx context.Context, q *request) (answer, error) {
	if c.c == nil {
		if err := c.dial(ctx); err != nil {
			return answer{}, err
		}
	}
	a, err := c.exchange(ctx, q)
	if err != nil {
		c.close()
		return answer{}, fmt.Errorf("loadgen: %w", err)
	}
	if a.closes {
		c.close()
	}
	return a, nil
}

func (c *conn) exchange(ctx context.Context, q *request) (answer, error) {
	b := append(c.out[:0], q.method...)
	b = append(b, ' ')
	b = append(b, q.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.host...)
	for _, h := range [...][2]string{{"Authorization: Bearer ", q.token}, {"Idempotency-Key: ", q.key}, {"If-None-Match: ", q.etag}} {
		if h[1] != "" {
			b = append(b, "\r\n"...)
			b = append(b, h[0]...)
			b = append(b, h[1]...)
		}
	}
	if q.body != nil {
		b = append(b, "\r\nContent-Type: application/json\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(q.body)), 10)
	}
	b = append(b, "\r\n\r\n"...)
	b = append(b, q.body...)
	c.out = b
	if err := c.c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return answer{}, err
	}
	if err := ctx.Err(); err != nil { // a context that ends later moves the deadline
		return answer{}, err
	}
	if _, err := c.c.Write(b); err != nil {
		return answer{}, err
	}
	return c.read()
}

// maxAnswer bounds a body; the plan of the largest house is far below it.
const maxAnswer = 256 << 20

var errMalformed = errors.New("malformed HTTP answer")

func (c *conn) read() (answer, error) {
	line, err := c.line()
	if err != nil {
		return answer{}, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return answer{}, errMalformed
	}
	var a answer
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer{}, errMalformed
	}
	length, chunked := -1, false
	for {
		if line, err = c.line(); err != nil {
			return answer{}, err
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return answer{}, errMalformed
		}
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 || length > maxAnswer {
				return answer{}, errMalformed
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")):
			a.closes = bytes.EqualFold(value, []byte("close"))
		case bytes.EqualFold(name, []byte("Retry-After")):
			a.retryAfter = string(value)
		case bytes.EqualFold(name, []byte("ETag")):
			a.etag = string(value)
		}
	}
	c.in = c.in[:0]
	switch {
	case a.status == 304 || a.status == 204 || a.status < 200:
	case chunked:
		err = c.chunks()
	case length >= 0:
		err = c.take(length)
	default:
		return answer{}, errMalformed
	}
	a.body = c.in
	return a, err
}

// line reads one line without its end. It is valid until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// take appends n bytes of the body.
func (c *conn) take(n int) error {
	at := len(c.in)
	if need := at + n; need > cap(c.in) {
		c.in = append(make([]byte, 0, need+need/4), c.in...)
	}
	c.in = c.in[:at+n]
	_, err := io.ReadFull(c.r, c.in[at:])
	return err
}

func (c *conn) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 32)
		if err != nil || int(n)+len(c.in) > maxAnswer {
			return errMalformed
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if line, err = c.line(); err != nil {
			return err
		}
		if n == 0 {
			if len(line) == 0 {
				return nil
			}
			return errMalformed // no trailers are asked for
		}
		if len(line) != 0 {
			return errMalformed
		}
	}
}
