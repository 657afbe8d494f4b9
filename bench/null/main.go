// Command null is what the benchmark divides by: a net/http server that reads
// a request's body and answers with as many bytes as the real server would,
// and does nothing else. It prints its URL and runs until it is killed.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "null:", err)
		os.Exit(1)
	}
}

func run() error {
	order := flag.Int("order", 500, "bytes of the answer to POST /order")
	conflict := flag.Int("conflict", 300, "bytes of the answer to POST /conflict")
	seats := flag.Int("map", 2000, "bytes of GET /map")
	flag.Parse()
	mux := http.NewServeMux()
	mux.Handle("POST /order", answer(http.StatusCreated, "application/json", *order))
	mux.Handle("POST /conflict", answer(http.StatusConflict, "application/problem+json", *conflict))
	mux.Handle("GET /map", answer(http.StatusOK, "application/json", *seats))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, mux)
}

func answer(status int, kind string, size int) http.HandlerFunc {
	body := bytes.Repeat([]byte{'x'}, size)
	length := strconv.Itoa(size)
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", length)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}
