package anvil

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// metric scrapes the site, which has to have the directive metrics, and returns one series.
func (s *site) metric(series string) float64 {
	s.Helper()
	r := s.do(http.MethodGet, "/metrics", "", nil)
	for line := range strings.Lines(r.body) {
		text, ok := strings.CutPrefix(line, series+" ")
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			s.Fatal(err)
		}
		return v
	}
	s.Fatalf("no %s: %d %s", series, r.status, r.body)
	return 0
}

func TestTheTimeOfEachAcceptanceIsObserved(t *testing.T) {
	s := newSite(t)
	s.mustLoad("metrics /metrics\nanvil /hook shop {\nverify hmac "+testSecret+"\n}", "")
	durations := func() (count, seconds float64) {
		return s.metric("caddy_anvil_accept_duration_seconds_count"), s.metric("caddy_anvil_accept_duration_seconds_sum")
	}
	count, sum := durations()
	for _, c := range []struct {
		name   string
		send   func() reply
		status int
		counts bool
	}{
		{"accepted", func() reply { return s.post("x") }, 202, true},
		{"duplicate", func() reply { return s.post("x") }, 202, true},
		{"refused", func() reply { return s.do(http.MethodPut, "/hook", "x", nil) }, 405, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			if r := c.send(); r.status != c.status {
				t.Fatalf("answered %d %s", r.status, r.body)
			}
			took := time.Since(began).Seconds()
			n, total := durations()
			switch of := total - sum; {
			case !c.counts && n == count && of == 0:
			case c.counts && n == count+1 && of > 0 && of <= took:
			default:
				t.Errorf("%v observations of %v seconds, of a request that took %v", n-count, of, took)
			}
			count, sum = n, total
		})
	}
}

func TestTheAgeOfTheOldestPendingJobIsShown(t *testing.T) {
	s := newSite(t)
	s.mustLoad("metrics /metrics\nanvil /hook shop {\nverify hmac "+testSecret+"\ndeliver localhost:1\n}", "workers off\nqueue other")
	oldest := func(queue string) float64 {
		return s.metric(`caddy_anvil_oldest_pending_seconds{queue="` + queue + `"}`)
	}
	if age := oldest("webhooks"); age != 0 {
		t.Errorf("%v seconds while there is no job", age)
	}
	began := time.Now()
	s.post("x")
	openEngines()[0].store.Advance(time.Hour)
	s.post("y")
	age := oldest("webhooks")
	if most := (time.Hour + time.Since(began)).Seconds(); age < time.Hour.Seconds() || age > most {
		t.Errorf("%v seconds an hour after the first job was made, want 3600 to %v", age, most)
	}
	if age := oldest("other"); age != 0 {
		t.Errorf("%v seconds in a queue without a job", age)
	}
}
