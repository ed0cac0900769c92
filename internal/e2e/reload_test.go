package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestReloadsUnderLoadLoseNothingAndSendNothingTwice(t *testing.T) {
	up := newUpstream(t, nil)
	c := newInstance(t)
	conf := func(i int) string {
		return c.caddyfile("", fmt.Sprintf("\theader X-Load %d\n%s\n\tanvil_health /health", i, simpleSite(up)))
	}
	c.start(conf(0))
	l := startLoad(c.site+"/hooks", 4, 20*time.Millisecond)
	// The base line counts a configuration that has seen a reload, not a process that has just begun.
	var baseFiles, baseGoroutines int
	var times []time.Duration
	for i := 1; i <= 20; i++ {
		seen := l.count() + 10
		waitFor(t, patience, "events being acknowledged between reloads", func() bool { return l.count() >= seen })
		start := time.Now()
		if i == 7 {
			if err := c.reload(c.caddyfile("", "\tanvil demo {\n\t\tverfy hmac x\n\t}")); err == nil {
				t.Error("an invalid configuration was taken")
			}
			continue
		}
		c.mustReload(conf(i))
		times = append(times, time.Since(start))
		if i == 4 {
			client.CloseIdleConnections()
			baseFiles, _ = c.openFiles("")
			baseGoroutines = c.goroutines()
		}
	}
	acked := l.stop()
	slices.Sort(times)
	if median := times[len(times)/2]; median > 5*time.Second { // a busy machine may delay some
		t.Errorf("half of the reloads took %s and more", median)
	}
	c.settled(patience)
	for status, n := range l.refused {
		t.Errorf("%d requests were refused with status %d", n, status)
	}
	// Caddy closes idle connections at a reload, and a sender may just be writing to one; it sends again.
	t.Logf("%d acknowledged, %d requests without an answer", len(acked), l.unheard)
	hits := up.jobHits()
	for id := range acked {
		if hits[id] != 1 {
			t.Errorf("job %s was sent %d times, want once", id, hits[id])
		}
	}
	if events := len(c.events("")); len(hits) != events {
		t.Errorf("%d events stored, %d arrived", events, len(hits))
	}
	client.CloseIdleConnections()
	waitFor(t, time.Minute, fmt.Sprintf("goroutines and files falling back to %d and %d", baseGoroutines, baseFiles), func() bool {
		files, _ := c.openFiles("")
		return files <= baseFiles+10 && c.goroutines() <= baseGoroutines+10
	})
	if _, handles := c.openFiles("anvil.db"); handles > 12 {
		t.Errorf("%d handles on the store's files after the reloads", handles)
	}
}

func TestAChangedUpstreamServesWhatIsAlreadyQueued(t *testing.T) {
	t.Parallel()
	down, fixed := newUpstream(t, statuses(500)), newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("", simpleSite(down)))
	id := accepted(t, c.site+"/hooks", hook(1))
	down.wait(1, patience)
	c.mustReload(c.caddyfile("", simpleSite(fixed)))
	before := down.count()
	h := fixed.wait(1, time.Minute)[0]
	if h.jobID() != id || string(h.body) != string(hook(1)) || h.header("X-Signature") != sign(secret, hook(1)) {
		t.Errorf("the new upstream got job %s, body %q", h.jobID(), h.body)
	}
	c.waitState(id, "delivered", patience)
	if n := down.count(); n > before+1 { // one attempt may have been on its way
		t.Errorf("the old upstream got %d requests after the reload", n-before)
	}
}

func TestARejectedReloadLeavesTheOldOneAtWork(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	before := c.get("/config/")
	blocked := c.write("a-file", "not a folder")
	for name, conf := range map[string]string{
		"a misspelt word":              c.caddyfile("", "\tanvil demo {\n\t\tverify hmac \"sixteen characters\"\n\t\tdelivr :1\n\t}"),
		"a short secret":               c.caddyfile("", "\tanvil demo {\n\t\tverify hmac short\n\t}"),
		"an unset secret":              c.caddyfile("", "\tanvil demo {\n\t\tverify hmac {env.ANVIL_E2E_UNSET}\n\t}"),
		"an unknown queue":             c.caddyfile("", fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t\tqueue nowhere\n\t}", secret)),
		"one source with two meanings": c.caddyfile("", simpleSite(up)+fmt.Sprintf("\n\tanvil /other demo {\n\t\tverify hmac %q\n\t\tdedupe off\n\t}", secret)),
		"a store that cannot be":       c.caddyfile("\t\tstore sqlite "+blocked+"/anvil.db", simpleSite(up)),
	} {
		if err := c.reload(conf); err == nil {
			t.Errorf("%s was taken", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
		if now := c.get("/config/"); now != before {
			t.Fatalf("%s: the rejected reload changed the configuration", name)
		}
	}
	id := accepted(t, c.site+"/hooks", hook(1))
	c.waitState(id, "delivered", patience)
	if status, text := c.call(http.MethodGet, "/anvil/stats", ""); status != http.StatusOK {
		t.Errorf("the admin API answers %d %s after rejected reloads", status, text)
	}
}

func TestAReloadNeitherWaitsForADeliveryNorRepeatsIt(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	up := newUpstream(t, func(int, hit) answer { <-gate; return answer{} })
	open := openedAtEnd(t, gate)
	c := newInstance(t)
	c.start(c.caddyfile("", simpleSite(up)))
	id := accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, patience)
	c.mustReload(c.caddyfile("", "\theader X-Load 2\n"+simpleSite(up)))
	if j := c.job(id); j.State != "running" || len(j.Ledger) != 0 {
		t.Errorf("after the reload the job is %s with %d rows; the delivery must go on beside it", j.State, len(j.Ledger))
	}
	open()
	j := c.waitState(id, "delivered", patience)
	if up.count() != 1 || len(j.Ledger) != 1 {
		t.Errorf("the upstream has %d requests and the ledger %d rows, want one each", up.count(), len(j.Ledger))
	}
}

func TestStoresCanBeChangedByReloadAndBack(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	first := c.caddyfile("\t\tstore sqlite "+c.dir+"/first.db", simpleSite(up))
	second := c.caddyfile("\t\tstore sqlite "+c.dir+"/second.db", simpleSite(up))
	c.start(first)
	id := accepted(t, c.site+"/hooks", hook(1))
	c.waitState(id, "delivered", patience)
	for _, conf := range []string{second, first, second, first} {
		c.mustReload(conf)
	}
	if r := post(t, c.site+"/hooks", hook(1)); !r.Replayed || r.JobID != id {
		t.Errorf("back on the first store: got %s, want a duplicate of %s", r.body, id)
	}
	waitFor(t, patience, "the other store being closed", func() bool {
		_, handles := c.openFiles("second.db")
		return handles == 0
	})
	if _, err := os.Stat(c.dir + "/second.db"); err != nil {
		t.Errorf("the second store left no file: %v", err)
	}
}

func TestReloadsBesideScrapersBlockNobody(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("", simpleSite(up)))
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 10 {
		path := []string{"/metrics", "/anvil/jobs", "/anvil/stats", "/anvil/events"}[i%4]
		wg.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-quit:
					return
				case <-tick.C:
				}
				// A reload replaces the admin server, so a scrape may be cut; that it ends is what counts.
				if res, err := adminClient.Get(c.admin + path); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	for i := range 20 {
		c.mustReload(c.caddyfile("", fmt.Sprintf("\theader X-Load %d\n%s", i+1, simpleSite(up))))
		accepted(t, c.site+"/hooks", hook(i))
	}
	close(quit)
	wg.Wait()
	c.settled(patience)
}
