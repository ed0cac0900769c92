package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestTheBacklogLimitHoldsAcrossInstances(t *testing.T) {
	t.Parallel()
	const limit, n = 40, 100
	port := freePort(t)
	f := newFleet(t, 2)
	words := fmt.Sprintf("\t\tqueue webhooks {\n\t\t\tmax_pending %d\n\t\t\tretry exponential {\n\t\t\t\tbase 500ms\n\t\t\t\tcap 1s\n\t\t\t\tattempts 100\n\t\t\t}\n\t\t}", limit)
	for i, c := range f.members {
		f.run(i, c.caddyfile(f.global(words), fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver 127.0.0.1:%d\n\t}", secret, port)))
	}
	urls := f.urls()
	answers := make([]response, n)
	var wg sync.WaitGroup
	for s := range 10 {
		wg.Go(func() {
			for i := s; i < n; i += 10 {
				r, err := sendSigned(urls[i/10%2], hook(i))
				if err != nil {
					t.Errorf("event %d: %v", i, err)
				}
				answers[i] = r
			}
		})
	}
	wg.Wait()
	acked, one := map[string]int{}, 0
	for i, r := range answers {
		switch {
		case r.status == http.StatusAccepted:
			acked[r.JobID], one = i, i
		case r.status != http.StatusServiceUnavailable || r.Error != "backlog_full" || r.header.Get("Retry-After") == "":
			t.Errorf("event %d: got %d %s, Retry-After %q; want 503 backlog_full with a time", i, r.status, r.body, r.header.Get("Retry-After"))
		}
	}
	if len(acked) != limit {
		t.Errorf("%d of %d events were taken, the limit is %d", len(acked), n, limit)
	}
	// What is stored already needs no room.
	if r := post(t, urls[1], hook(one)); r.status != http.StatusAccepted || !r.Replayed || acked[r.JobID] != one {
		t.Errorf("a copy of a stored event got %d %s", r.status, r.body)
	}
	holds(t, 1500*time.Millisecond, "the backlog while nobody takes it", func() bool {
		states, _ := f.members[0].stats()
		return states["pending"]+states["running"] == limit
	})

	up := newUpstreamAt(t, port)
	f.members[1].settled(time.Minute)
	allArrived(t, up, acked)
	noneTwice(t, up)
	accepted(t, urls[0], hook(n))
}
