package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestJobsOfARemovedEndpointWaitAndComeBackWithIt(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	up := newGatedUpstream(t, &open)
	other := newUpstream(t, nil)
	c := newInstance(t)
	site := fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\tretry%s\n\t\t}\n\t}", secret, up.addr(), strings.Repeat(" 1s", 60))
	with := c.caddyfile("", site+fmt.Sprintf("\n\tanvil /other other {\n\t\tverify hmac %q\n\t\tdeliver %s\n\t}\n\tanvil_health /health", secret, other.addr()))
	without := c.caddyfile("", fmt.Sprintf("\tanvil /other other {\n\t\tverify hmac %q\n\t\tdeliver %s\n\t}\n\tanvil_health /health", secret, other.addr()))
	c.start(with)
	id := accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, patience)
	waitFor(t, patience, "the failed attempt in the ledger", func() bool { return len(c.job(id).Ledger) > 0 })
	from := c.log.len()
	c.mustReload(without)
	waitFor(t, patience, "the job being counted as unrouted", func() bool {
		_, unrouted := c.stats()
		return unrouted == 1
	})
	c.waitState(accepted(t, c.site+"/other", hook(2)), "delivered", patience)
	warnings := func() int {
		n := 0
		for _, line := range c.log.since(from) {
			if containsAll(line, []string{"demo/default", `"warn"`, "orphan_after"}) {
				n++
			}
		}
		return n
	}
	waitFor(t, patience, "a warning that names the endpoint", func() bool { return warnings() > 0 })
	holds(t, 2500*time.Millisecond, "one warning and a pending job", func() bool {
		return warnings() == 1 && c.job(id).State == "pending"
	})
	r, err := sendVia(client, http.MethodGet, c.site+"/health", nil)
	if err != nil || r.status != http.StatusOK || !strings.Contains(string(r.body), "unrouted") {
		t.Errorf("readiness with an unrouted job: %d %s %v, want 200 and the count", r.status, r.body, err)
	}
	open.Store(true)
	c.mustReload(with)
	c.waitState(id, "delivered", patience)
}

func TestJobsOfAnEndpointNobodyHasDieAfterOrphanAfter(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, statuses(500))
	c := newInstance(t)
	c.start(c.caddyfile("", simpleSite(up)))
	id := accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, patience)
	c.mustReload(c.caddyfile("\t\torphan_after 2s", "\trespond hello"))
	j := c.waitState(id, "dead", 3*time.Minute)
	if j.DeadReason != "no_endpoint" {
		t.Errorf("the orphan died of %s", j.DeadReason)
	}
	c.logged("no_endpoint", id, `"error"`)
}

func TestASourceWithoutEndpointsStoresAndSendsNothing(t *testing.T) {
	t.Parallel()
	c := startCaddy(t, fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t}", secret))
	id := accepted(t, c.site, hook(1))
	if j := c.job(id); j.State != "observed" || len(j.Ledger) != 0 {
		t.Errorf("the job is %+v, want observed", j)
	}
	if r := post(t, c.site, hook(1)); !r.Replayed || r.JobID != id {
		t.Errorf("got %s, want a duplicate", r.body)
	}
}
