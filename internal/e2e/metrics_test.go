package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(_ int, h hit) answer {
		if strings.Contains(string(h.body), "evt_3") {
			return answer{status: 410}
		}
		return answer{}
	})
	c := startCaddy(t, simpleSite(up))
	for i := range 5 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	post(t, c.site+"/hooks", hook(0))
	for range 2 {
		if _, err := send(c.site+"/hooks", hook(9), "X-Signature", "sha256=00"); err != nil {
			t.Fatal(err)
		}
	}
	c.settled(patience)
	// A death is counted when it is written, which the store shows a moment before.
	waitFor(t, patience, "the death being counted", func() bool {
		dead, _ := c.metric("caddy_anvil_dead_total")
		return dead >= 1
	})
	text := c.get("/metrics")
	for _, name := range []string{
		"caddy_anvil_requests_total", "caddy_anvil_accept_duration_seconds", "caddy_anvil_jobs",
		"caddy_anvil_oldest_pending_seconds", "caddy_anvil_attempts_total", "caddy_anvil_dead_total",
	} {
		if !strings.Contains(text, "# TYPE "+name+" ") {
			t.Errorf("no metric %s", name)
		}
	}
	check := func(want float64, name string, labels ...string) {
		t.Helper()
		if got, _ := c.metric(name, labels...); got != want {
			t.Errorf("%s%v is %v, want %v", name, labels, got, want)
		}
	}
	check(8, "caddy_anvil_requests_total", `source="demo"`)
	check(5, "caddy_anvil_requests_total", `outcome="accepted"`)
	check(1, "caddy_anvil_requests_total", `outcome="duplicate"`)
	check(2, "caddy_anvil_requests_total", `outcome="refused"`)
	check(5, "caddy_anvil_attempts_total", `endpoint="demo/default"`)
	check(4, "caddy_anvil_attempts_total", `outcome="delivered"`)
	check(1, "caddy_anvil_dead_total", `reason="gone"`)
	check(4, "caddy_anvil_jobs", `queue="webhooks"`, `state="delivered"`)
	// Counters must survive a reload, or every rate drops to nothing at each one.
	c.mustReload(c.caddyfile("", "\theader X-Load 2\n"+simpleSite(up)))
	check(8, "caddy_anvil_requests_total", `source="demo"`)
}

func TestSeriesAreBoundedByTheConfiguration(t *testing.T) {
	up := newUpstream(t, nil)
	c := startCaddy(t, githubSite(up)+"\n")
	series := func() int { return strings.Count(c.get("/metrics"), "\ncaddy_anvil_") }
	one := func(i int) {
		body := hook(i)
		r, err := send(c.site+"/hooks/github", body, "X-GitHub-Event", fmt.Sprintf("type_%d", i), "X-GitHub-Delivery", strconv.Itoa(i),
			"X-Hub-Signature-256", sign(githubSecret, body))
		if err != nil || r.status != http.StatusAccepted {
			t.Errorf("event %d: %d %s %v", i, r.status, r.body, err)
		}
	}
	one(0)
	c.settled(patience)
	before := series()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 625 {
				one(1 + w*625 + i)
			}
		})
	}
	wg.Wait()
	c.settled(3 * time.Minute)
	// Attempt classes and states that had not happened before may add a few.
	if after := series(); after > before+10 {
		t.Errorf("%d series before, %d after 5000 event types", before, after)
	}
}

func TestSeriesOfARemovedEndpointGo(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tqueue extra {\n\t\t\tconcurrency 2\n\t\t}", strings.Replace(simpleSite(up), "\t\tdeliver", "\t\tqueue extra\n\t\tdeliver", 1)))
	c.waitState(accepted(t, c.site+"/hooks", hook(1)), "delivered", patience)
	if _, ok := c.metric("caddy_anvil_oldest_pending_seconds", `queue="extra"`); !ok {
		t.Error("a configured queue has no gauge")
	}
	c.mustReload(c.caddyfile("", "\trespond hello"))
	if v, ok := c.metric("caddy_anvil_jobs", `queue="extra"`, `state="pending"`); ok && v != 0 {
		t.Errorf("the queue that is no more has a gauge of %v", v)
	}
}
