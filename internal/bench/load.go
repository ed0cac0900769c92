package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	bodySize = 1 << 10
	prefix   = `{"id":"evt_`
	digits   = 10
)

// body is the 1 KiB webhook with that number.
func body(n int) []byte {
	b := fmt.Appendf(make([]byte, 0, bodySize), `%s%0*d","data":"`, prefix, digits, n)
	for len(b) < bodySize-2 {
		b = append(b, "0123456789abcdef"[len(b)%16])
	}
	return append(b, '"', '}')
}

// number is the inverse of body.
func number(b []byte) int {
	if len(b) < len(prefix)+digits {
		return -1
	}
	n, err := strconv.Atoi(string(b[len(prefix) : len(prefix)+digits]))
	if err != nil {
		return -1
	}
	return n
}

// Headers of requests beside those that every request has.
const (
	leanHeaders = "User-Agent: bench\r\nContent-Type: application/json\r\n"
	// webhookHeaders are those of a delivery by GitHub, for what depends on their size.
	webhookHeaders = "User-Agent: GitHub-Hookshot/044aadd\r\nAccept: */*\r\nContent-Type: application/json\r\n" +
		"X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958\r\nX-GitHub-Event: issues\r\nX-GitHub-Hook-ID: 292430182\r\n" +
		"X-GitHub-Hook-Installation-Target-ID: 79929171\r\nX-GitHub-Hook-Installation-Target-Type: repository\r\n"
)

func requests(addr string, first, count int) [][]byte {
	return requestsWith(addr, leanHeaders, first, count)
}

// requestsWith builds count signed requests with numbers from first on, ready to be written. Building them while the server
// is under load would take processor time from it.
func requestsWith(addr, headers string, first, count int) [][]byte {
	out := make([][]byte, count)
	mac := hmac.New(sha256.New, []byte(secret))
	for i := range out {
		b := body(first + i)
		mac.Reset()
		mac.Write(b)
		head := fmt.Sprintf("POST /hooks HTTP/1.1\r\nHost: %s\r\n%sX-Signature: sha256=%s\r\nContent-Length: %d\r\n\r\n",
			addr, headers, hex.EncodeToString(mac.Sum(nil)), len(b))
		out[i] = append([]byte(head), b...)
	}
	return out
}

// answerTimeout ends a request that gets no answer, so that a fault of the server ends the run instead of stopping it.
const answerTimeout = 30 * time.Second

// conn is one kept connection of the load generator.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func connect(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 2<<10)}, nil
}

// send writes one request and reads the answer; anything but a 202 is an error.
func (c *conn) send(request []byte) error {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 202")) {
		return fmt.Errorf("sending a webhook: %q", bytes.TrimSpace(line))
	}
	length := 0
	for {
		line, err = c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	_, err = c.r.Discard(length)
	return err
}

// volley is what sending a set of requests gave.
type volley struct {
	took      time.Duration
	latencies []time.Duration // sorted
}

func (v volley) perSecond() float64 { return float64(len(v.latencies)) / v.took.Seconds() }

func (v volley) percentile(p float64) time.Duration { return percentile(v.latencies, p) }

func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// fire sends all requests over that many kept connections, each as fast as its answers come.
func fire(ctx context.Context, addr string, reqs [][]byte, conns int) (volley, error) {
	pool := make([]*conn, 0, conns)
	defer func() {
		for _, c := range pool {
			c.Close()
		}
	}()
	for range conns {
		c, err := connect(addr)
		if err != nil {
			return volley{}, err
		}
		pool = append(pool, c)
	}
	latencies := make([]time.Duration, len(reqs))
	errs := make([]error, conns)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for k, c := range pool {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(reqs) {
					return
				}
				at := time.Now()
				if errs[k] = c.send(reqs[i]); errs[k] != nil {
					return
				}
				latencies[i] = time.Since(at)
			}
		})
	}
	wg.Wait()
	v := volley{took: time.Since(start), latencies: latencies}
	if err := errors.Join(ctx.Err(), errors.Join(errs...)); err != nil {
		return volley{}, err
	}
	slices.Sort(v.latencies)
	return v, nil
}

// pace sends requests at an even rate over a few connections and returns when each was begun, by its number.
func pace(ctx context.Context, addr string, reqs [][]byte, first int, perSecond int) (map[int]time.Time, error) {
	const conns = 16
	work := make(chan int)
	began := make([]time.Time, len(reqs))
	errs := make(chan error, conns)
	var wg sync.WaitGroup
	for range conns {
		c, err := connect(addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		wg.Go(func() {
			for i := range work {
				began[i] = time.Now()
				if err := c.send(reqs[i]); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var failed error
	for i := range reqs {
		select {
		case <-tick.C:
		case <-ctx.Done():
			failed = ctx.Err()
		case failed = <-errs:
		}
		if failed != nil {
			break
		}
		select {
		case work <- i:
		case failed = <-errs:
		}
		if failed != nil {
			break
		}
	}
	close(work)
	wg.Wait()
	if failed != nil {
		return nil, failed
	}
	out := make(map[int]time.Time, len(reqs))
	for i, at := range began {
		out[first+i] = at
	}
	return out, nil
}
