package anvil

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

// runShort runs a Caddy that says nothing of itself beside what keeps it apart from others on the machine.
func runShort(t *testing.T, options, block string) *App {
	t.Helper()
	s := newSite(t)
	err := s.run("{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n" + options + "}\nhttp://" + s.addr + " {\n" + block + "}\n")
	if err != nil {
		t.Fatal(err)
	}
	return running(t)
}

// What the README promises to who says nothing.
func TestTheDefaultsOfTheREADMEAreInForce(t *testing.T) {
	app := runShort(t, "", "anvil shop {\nverify hmac "+testSecret+"\ndeliver localhost:1\n}\n")
	src := app.sources["shop"]
	settings, err := app.settings()
	if err != nil {
		t.Fatal(err)
	}
	endpoint := settings.Endpoints["shop/default"]
	retained := func(state event.State) time.Duration { return settings.Retention.Default[state] }
	const day = 24 * time.Hour
	for _, c := range []struct {
		word      string
		got, want any
	}{
		{"max_body", src.maxBody, int64(256 << 10)},
		{"max_in_flight, requests", requestsThatFit(src), 1000},
		{"max_in_flight, bytes", bytesThatFit(src), int64(256 << 20)},
		{"read_timeout", src.readTimeout, 10 * time.Second},
		{"rate_limit ip", src.byIP == nil, true},
		{"rate_limit source", src.all == nil, true},
		{"respond", src.proofs[0].accepted.Status, 202},
		{"respond, the body is ours", src.proofs[0].accepted.own, true},
		{"dedupe ttl", src.proofs[0].keys.ttl, 168 * time.Hour},
		{"tenant", src.cfg.Tenant, ""},
		{"queue", endpoint.Queue, "webhooks"},
		{"queue of the jobs", src.jobs[0].queue, "webhooks"},
		{"max_pending", src.jobs[0].maxPending, 1_000_000},
		{"concurrency", endpoint.Concurrency, 8},
		{"retry", endpoint.Retry, worker.RetryPolicy{Delays: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}}},
		{"timeout", endpoint.Timeout, 15 * time.Second},
		{"retain delivered", retained(event.Delivered), day},
		{"retain observed", retained(event.Observed), 7 * day},
		{"retain dead", retained(event.Dead), 30 * day},
		{"retain cancelled", retained(event.Cancelled), 30 * day},
		{"retain replayed", retained(event.Replayed), 30 * day},
		{"workers", settings.Workers, true},
		{"drain_timeout", settings.DrainTimeout, 4 * time.Second},
		{"drain_timeout of the engine", app.hold.drain, 4 * time.Second},
		{"orphan_after", settings.OrphanAfter, day},
		{"store", app.openStore().Describe(), "sqlite " + filepath.Join(resolved(t, caddy.AppDataDir()), "anvil", "anvil.db")},
		{"min_free", app.module.(*SQLiteStore).minFree(), int64(256 << 20)},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.word, diff)
		}
	}
}

// A queue, a source and a store that say something keep the defaults of all that they do not say.
func TestWhatABlockLeavesOutHasItsDefault(t *testing.T) {
	app := runShort(t, "anvil {\nstore sqlite\nqueue slow {\nretain dead 1h\n}\ndrain_timeout 1s\n}\n",
		"anvil shop {\nverify none\ndedupe body\nqueue slow\ndeliver localhost:1 a {\nretry off\n}\n}\n")
	src := app.sources["shop"]
	settings, err := app.settings()
	if err != nil {
		t.Fatal(err)
	}
	endpoint := settings.Endpoints["shop/a"]
	const day = 24 * time.Hour
	for _, c := range []struct {
		word      string
		got, want any
	}{
		{"dedupe ttl", src.unproved.ttl, 168 * time.Hour},
		{"max_pending", src.jobs[0].maxPending, 1_000_000},
		{"concurrency", endpoint.Concurrency, 8},
		{"timeout", endpoint.Timeout, 15 * time.Second},
		{"retention", settings.Retention.Queues["slow"], store.StateRetention{
			event.Delivered: day, event.Observed: 7 * day, event.Dead: time.Hour, event.Cancelled: 30 * day, event.Replayed: 30 * day,
		}},
		{"retention of the queues that are not listed", settings.Retention.Default[event.Dead], 30 * day},
		{"orphan_after", settings.OrphanAfter, day},
		{"min_free", app.module.(*SQLiteStore).minFree(), int64(256 << 20)},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.word, diff)
		}
	}
}

// requestsThatFit lets requests in until one is refused.
func requestsThatFit(s *source) int {
	n := 0
	for n < 1_000_000 && s.inFlight.Enter() {
		n++
	}
	for range n {
		s.inFlight.Leave()
	}
	return n
}

// bytesThatFit finds the largest reservation that is granted.
func bytesThatFit(s *source) int64 {
	var n int64
	for step := int64(1 << 40); step > 0; step /= 2 {
		if s.inFlight.Reserve(n + step) {
			s.inFlight.Release(n + step)
			n += step
		}
	}
	return n
}

// resolved follows the links in a path as the store does; on some systems the folder for temporary files is one.
func resolved(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}
