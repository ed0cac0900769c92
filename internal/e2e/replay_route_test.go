package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

func TestAReplayGoesToTheQueueAndEndpointOfItsDeadJob(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	first, second, third := newGatedUpstream(t, &open), newGatedUpstream(t, &open), newGatedUpstream(t, &open)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tqueue webhooks {\n\t\t\tretry off\n\t\t}\n\t\tqueue billing {\n\t\t\tretry off\n\t\t}", fmt.Sprintf(`	anvil /a a {
		verify hmac %[1]q
		deliver %[2]s
	}
	anvil /b b {
		verify hmac %[1]q
		queue billing
		deliver %[3]s
		deliver %[4]s audit
	}
	anvil /c c {
		verify hmac %[1]q
		queue billing
		deliver %[4]s
	}`, secret, first.addr(), second.addr(), third.addr())))
	// The endpoints of one upstream are told apart by the path, which is that of the event.
	routes := map[string]struct {
		queue string
		up    *upstream
		path  string
		body  []byte
	}{
		"a/default": {"webhooks", first, "/a", hook(0)}, "b/default": {"billing", second, "/b", hook(1)},
		"b/audit": {"billing", third, "/b", hook(1)}, "c/default": {"billing", third, "/c", hook(2)},
	}
	for i, path := range []string{"/a", "/b", "/c"} {
		accepted(t, c.site+path, hook(i))
	}
	waitFor(t, patience, "all four jobs being dead", func() bool { return len(c.jobs("state=dead")) == len(routes) })
	if got := len(c.jobs("state=dead&queue=billing")); got != 3 {
		t.Errorf("%d dead jobs in the queue billing, want 3", got)
	}
	open.Store(true)
	for _, old := range c.jobs("state=dead") {
		want := routes[old.Endpoint]
		before := map[*upstream]int{first: first.count(), second: second.count(), third: third.count()}
		status, fresh, reason := c.replay(old.ID, false)
		if status != http.StatusOK {
			t.Fatalf("%s: replay answered %d %s", old.Endpoint, status, reason)
		}
		j := c.waitState(fresh, "delivered", patience)
		if j.Queue != want.queue || j.Endpoint != old.Endpoint || j.Source != old.Source {
			t.Errorf("the copy of %s in %s is in %s for %s", old.Endpoint, old.Queue, j.Queue, j.Endpoint)
		}
		for up, n := range before {
			if got := up.count() - n; (got == 1) != (up == want.up) {
				t.Errorf("%s: an upstream got %d requests by the replay", old.Endpoint, got)
			}
		}
		hits := want.up.hits()
		last := hits[len(hits)-1]
		if last.uri() != want.path || last.jobID() != fresh || !bytes.Equal(last.body, want.body) {
			t.Errorf("%s: the replay came as %s of job %s with %s", old.Endpoint, last.line, last.jobID(), last.body)
		}
	}
	if got := len(c.jobs("state=dead")); got != 0 {
		t.Errorf("%d jobs are dead still", got)
	}
}

// newGatedUpstream fails until the gate is open.
func newGatedUpstream(t *testing.T, open *atomic.Bool) *upstream {
	t.Helper()
	return newUpstream(t, func(int, hit) answer {
		if open.Load() {
			return answer{}
		}
		return answer{status: http.StatusInternalServerError}
	})
}
