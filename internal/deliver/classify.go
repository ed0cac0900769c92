package deliver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
)

// progress follows how far an attempt got. Its fields are atomic since a dial goes on, and reports, after the attempt
// that began it has ended.
type progress struct {
	dialing   atomic.Bool
	connected atomic.Bool
}

func (p *progress) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { p.dialing.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { p.connected.Store(true) },
	})
}

// classify names the error of an attempt that got no status. outer is the caller's context, attempt is outer with the
// timeout.
func (p *progress) classify(outer, attempt context.Context, err error) event.Class {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case outer.Err() != nil:
		return event.ClassInterrupted
	case errors.Is(attempt.Err(), context.DeadlineExceeded):
		return event.ClassTimeout
	case p.connected.Load():
		return event.ClassReset
	case !p.dialing.Load():
		return event.ClassConfig
	case errors.As(err, &dns):
		return event.ClassDNS
	case errors.As(err, &op) && op.Op == "dial":
		return event.ClassConnect
	}
	return event.ClassTLS
}

// failureText is the error of an attempt without a status.
func failureText(err error, class event.Class, timeout time.Duration) string {
	switch class {
	case event.ClassInterrupted:
		return "interrupted before a status came"
	case event.ClassTimeout:
		return fmt.Sprintf("timeout: no status within %s", timeout)
	case event.ClassReset:
		return clean("connection ended before a status came: " + err.Error())
	default:
		return clean(err.Error())
	}
}

// statusText is the error of an attempt with a status that is not 2xx.
func statusText(status int) string {
	text := "HTTP " + strconv.Itoa(status)
	if name := http.StatusText(status); name != "" {
		text += " " + name
	}
	if status >= 300 && status < 400 {
		text += " (redirects are not followed)"
	}
	return text
}

// retryAfter reads a Retry-After header: seconds or an HTTP date. What is negative, past or not understood is 0.
func retryAfter(value string, now time.Time) time.Duration {
	value = textproto.TrimString(value)
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n > int64(math.MaxInt64/time.Second) {
			return math.MaxInt64
		}
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
