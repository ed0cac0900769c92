package e2e

import (
	"fmt"
	"testing"
	"time"
)

func TestARollingRestartOfThreeLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer { return answer{delay: time.Duration(n%8) * 60 * time.Millisecond} })
	f := startFleet(t, 3, "\t\tdrain_timeout 20s", numberedSite(up, ""))
	l := startLoadOver(f.urls(), 6, 20*time.Millisecond)
	for i, c := range f.members {
		l.waitMore(t, 40)
		c.term()
		l.waitMore(t, 20) // the others go on
		f.rerun(i)
	}
	l.waitMore(t, 40)
	acked := l.stop()
	f.members[0].settled(2 * time.Minute)
	allArrived(t, up, acked)
	noneTwice(t, up)
	for status, n := range l.refused {
		t.Errorf("%d requests were refused with status %d", n, status)
	}
	rows := 0
	for _, j := range f.members[2].jobs("") {
		if j.State != "delivered" {
			t.Errorf("job %s is %s", j.ID, j.State)
		}
		for _, a := range f.members[1].job(j.ID).Ledger {
			rows++
			if a.Class != "delivered" {
				t.Errorf("job %s has an attempt that is %s", j.ID, a.Class)
			}
		}
	}
	if n := up.count(); rows < n {
		t.Errorf("the ledger has %d attempts, the upstream got %d requests", rows, n)
	}
	t.Logf("%d acknowledged, %d without an answer, deliveries by instance: %v", len(acked), l.unheard, shares(up))
}

func TestAnOlderConfigurationLeavesNewerEndpointsAlone(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	f := newFleet(t, 2)
	site := func(member int, more string) string {
		return fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s/%d\n%s\t}", secret, up.url(), member, more)
	}
	older, newer := f.members[0], f.members[1]
	f.run(0, older.caddyfile(f.global(""), site(0, "")))
	// The newer one only receives at first, so that the older one is alone with its jobs.
	more := fmt.Sprintf("\t\tdeliver %s/1 audit\n", up.url())
	f.run(1, newer.caddyfile(f.global("\t\tworkers off"), site(1, more)))
	const n = 5
	for i := range n {
		accepted(t, newer.site+"/hooks", hook(i))
	}
	up.wait(n, time.Minute)
	holds(t, 2500*time.Millisecond, "the older one at work for its endpoint only", func() bool { return up.count() == n })
	if got := older.jobs("state=pending"); len(got) != n || got[0].Endpoint != "demo/audit" {
		t.Errorf("pending are %+v, want the %d jobs of demo/audit, untouched", got, n)
	}
	if _, unrouted := older.stats(); unrouted != n {
		t.Errorf("the older one counts %d jobs without an endpoint, want %d", unrouted, n)
	}
	if _, unrouted := newer.stats(); unrouted != 0 {
		t.Errorf("the newer one counts %d jobs without an endpoint, want none", unrouted)
	}

	newer.mustReload(newer.caddyfile(f.global(""), site(1, more)))
	up.wait(2*n, time.Minute)
	newer.settled(time.Minute)
	for id, hits := range up.jobHits() {
		if j := newer.job(id); hits != 1 || j.State != "delivered" || len(j.Ledger) != 1 {
			t.Errorf("job %s was sent %d times and is %+v, want one delivery", id, hits, j)
		}
	}
	for _, h := range up.hits() {
		if j := newer.job(h.jobID()); j.Endpoint == "demo/audit" && by(h) != "1" {
			t.Errorf("the older one has sent job %s of demo/audit", j.ID)
		}
	}
}
