// Package deliver makes one attempt to hand an event to an endpoint over HTTP and says what came of it. It never tries
// twice: when to try again is the worker's decision.
package deliver

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
)

// DefaultTimeout bounds an attempt whose target has no timeout.
const DefaultTimeout = 15 * time.Second

// After the status at most this much of the body is read, for this long: enough for a snippet and, with ordinary
// answers, to use the connection again; not enough for an endless answer to hold a worker or its memory.
const (
	maxDrain  = 64 << 10
	drainTime = time.Second
)

// Target is where an attempt goes.
type Target struct {
	// URL as ParseUpstream returns it.
	URL string
	// Timeout bounds the attempt until the status has come; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Request is one attempt to make.
type Request struct {
	Event   event.Event
	Job     event.Job
	Attempt int
	Target  Target
}

// Result is what came of an attempt.
type Result struct {
	// Attempt is the row of the ledger.
	Attempt event.Attempt
	// RetryAfter is how long the endpoint asked to be left alone, 0 when it did not.
	RetryAfter time.Duration
	// Gone is true when the endpoint answered 410.
	Gone bool
	// Sent is false when surely nothing of the request has left this machine.
	Sent bool
}

// Options of a Client.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Client sends attempts over one shared pool of connections. It is safe for concurrent use.
type Client struct {
	now       func() time.Time
	dialer    *net.Dialer
	transport *http.Transport
}

// NewClient returns a client with a pool of its own. It takes no proxy from the environment and follows no redirects.
func NewClient(o Options) *Client {
	if o.Now == nil {
		o.Now = time.Now
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &Client{
		now:    o.Now,
		dialer: dialer,
		transport: &http.Transport{
			DialContext:         dialer.DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 256,
			// Node, Apache and uvicorn close an idle connection after 5 s. A POST sent at that instant fails, so we close
			// ours a little earlier.
			IdleConnTimeout:        4 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
			// Without pings a frozen connection takes every attempt to its timeout, for minutes.
			HTTP2: &http.HTTP2Config{
				SendPingTimeout: 5 * time.Second, PingTimeout: 2500 * time.Millisecond, WriteByteTimeout: 10 * time.Second,
			},
		},
	}
}

// Close ends the idle connections. Attempts under way go on.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Send makes one attempt. It returns when a status has come and the beginning of the answer is read, when the timeout is
// over, or when ctx ends: without a status the class is then event.ClassInterrupted.
func (c *Client) Send(ctx context.Context, r Request) Result {
	timeout := r.Target.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	started := c.now()
	res := Result{Attempt: event.Attempt{Number: r.Attempt, StartedAt: started}}
	var p progress
	req, err := build(p.trace(attempt), &r)
	if err != nil {
		res.Attempt.Class, res.Attempt.Error = event.ClassConfig, clean(err.Error())
		return res
	}
	// RoundTrip instead of http.Client: no redirects, no cookies, no second try.
	resp, err := c.transport.RoundTrip(req)
	res.Attempt.Duration = c.now().Sub(started)
	res.Sent = p.connected.Load()
	if err != nil {
		res.Attempt.Class = p.classify(ctx, attempt, err)
		res.Attempt.Error = failureText(err, res.Attempt.Class, timeout)
		return res
	}
	res.Attempt.Status = resp.StatusCode
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		res.Attempt.Class = event.ClassDelivered
	} else {
		res.Attempt.Class, res.Attempt.Error = event.ClassStatus, statusText(resp.StatusCode)
		res.Gone = resp.StatusCode == http.StatusGone
		res.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), c.now())
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// Its "body" is the raw connection, which no context ends: reading it could hang for ever.
		resp.Body.Close()
		return res
	}
	// The status has decided; whatever happens to the body now, the outcome stays.
	drain := time.AfterFunc(drainTime, cancel)
	defer drain.Stop()
	res.Attempt.Snippet = snippet(resp.Body)
	return res
}

// snippet reads the beginning of a body, up to maxDrain so that the connection can be used again, and closes it.
func snippet(body io.ReadCloser) string {
	defer body.Close()
	// More than is kept: what shows that a text holds a password comes behind it.
	buf := make([]byte, 2*maxText)
	n, err := io.ReadFull(body, buf)
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, maxDrain-int64(len(buf)))
		return clean(string(trimPartialRune(buf)))
	}
	return clean(string(buf[:n]))
}
