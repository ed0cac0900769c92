package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// redisStore is the global option that keeps the store in the Redis at an address; words are lines of its block.
func redisStore(addr string, words ...string) string {
	option := "\t\tstore redis redis://" + addr
	if len(words) > 0 {
		option += " {\n\t\t\t" + strings.Join(words, "\n\t\t\t") + "\n\t\t}"
	}
	return option
}

// The arguments of redis-server for a Redis that keeps what it has when it is killed.
var durable = []string{"--appendonly", "yes", "--appendfsync", "everysec"}

// startOnRedis starts a Redis with args, see redistest.Start, and an instance with the site's body on it.
func startOnRedis(t testing.TB, site string, args ...string) (*instance, *redistest.Server) {
	t.Helper()
	r := redistest.Start(t, args...)
	return startInstances(t, 1, redisStore(r.Addr()), site)[0], r
}

// startInstances starts several instances of one configuration, each on its own ports and in its own folders, see
// instance.caddyfile. Start what they share before them, so that it ends after them.
func startInstances(t testing.TB, n int, global, site string) []*instance {
	t.Helper()
	all := make([]*instance, n)
	for i := range all {
		all[i] = newInstance(t)
		all[i].start(all[i].caddyfile(global, site))
	}
	return all
}

// status is that of a GET of the site, 0 when nobody answers.
func (c *instance) status(path string) int {
	r, err := sendVia(client, http.MethodGet, c.site+path, nil)
	if err != nil {
		return 0
	}
	return r.status
}

// acceptedSoon posts a fresh event until it is accepted, as a provider would, and returns its job. It is for a store that
// is on its way back.
func acceptedSoon(t testing.TB, url string, body []byte, within time.Duration) string {
	t.Helper()
	var r response
	waitFor(t, within, "a webhook being accepted", func() bool {
		r = post(t, url, body)
		return r.status == http.StatusAccepted
	})
	return r.JobID
}

// delivers fails the test unless a fresh event gets through within the time given.
func (c *instance) delivers(path string, body []byte, within time.Duration) {
	c.t.Helper()
	start := time.Now()
	id := acceptedSoon(c.t, c.site+path, body, within)
	c.waitState(id, "delivered", max(time.Second, within-time.Since(start)))
}

// allArrived fails the test for every acknowledged event that the upstream has not seen.
func allArrived(t testing.TB, up *upstream, acked map[string]int) {
	t.Helper()
	hits := up.jobHits()
	for id, n := range acked {
		if hits[id] == 0 {
			t.Errorf("event %d was acknowledged as job %s and never arrived", n, id)
		}
	}
}

// noneTwice fails the test for every job and for every body that the upstream has seen more than once.
func noneTwice(t testing.TB, up *upstream) {
	t.Helper()
	bodies := map[string]string{}
	for _, h := range up.hits() {
		if first, ok := bodies[string(h.body)]; ok {
			t.Errorf("%s arrived twice, as jobs %s and %s", h.body, first, h.jobID())
		}
		bodies[string(h.body)] = h.jobID()
	}
}

// openedAtEnd returns a function that opens a gate at which an upstream's script waits. Called after newUpstream, it also
// has the gate opened before the upstream ends, which would wait for its script.
func openedAtEnd(t testing.TB, gate chan struct{}) (open func()) {
	t.Helper()
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	return open
}
