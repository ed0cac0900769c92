package e2e

import (
	"testing"
	"time"
)

// It waits for a lease to end (30 s) and uses the time: what another instance delivers meanwhile takes longer than a lease,
// which must be renewed.
func TestTheJobsOfAKilledInstanceComeBackAndSlowOnesAreNotDoubled(t *testing.T) {
	t.Parallel()
	const held, slow = 10, 5
	up := newUpstream(t, func(_ int, h hit) answer {
		switch {
		case by(h) == "0":
			return answer{hang: true}
		case h.header("Anvil-Attempt") == "1":
			return answer{delay: 37 * time.Second}
		}
		return answer{}
	})
	f := newFleet(t, 2)
	// The survivor has room for both kinds.
	site := numberedSite(up, "\t\t\ttimeout 60s\n\t\t\tconcurrency 10")
	f.run(0, f.members[0].caddyfile(f.global(""), site(0)))
	urls := f.urls()
	lost := map[string]bool{}
	for i := range held {
		lost[accepted(t, urls[0], hook(i))] = true
	}
	up.wait(held, time.Minute)
	site = numberedSite(up, "\t\t\ttimeout 60s\n\t\t\tconcurrency 15")
	f.run(1, f.members[1].caddyfile(f.global(""), site(1)))
	for i := range slow {
		accepted(t, urls[1], hook(held+i)) // the other one's slots are taken
	}
	up.wait(held+slow, time.Minute)
	f.members[0].kill9()

	survivor := f.members[1]
	// A lease that was renewed just before the kill ends after 30 s, and the next look for it comes within 5 s.
	up.wait(2*held+slow, time.Minute)
	survivor.settled(2 * time.Minute)
	for id, n := range up.jobHits() {
		j := survivor.job(id)
		if !lost[id] {
			if n != 1 || j.State != "delivered" || len(j.Ledger) != 1 {
				t.Errorf("slow job %s was sent %d times and is %+v", id, n, j)
			}
			continue
		}
		if n != 2 || j.State != "delivered" || len(j.Ledger) != 2 || j.Ledger[0].Class != "lost" || j.Ledger[1].Class != "delivered" {
			t.Errorf("job %s of the killed instance was sent %d times and is %+v; want a lost row and a delivered one", id, n, j)
		}
	}
	if n := len(up.jobHits()); n != held+slow {
		t.Errorf("%d jobs arrived, want %d", n, held+slow)
	}
}
