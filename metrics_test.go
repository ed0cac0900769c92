package anvil

import (
	"context"
	"path/filepath"
	"testing"

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

// depthOf gives the numbers of jobs in a queue by their state; nil when there are none for it.
func depthOf(t *testing.T, queue string) (jobs map[string]float64) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(depthCollector{})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); f.GetName() == "caddy_anvil_jobs" && l[0].GetValue() == queue {
				if jobs == nil {
					jobs = map[string]float64{}
				}
				jobs[l[1].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return jobs
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
	if got := depthOf(t, "counted"); got["pending"] != 1 {
		t.Errorf("one job in a place that two connections reach is counted as %v", got)
	}
}

func TestAStoreThatDoesNotTellHasNoFigures(t *testing.T) {
	for _, silent := range []bool{false, true} {
		m := elsewhere{SQLiteStore: &SQLiteStore{path: filepath.Join(t.TempDir(), "anvil.db")}, place: "of " + t.Name(), silent: silent}
		e := openEngine(t, m)
		a := e.attach(m, zap.NewNop(), []string{"told"}, worker.Settings{})
		got := depthOf(t, "told")
		e.detach(a)
		if silent != (got == nil) {
			t.Errorf("silent %v: the figures of its queue are %v", silent, got)
		}
	}
}
