package verify

import (
	"fmt"
	"strconv"
	"time"
)

// defaultTolerance is how far a signed time may be from ours, either way, where a provider does not say otherwise.
const defaultTolerance = 5 * time.Minute

// unbounded is the tolerance of a direction in which a provider's genuine requests may be any distance away.
const unbounded = time.Duration(-1)

// zoneless is RFC 3339 without its zone.
const zoneless = "2006-01-02T15:04:05"

// timeUnit is how a signed time is written.
type timeUnit struct {
	name  string
	parse func(text string) (time.Time, bool)
	write func(t time.Time) string
}

var (
	seconds = &timeUnit{"s", func(s string) (time.Time, bool) {
		n, ok := parseDigits(s)
		return time.Unix(n, 0), ok
	}, func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }}
	milliseconds = &timeUnit{"ms", func(s string) (time.Time, bool) {
		n, ok := parseDigits(s)
		return time.UnixMilli(n), ok
	}, func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }}
	// eitherUnit is for providers of which it is not sure; seconds above 1e11 are 3,000 years away.
	eitherUnit = &timeUnit{"s or ms", func(s string) (time.Time, bool) {
		n, ok := parseDigits(s)
		if n > 1e11 {
			return time.UnixMilli(n), ok
		}
		return time.Unix(n, 0), ok
	}, seconds.write}
	rfc3339 = &timeUnit{"rfc3339", func(s string) (time.Time, bool) {
		t, err := time.Parse(time.RFC3339, s)
		return t, err == nil
	}, func(t time.Time) string { return t.UTC().Format(time.RFC3339) }}
	// rfc3339UTC is for providers that leave the zone out.
	rfc3339UTC = &timeUnit{"rfc3339 or without a zone", func(s string) (time.Time, bool) {
		if t, ok := rfc3339.parse(s); ok {
			return t, true
		}
		t, err := time.Parse(zoneless, s)
		return t, err == nil
	}, func(t time.Time) string { return t.UTC().Format(zoneless + ".000") }}

	timeUnits     = []*timeUnit{seconds, milliseconds, rfc3339}
	timeUnitNames = namesOf(timeUnits, func(u *timeUnit) string { return u.name })
)

func timeUnitByName(name string) *timeUnit {
	for _, u := range timeUnits {
		if u.name == name {
			return u
		}
	}
	return nil
}

// parseDigits takes one to sixteen digits and nothing else: no sign, blank or fraction, which a reader behind us might see
// differently.
func parseDigits(s string) (int64, bool) {
	if s == "" || len(s) > 16 {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// window is how far from now a signed time may be. Zero means the default, unbounded no limit. A provider that allows little
// in the past is not allowed more ahead.
type window struct{ past, future time.Duration }

func (w window) or() window {
	if w.past == 0 {
		w.past = defaultTolerance
	}
	if w.future == 0 {
		w.future = defaultTolerance
		if w.past != unbounded {
			w.future = min(w.past, defaultTolerance)
		}
	}
	return w
}

func (w window) check(t, now time.Time) Reason {
	// Differences of times saturate at 292 years, which milliseconds taken as seconds are beyond, so times are compared.
	switch {
	case w.past != unbounded && t.Before(now.Add(-w.past)):
		return ReasonTooOld
	case w.future != unbounded && t.After(now.Add(w.future)):
		return ReasonTooNew
	}
	return ""
}

func parseTolerance(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a positive duration such as 5m", s)
	}
	return d, nil
}
