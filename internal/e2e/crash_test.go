package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// load posts unique webhooks from several senders until stop is called and remembers what was acknowledged. It does as
// providers do: an event that got no answer is sent again, one that was refused is not.
type load struct {
	mu      sync.Mutex
	acked   map[string]int  // job id → event number
	when    map[string]span // job id → its acknowledged request
	refused map[int]int     // status → count
	unheard int             // requests without an answer
	next    int
	quit    chan struct{}
	wg      sync.WaitGroup
}

// span is the time that something took.
type span struct{ from, to time.Time }

func newLoad() *load {
	return &load{acked: map[string]int{}, when: map[string]span{}, refused: map[int]int{}, quit: make(chan struct{})}
}

func startLoad(url string, senders int, pause time.Duration) *load {
	l := newLoad()
	for range senders {
		l.wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			n, answered := 0, true
			for {
				if answered {
					n = l.number()
				}
				answered = l.one(url, n)
				select {
				case <-l.quit:
					return
				case <-tick.C:
				}
			}
		})
	}
	return l
}

func (l *load) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next
}

func (l *load) one(url string, n int) (answered bool) {
	from := time.Now()
	r, err := sendSigned(url, hook(n))
	to := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.unheard++
		return false
	case r.status == http.StatusAccepted:
		l.acked[r.JobID], l.when[r.JobID] = n, span{from, to}
	default:
		l.refused[r.status]++
	}
	return true
}

func (l *load) stop() map[string]int {
	close(l.quit)
	l.wg.Wait()
	return l.acked
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

func TestKillsUnderLoadLoseNoAcknowledgedEvent(t *testing.T) {
	up := newUpstream(t, func(n int, _ hit) answer { return answer{delay: time.Duration(n%7) * 5 * time.Millisecond} })
	c := newInstance(t)
	conf := c.caddyfile("", simpleSite(up))
	c.start(conf)
	l := startLoad(c.site+"/hooks", 8, 10*time.Millisecond)
	const kills = 50
	for kill := range kills {
		enough := l.count() + 10 + kill
		waitFor(t, patience, "events being acknowledged after a restart", func() bool { return l.count() >= enough })
		c.kill9()
		c.start(conf)
	}
	acked := l.stop()
	c.settled(3 * time.Minute)
	hits := up.jobHits()
	t.Logf("%d acknowledged, %d requests at the upstream, %d without an answer, refused by status: %v", len(acked), up.count(), l.unheard, l.refused)
	allArrived(t, up, acked)
	repeatedOnlyAsLost(t, c, hits)
	if states, _ := c.stats(); states["delivered"] != len(hits) || states["dead"] != 0 {
		t.Errorf("stats are %v, the upstream saw %d jobs", states, len(hits))
	}
	c.term()
	checkIntegrity(t, c.storePath())
}

// repeatedOnlyAsLost fails the test for every job that was sent more than once without a kill that took the outcome.
func repeatedOnlyAsLost(t *testing.T, c *instance, hits map[string]int) {
	t.Helper()
	for id, n := range hits {
		if n == 1 {
			continue
		}
		ledger := c.job(id).Ledger
		lost := 0
		for _, row := range ledger {
			if row.Class == "lost" {
				lost++
			}
		}
		// A kill may also come between the claim and the request.
		if n > len(ledger) || lost != len(ledger)-1 {
			t.Errorf("job %s was sent %d times, its ledger is %+v; want a lost row for each repetition", id, n, ledger)
		}
	}
}

// checkIntegrity reads the whole database and compares its indexes with its tables.
func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	verdict, err := sqlitex.ResultText(conn.Prep("PRAGMA integrity_check"))
	if err != nil || verdict != "ok" {
		t.Errorf("integrity check of the store: %s, %v", verdict, err)
	}
}

func TestAJobUnderWayAtAKillIsSentAgainWithItsID(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer { return answer{hang: n == 1} })
	c := newInstance(t)
	conf := c.caddyfile("", simpleSite(up))
	c.start(conf)
	id := accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, patience)
	c.kill9()
	c.start(conf)
	h := up.wait(2, patience)[1]
	if h.jobID() != id || h.header("Anvil-Attempt") != "2" {
		t.Errorf("the second life came as job %s attempt %s, want job %s attempt 2", h.jobID(), h.header("Anvil-Attempt"), id)
	}
	j := c.waitState(id, "delivered", patience)
	if len(j.Ledger) != 2 || j.Ledger[0].Class != "lost" || j.Ledger[1].Class != "delivered" {
		t.Errorf("ledger is %+v, want a lost row and a delivered one", j.Ledger)
	}
}

func TestARestartInTheMiddleOfRetriesEndsWithOneSuccessEach(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var mu sync.Mutex
	up := newUpstream(t, func(_ int, h hit) answer {
		mu.Lock()
		defer mu.Unlock()
		if seen[h.jobID()] {
			return answer{}
		}
		seen[h.jobID()] = true
		return answer{status: 500}
	})
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 30s", simpleSite(up)) // none is cut after its answer
	c.start(conf)
	const n = 200
	for i := range n {
		accepted(t, c.site+"/hooks", hook(i))
	}
	up.wait(n+n/4, time.Minute)
	c.term()
	c.start(conf)
	c.settled(patience)
	if states, _ := c.stats(); states["delivered"] != n || len(states) == 0 {
		t.Errorf("stats are %v, want %d delivered", states, n)
	}
	if got := up.count(); got != 2*n {
		t.Errorf("the upstream has %d requests, want %d failures and as many successes", got, n)
	}
}
