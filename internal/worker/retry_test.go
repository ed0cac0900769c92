package worker

import (
	"math"
	"strings"
	"testing"
	"time"
)

const noJitter = 0.5

func fixed(x float64) func() float64 { return func() float64 { return x } }

// schedule lists all delays of a policy.
func schedule(p RetryPolicy, retryAfter time.Duration, rnd float64) (delays []time.Duration) {
	for n := 1; ; n++ {
		d, ok := p.Next(n, retryAfter, fixed(rnd))
		if !ok || n > 1000 {
			return delays
		}
		delays = append(delays, d)
	}
}

func TestRetrySchedules(t *testing.T) {
	patient, _ := NamedRetry("patient")
	off, _ := NamedRetry("off")
	doubling := func(attempts int) RetryPolicy {
		return RetryPolicy{Exponential: &Exponential{Base: time.Second, Cap: 10 * time.Second, Attempts: attempts}}
	}
	for _, c := range []struct {
		name   string
		policy RetryPolicy
		want   string
	}{
		{"default", DefaultRetry(), "1s 5s 30s"},
		{"patient", patient, "1s 5s 30s 2m0s 10m0s 30m0s 1h0m0s 2h0m0s 4h0m0s 8h0m0s 8h0m0s"},
		{"off", off, ""},
		{"zero value", RetryPolicy{}, ""},
		{"exponential doubles to its cap", doubling(7), "1s 2s 4s 8s 10s 10s"},
		{"exponential with one try", doubling(1), ""},
		{"exponential wins over delays", RetryPolicy{Delays: []time.Duration{time.Hour}, Exponential: doubling(2).Exponential}, "1s"},
	} {
		var got []string
		for _, d := range schedule(c.policy, 0, noJitter) {
			got = append(got, d.String())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
	if _, ok := NamedRetry("eager"); ok {
		t.Error("an unknown name gave a schedule")
	}
}

func TestDefaultExponentialLastsAboutHalfAnHour(t *testing.T) {
	x := DefaultExponential()
	var sum time.Duration
	for _, d := range schedule(RetryPolicy{Exponential: &x}, 0, noJitter) {
		sum += d
	}
	if sum != 2047*time.Second {
		t.Errorf("the waits add up to %s, want 34m7s", sum)
	}
}

func TestExponentialNeverOverflowsToAHotLoop(t *testing.T) {
	for _, x := range []Exponential{
		{Base: time.Millisecond, Cap: 2 * time.Second, Attempts: 80},
		{Base: time.Second, Cap: math.MaxInt64, Attempts: 500},
		{Base: math.MaxInt64, Cap: math.MaxInt64, Attempts: 80},
		{Base: time.Second, Cap: math.MaxInt64, Attempts: 500, Jitter: 1},
	} {
		last := time.Duration(0)
		for n, d := range schedule(RetryPolicy{Exponential: &x}, 0, 0.999) {
			if d < last || d <= 0 || x.Jitter == 0 && d > x.Cap {
				t.Fatalf("%+v: delay %d is %s after %s", x, n+1, d, last)
			}
			last = d
		}
		if last < x.Cap/4 {
			t.Errorf("%+v: ends at %s", x, last)
		}
	}
}

func TestJitterSpreadsToBothSidesEvenAtTheCap(t *testing.T) {
	p := RetryPolicy{Exponential: &Exponential{Base: time.Second, Cap: 8 * time.Second, Attempts: 100, Jitter: 0.2}}
	for _, c := range []struct {
		failures int
		plain    time.Duration
	}{{1, time.Second}, {4, 8 * time.Second}, {99, 8 * time.Second}} {
		below, above := 0, 0
		for i := range 1000 {
			d, ok := p.Next(c.failures, 0, fixed(float64(i)/1000))
			share := float64(d) / float64(c.plain)
			switch {
			case !ok || share < 0.8-1e-9 || share > 1.2+1e-9:
				t.Fatalf("failure %d: %s is not within 20%% of %s", c.failures, d, c.plain)
			case share < 0.9:
				below++
			case share > 1.1:
				above++
			}
		}
		if below < 200 || above < 200 {
			t.Errorf("failure %d: %d of 1000 far below and %d far above", c.failures, below, above)
		}
	}
}

func TestRetryAfterIsAMinimumUpToTheCap(t *testing.T) {
	list := DefaultRetry()
	patient, _ := NamedRetry("patient")
	doubling := RetryPolicy{Exponential: &Exponential{Base: time.Second, Cap: time.Minute, Attempts: 12}}
	for _, c := range []struct {
		policy     RetryPolicy
		failures   int
		retryAfter time.Duration
		want       time.Duration
	}{
		{list, 1, 0, time.Second},
		{list, 1, -time.Hour, time.Second},
		{list, 1, 500 * time.Millisecond, time.Second},
		{list, 1, 2 * time.Minute, 2 * time.Minute},
		{list, 1, math.MaxInt64, time.Hour},
		{patient, 11, math.MaxInt64, 8 * time.Hour},
		{doubling, 1, 30 * time.Second, 30 * time.Second},
		{doubling, 1, 999999 * time.Second, time.Minute},
	} {
		if got, ok := c.policy.Next(c.failures, c.retryAfter, fixed(noJitter)); !ok || got != c.want {
			t.Errorf("failure %d with Retry-After %s waits %s, want %s", c.failures, c.retryAfter, got, c.want)
		}
	}
	if _, ok := list.Next(4, time.Minute, fixed(noJitter)); ok {
		t.Error("Retry-After added a try to the schedule")
	}
}

// The configuration refuses these; whatever gets past it must still not make a hot loop.
func TestSenselessPoliciesNeverWaitLessThanNothing(t *testing.T) {
	x := func(base, limit time.Duration, attempts int, jitter float64) RetryPolicy {
		return RetryPolicy{Exponential: &Exponential{Base: base, Cap: limit, Attempts: attempts, Jitter: jitter}}
	}
	for name, p := range map[string]RetryPolicy{
		"zero delay":          {Delays: []time.Duration{time.Second, 0}},
		"negative delay":      {Delays: []time.Duration{-time.Second}},
		"zero base":           x(0, time.Hour, 3, 0),
		"negative base":       x(-time.Second, time.Hour, 3, 0),
		"cap below base":      x(time.Second, time.Millisecond, 3, 0),
		"no attempts":         x(time.Second, time.Hour, 0, 0),
		"jitter above one":    x(time.Second, time.Hour, 3, 1.5),
		"jitter not a number": x(time.Second, time.Hour, 3, math.NaN()),
	} {
		for _, n := range []int{-1, 0, 1, 2} {
			if d, _ := p.Next(n, 0, fixed(0)); d < 0 {
				t.Errorf("%s: %+v: failure %d waits %s", name, p, n, d)
			}
		}
	}
}
