package testkit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// redisError is an error that a Redis server replied.
type redisError string

func (e redisError) Error() string { return string(e) }

// redisDo sends one command over a connection of its own: no client that
// keeps goroutines, follows redirections or retries stands between a test and
// the server. The reply is a string, an int64, nil or a []any of these.
func redisDo(addr string, args ...string) (any, error) {
	const dialWait = 2 * time.Second
	conn, err := net.DialTimeout("tcp", addr, dialWait)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return nil, err
	}
	reply, err := readReply(bufio.NewReader(conn))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", addr, args[0], err)
	}
	return reply, nil
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, io.ErrUnexpectedEOF
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, redisError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		return string(buf[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("a reply of unknown kind %q", kind)
}

// redisText is redisDo for replies that are text.
func redisText(addr string, args ...string) (string, error) {
	reply, err := redisDo(addr, args...)
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%s %s: replied %v, not text", addr, args[0], reply)
	}
	return text, nil
}

// infoField finds a value in the lines "name:value" of INFO and CLUSTER INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}
