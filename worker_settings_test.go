package anvil

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

func TestTheWorkersGetThePolicyThatIsConfigured(t *testing.T) {
	fixed := func(delays ...time.Duration) worker.RetryPolicy { return worker.RetryPolicy{Delays: delays} }
	doubling := func(base, most time.Duration, attempts int, jitter float64) worker.RetryPolicy {
		return worker.RetryPolicy{Exponential: &worker.Exponential{Base: base, Cap: most, Attempts: attempts, Jitter: jitter}}
	}
	const s, m, h = time.Second, time.Minute, time.Hour
	usual := fixed(s, 5*s, 30*s)
	type policy struct {
		Timeout     time.Duration
		Concurrency int
		Retry       worker.RetryPolicy
	}
	site := newSite(t)
	for _, c := range []struct {
		name, queue, deliver string
		want                 policy
	}{
		{"nothing", "", "", policy{15 * s, 8, usual}},
		{"a list", "retry 2s 1m 3h", "", policy{15 * s, 8, fixed(2*s, m, 3*h)}},
		{"patient", "retry patient", "", policy{15 * s, 8, fixed(s, 5*s, 30*s, 2*m, 10*m, 30*m, h, 2*h, 4*h, 8*h, 8*h)}},
		{"off", "retry off", "", policy{15 * s, 8, fixed()}},
		{"exponential", "retry exponential", "", policy{15 * s, 8, doubling(s, h, 12, 0.2)}},
		{"exponential with a base", "retry exponential {\nbase 2s\n}", "", policy{15 * s, 8, doubling(2*s, h, 12, 0.2)}},
		{"exponential with a cap", "retry exponential {\ncap 3h\n}", "", policy{15 * s, 8, doubling(s, 3*h, 12, 0.2)}},
		{"exponential with attempts", "retry exponential {\nattempts 5\n}", "", policy{15 * s, 8, doubling(s, h, 5, 0.2)}},
		{"exponential with jitter", "retry exponential {\njitter 0.75\n}", "", policy{15 * s, 8, doubling(s, h, 12, 0.75)}},
		{"exponential without jitter", "retry exponential {\njitter 0\n}", "", policy{15 * s, 8, doubling(s, h, 12, 0)}},
		{
			"exponential with everything", "retry exponential {\nbase 3s\ncap 4m\nattempts 6\njitter 0.5\n}", "",
			policy{15 * s, 8, doubling(3*s, 4*m, 6, 0.5)},
		},
		{"the queue's timeout", "timeout 40s", "", policy{40 * s, 8, usual}},
		{"the queue's concurrency", "concurrency 3", "", policy{15 * s, 3, usual}},
		{"an endpoint's own words", "", "timeout 50s\nconcurrency 4\nretry patient", policy{50 * s, 4, fixed(s, 5*s, 30*s, 2*m, 10*m, 30*m, h, 2*h, 4*h, 8*h, 8*h)}},
		{"an endpoint's words before the queue's", "timeout 40s\nconcurrency 3\nretry 2s", "timeout 50s\nconcurrency 4\nretry off", policy{50 * s, 4, fixed()}},
		{"an endpoint's block that says nothing of it", "timeout 40s\nconcurrency 3\nretry exponential", "timeout 50s", policy{50 * s, 3, doubling(s, h, 12, 0.2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			site.mustLoad("anvil shop {\nverify none\nqueue slow\ndeliver localhost:1 a {\n"+c.deliver+"\n}\n}", "queue slow {\n"+c.queue+"\n}")
			settings, err := running(t).settings()
			if err != nil {
				t.Fatal(err)
			}
			ep := settings.Endpoints["shop/a"]
			if diff := cmp.Diff(c.want, policy{ep.Timeout, ep.Concurrency, ep.Retry}); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if ep.Identity != "shop/a" || ep.Queue != "slow" {
				t.Errorf("it is that of %s in %s", ep.Identity, ep.Queue)
			}
		})
	}
}

func TestTheWorkersGetTheRetentionThatIsConfigured(t *testing.T) {
	const day = 24 * time.Hour
	usual := store.StateRetention{event.Delivered: day, event.Observed: 7 * day, event.Dead: 30 * day, event.Cancelled: 30 * day, event.Replayed: 30 * day}
	but := func(state event.State, d time.Duration) store.StateRetention {
		r := usual
		r[state] = d
		return r
	}
	site := newSite(t)
	for _, c := range []struct {
		name, queue string
		want        store.StateRetention
	}{
		{"nothing", "", usual},
		{"delivered", "retain delivered 1h", but(event.Delivered, time.Hour)},
		{"observed", "retain observed 2h", but(event.Observed, 2*time.Hour)},
		{"dead", "retain dead 90d", but(event.Dead, 90*day)},
		{"cancelled", "retain cancelled 4h", but(event.Cancelled, 4*time.Hour)},
		{"replayed", "retain replayed 5h", but(event.Replayed, 5*time.Hour)},
		{
			"all of them", "retain delivered 1h\nretain observed 2h\nretain dead 3h\nretain cancelled 4h\nretain replayed 5h",
			store.StateRetention{
				event.Delivered: time.Hour, event.Observed: 2 * time.Hour, event.Dead: 3 * time.Hour, event.Cancelled: 4 * time.Hour, event.Replayed: 5 * time.Hour,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			site.mustLoad("anvil shop {\nverify none\nqueue slow\ndeliver localhost:1\n}", "queue slow {\n"+c.queue+"\n}\nqueue other")
			settings, err := running(t).settings()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, settings.Retention.Queues["slow"]); diff != "" {
				t.Errorf("retention (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(usual, settings.Retention.Queues["other"]); diff != "" {
				t.Errorf("retention of another queue (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheWorkersGetTheWordsOfTheGlobalOption(t *testing.T) {
	site := newSite(t)
	site.mustLoad("anvil shop {\nverify none\n}", "workers off\ndrain_timeout 7s\norphan_after 2h")
	settings, err := running(t).settings()
	if err != nil {
		t.Fatal(err)
	}
	if settings.Workers || settings.DrainTimeout != 7*time.Second || settings.OrphanAfter != 2*time.Hour {
		t.Errorf("workers %v, drain_timeout %s, orphan_after %s", settings.Workers, settings.DrainTimeout, settings.OrphanAfter)
	}
}
