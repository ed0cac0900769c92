package worker

import (
	"math"
	"time"
)

// maxRetryAfter bounds what an endpoint may ask for in Retry-After where the schedule is a list, which has no cap of its
// own.
const maxRetryAfter = time.Hour

// RetryPolicy is the schedule of a job's further tries. The zero value makes no further try. Delays count from the end
// of the failed attempt.
type RetryPolicy struct {
	// Delays are the waits after the first, second, … failure; there are as many retries as delays. Ignored when
	// Exponential is set.
	Delays []time.Duration
	// Exponential is the other form: a wait that doubles.
	Exponential *Exponential
}

// Exponential waits Base*2^(n-1) after failure n, at most Cap, give or take the share Jitter.
type Exponential struct {
	Base time.Duration
	Cap  time.Duration
	// Attempts counts all tries, the first included.
	Attempts int
	// Jitter is from 0 (none) to 1; it applies at the cap too, so that jobs which failed together do not return together.
	Jitter float64
}

// DefaultRetry is the schedule where none is configured: after 1, 5 and 30 seconds.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{Delays: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}}
}

// DefaultExponential holds the values of the exponential form that are not configured.
func DefaultExponential() Exponential {
	return Exponential{Base: time.Second, Cap: time.Hour, Attempts: 12, Jitter: 0.2}
}

// NamedRetry returns a schedule by name: "patient" tries for about a day, "off" never again.
func NamedRetry(name string) (p RetryPolicy, ok bool) {
	switch name {
	case "patient":
		return RetryPolicy{Delays: []time.Duration{
			time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
			time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 8 * time.Hour,
		}}, true
	case "off":
		return RetryPolicy{}, true
	}
	return RetryPolicy{}, false
}

// Next returns how long to wait after a job has failed for the failures-th time (from 1), and false when there is no
// further try. retryAfter is what the endpoint asked for: a minimum, itself at most the cap (an hour for a list). rnd
// returns numbers in [0,1).
func (p RetryPolicy) Next(failures int, retryAfter time.Duration, rnd func() float64) (delay time.Duration, ok bool) {
	failures = max(failures, 1)
	longest := maxRetryAfter
	if x := p.Exponential; x != nil {
		if failures >= x.Attempts {
			return 0, false
		}
		delay, longest = x.delay(failures, rnd), x.Cap
	} else {
		if failures > len(p.Delays) {
			return 0, false
		}
		delay = p.Delays[failures-1]
	}
	return max(delay, min(retryAfter, longest), 0), true
}

func (x *Exponential) delay(failures int, rnd func() float64) time.Duration {
	d := x.Base
	for range failures - 1 {
		if d > x.Cap/2 { // doubling would pass the cap, or in the end overflow to a hot loop
			d = x.Cap
			break
		}
		d *= 2
	}
	d = min(d, x.Cap, math.MaxInt64/2) // or jitter could overflow
	return d + time.Duration(x.Jitter*(2*rnd()-1)*float64(d))
}
