package anvil

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

// elsewhere is a module whose store says that it is in another place than it is, or does not tell what is in it.
type elsewhere struct {
	*SQLiteStore
	place  string
	silent bool
}

func (m elsewhere) open(ctx context.Context, log *zap.Logger) (store.Store, error) {
	s, err := m.SQLiteStore.open(ctx, log)
	return standIn{s, m}, err
}

type standIn struct {
	store.Store
	as elsewhere
}

func (s standIn) Describe() string { return s.as.place }

func (s standIn) Stats(ctx context.Context) (store.Stats, error) {
	if s.as.silent {
		return store.Stats{}, store.ErrUnavailable
	}
	return s.Store.Stats(ctx)
}

// depthOf gives the numbers of jobs in a queue by their state, nil when there are none for it, and whether the warnings of
// the stores are counted.
func depthOf(t *testing.T, queue string) (jobs map[string]float64, warned bool) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(depthCollector{})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		warned = warned || f.GetName() == "caddy_anvil_store_warnings"
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); f.GetName() == "caddy_anvil_jobs" && l[0].GetValue() == queue {
				if jobs == nil {
					jobs = map[string]float64{}
				}
				jobs[l[1].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return jobs, warned
}

func TestAPlaceThatIsOpenTwiceIsCountedOnce(t *testing.T) {
	for range 2 {
		m := elsewhere{SQLiteStore: &SQLiteStore{path: filepath.Join(t.TempDir(), "anvil.db")}, place: "the same"}
		e := openEngine(t, m)
		_, err := e.store.Accept(t.Context(), store.Accept{
			Event: event.Event{ID: newID(), Source: "shop"},
			Jobs:  []store.NewJob{{ID: newID(), Queue: "counted", Endpoint: "shop/default"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := depthOf(t, "counted"); got["pending"] != 1 {
		t.Errorf("one job in a place that two connections reach is counted as %v", got)
	}
}

func TestAStoreThatDoesNotTellHasNoFigures(t *testing.T) {
	for _, silent := range []bool{false, true} {
		m := elsewhere{SQLiteStore: &SQLiteStore{path: filepath.Join(t.TempDir(), "anvil.db")}, place: fmt.Sprintf("told: %v", !silent), silent: silent}
		e := openEngine(t, m)
		a := e.attach(m, zap.NewNop(), []string{"told"}, worker.Settings{})
		got, warned := depthOf(t, "told")
		e.detach(a)
		if silent == warned {
			t.Errorf("silent %v: the number of warnings is given: %v", silent, warned)
		}
		if silent != (got == nil) {
			t.Errorf("silent %v: the figures of its queue are %v", silent, got)
		}
	}
}

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
