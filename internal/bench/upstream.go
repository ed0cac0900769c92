package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// upstream answers every delivery at once and notes when which webhook came. It parses as little as it can: its cost is
// the machine's, and so part of every figure with workers on.
type upstream struct {
	ln net.Listener

	mu    sync.Mutex
	at    map[int]time.Time // first arrival by webhook number
	last  time.Time
	first time.Time
}

func newUpstream() (*upstream, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{ln: ln}
	u.reset()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u, nil
}

func (u *upstream) addr() string { return u.ln.Addr().String() }

func (u *upstream) close() { u.ln.Close() }

func (u *upstream) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at, u.first, u.last = map[int]time.Time{}, time.Time{}, time.Time{}
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.at)
}

// span is the time from the first arrival to the last.
func (u *upstream) span() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last.Sub(u.first)
}

// arrivals is a copy of the times of arrival.
func (u *upstream) arrivals() map[int]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make(map[int]time.Time, len(u.at))
	for n, at := range u.at {
		out[n] = at
	}
	return out
}

func (u *upstream) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 8<<10)
	body := make([]byte, 4<<10)
	for {
		length := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
			}
		}
		if length > len(body) {
			body = make([]byte, length)
		}
		if _, err := io.ReadFull(r, body[:length]); err != nil {
			return
		}
		u.note(number(body[:length]), time.Now())
		if _, err := io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n"); err != nil {
			return
		}
	}
}

func (u *upstream) note(n int, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, again := u.at[n]; again {
		return
	}
	if u.first.IsZero() {
		u.first = now
	}
	u.at[n], u.last = now, now
}
