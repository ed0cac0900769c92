package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// cpu is the processor time that the process has used so far.
func (c *instance) cpu() time.Duration {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid()))
	if err != nil {
		c.t.Skipf("reading processor time needs /proc: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var ticks int64
	for _, field := range strings.Fields(rest)[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			c.t.Fatalf("reading /proc/<pid>/stat: %v", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // Linux has 100 ticks a second wherever Go runs
}

// rests fails the test when the process uses more than half a processor for two seconds, five times in a row. Loops that
// do not wait use a whole one for ever; what a busy machine has delayed is made up for some time.
func (c *instance) rests(when string) {
	c.t.Helper()
	var used, span time.Duration
	for range 5 {
		start, before := time.Now(), c.cpu()
		<-time.After(2 * time.Second)
		used, span = c.cpu()-before, time.Since(start)
		if used <= span/2 {
			return
		}
	}
	c.t.Errorf("%s the server used %s of processor time in %s", when, used, span)
}

func TestKillsOfRedisLoseNothingThatItsLogHas(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, func(n int, _ hit) answer { return answer{delay: time.Duration(n%7) * 5 * time.Millisecond} })
			c, r := startOnRedis(t, simpleSite(up), "--appendonly", "yes", "--appendfsync", fsync)
			l := startLoad(c.site+"/hooks", 8, 40*time.Millisecond)
			var kills []span
			for range 4 {
				l.outlast(t)
				// After an answer, what was acknowledged so long before is written, however long Redis had no processor.
				kills = append(kills, timed(func() { r.Do("PING"); r.Kill() }))
				r.Start()
				up.wait(up.count()+10, time.Minute) // the workers are back
			}
			acked := l.stop()
			c.delivers("/hooks", hook(0), time.Minute)
			t.Logf("%d acknowledged, refused by status: %v", len(acked), l.refused)
			if fsync == "everysec" {
				// While a sync is under way such a Redis answers before it writes to its log, for up to 2s: a kill in that
				// moment takes what it had acknowledged. Nothing else may be missing.
				forgotten(t, c, l.atRisk(shortly, kills...), acked, up.jobHits())
			}
			// Where Redis has forgotten the end of an attempt, its job is repeated when the lease runs out.
			c.settled(2 * time.Minute)
			allArrived(t, up, acked)
			if fsync == "always" {
				noneTwice(t, up)
			}
			if l.unheard != 0 {
				t.Errorf("%d requests got no answer", l.unheard)
			}
			for status := range l.refused {
				if status != http.StatusServiceUnavailable {
					t.Errorf("refused with %v, want only 503", l.refused)
				}
			}
			sane(t, c)
		})
	}
}

// timed does something and returns when that was.
func timed(do func()) span {
	from := time.Now()
	do()
	return span{from, time.Now()}
}

// shortly before a kill is when an acknowledged event may be lost with a Redis that writes its log once a second, or that
// waits for no replica.
const shortly = 3 * time.Second

// outlast keeps the load on until some of what was acknowledged meanwhile is no longer at risk.
func (l *load) outlast(t testing.TB) {
	t.Helper()
	l.goesOn(t, 50, time.Minute)
	<-time.After(shortly)
	l.goesOn(t, 50, time.Minute)
}

// atRisk are the events that were acknowledged so long before one of the kills, or under way in it.
func (l *load) atRisk(before time.Duration, kills ...span) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := map[string]bool{}
	for id, request := range l.when {
		for _, kill := range kills {
			if request.from.Before(kill.to) && request.to.After(kill.from.Add(-before)) {
				ids[id] = true
			}
		}
	}
	return ids
}

// forgotten takes those events at risk out of acked that have not arrived and that Redis knows nothing of.
func forgotten(t *testing.T, c *instance, atRisk map[string]bool, acked, arrived map[string]int) {
	t.Helper()
	before := len(acked)
	if safe := before - len(atRisk); safe < 100 {
		t.Errorf("of %d acknowledged events only %d must be there: that proves little", before, safe)
	}
	for id := range atRisk {
		if arrived[id] > 0 {
			continue
		}
		if status, _ := c.call(http.MethodGet, "/anvil/jobs/"+id, ""); status == http.StatusNotFound {
			delete(acked, id)
		}
	}
	t.Logf("Redis has lost %d of %d, where it may lose %d", before-len(acked), before, len(atRisk))
}

// sane fails the test unless the numbers of the statistics are those of the lists.
func sane(t *testing.T, c *instance) {
	t.Helper()
	listed := map[string]int{}
	for _, j := range c.jobs("") {
		listed[j.State]++
	}
	counted, _ := c.stats()
	for _, state := range []string{"pending", "running", "delivered", "dead", "cancelled", "replayed", "observed"} {
		if counted[state] != listed[state] {
			t.Errorf("stats say %v, the list has %v", counted, listed)
			return
		}
	}
}

// Without a log Redis comes back empty. What it has lost is lost, and must not leave anything stuck.
func TestARedisThatForgetsEverythingIsUsedOnAtOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(r *redistest.Server){
		"a kill without a log": func(r *redistest.Server) { r.Kill(); r.Start() },
		"flushall":             func(r *redistest.Server) { r.Do("FLUSHALL") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			up := newUpstream(t, func(n int, _ hit) answer {
				if n <= 3 { // these are under way when Redis forgets them
					<-gate
				}
				return answer{delay: 3 * time.Millisecond}
			})
			open := openedAtEnd(t, gate)
			c, r := startOnRedis(t, simpleSite(up))
			l := startLoad(c.site+"/hooks", 8, 10*time.Millisecond)
			waitFor(t, time.Minute, "events being acknowledged", func() bool { return l.count() >= 200 })
			loss := timed(func() { lose(r) })
			// The attempts from before do not end before this one.
			c.delivers("/hooks", []byte(`{"id":"the first after"}`), 20*time.Second)
			open()
			l.goesOn(t, 200, time.Minute)
			acked := l.stop()
			c.settled(time.Minute)
			forgotten(t, c, l.atRisk(time.Hour, loss), acked, up.jobHits())
			allArrived(t, up, acked)
			sane(t, c)
			c.rests("after a loss of all data")
		})
	}
}

func TestEachRestartOfRedisCostsAtMostOneRefusal(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(r *redistest.Server){
		"killed":         (*redistest.Server).Kill,
		"ended in order": (*redistest.Server).Shutdown,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			// Not everysec: the kill may come right after an answer, and such a Redis forgets that one now and then.
			c, r := startPatient(t, simpleSite(up), "--appendonly", "yes", "--appendfsync", "always")
			burst := startLoad(c.site+"/hooks", 32, 5*time.Millisecond) // opens many connections, all of which will be dead
			waitFor(t, time.Minute, "events being acknowledged", func() bool { return burst.count() >= 200 })
			acked := burst.stop()
			for restart := 1; restart <= 3; restart++ {
				stop(r)
				r.Start()
				refused := 0
				for {
					res := post(t, c.site+"/hooks", fmt.Appendf(nil, `{"id":"after restart %d"}`, restart))
					if res.status == http.StatusAccepted {
						acked[res.JobID] = -restart
						break
					}
					if refused++; refused > 1 {
						t.Fatalf("restart %d: %d refusals, the last %d %s", restart, refused, res.status, res.body)
					}
				}
			}
			c.settled(time.Minute)
			allArrived(t, up, acked)
			noneTwice(t, up)
		})
	}
}

func TestIdleWorkersNoticeWorkSoonAfterRedisHasRestarted(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, r := startOnRedis(t, simpleSite(up), durable...)
	c.delivers("/hooks", hook(1), time.Minute)
	// Idle from here on: longer than the interval at which workers look by themselves.
	holds(t, 2*time.Second, "only one delivery", func() bool { return up.count() == 1 })
	r.Kill()
	c.rests("while Redis is away")
	r.Start()
	acceptedSoon(t, c.site+"/hooks", hook(2), time.Minute)
	up.wait(2, 20*time.Second) // a lease would last longer
	c.settled(time.Minute)
	c.rests("after Redis came back")
}

func TestOutcomesThatRedisMissesAreWrittenWhenItIsBack(t *testing.T) {
	t.Parallel()
	const n = 5
	gate := make(chan struct{})
	up := newUpstream(t, func(n int, _ hit) answer {
		<-gate
		if n == 1 {
			return answer{status: http.StatusInternalServerError}
		}
		return answer{}
	})
	open := openedAtEnd(t, gate)
	c, r := startPatient(t, simpleSite(up), "--appendonly", "yes", "--appendfsync", "always")
	ids := make([]string, n)
	for i := range ids {
		ids[i] = accepted(t, c.site+"/hooks", hook(i))
	}
	failed := up.wait(n, time.Minute)[0].jobID()
	r.Kill()
	open()
	holds(t, 4*time.Second, "no job sent again", func() bool { return up.count() == n })
	r.Start()
	for _, id := range ids {
		j := c.waitState(id, "delivered", time.Minute)
		want := []string{"delivered"}
		if id == failed {
			want = []string{"status", "delivered"}
		}
		var got []string
		for _, a := range j.Ledger {
			got = append(got, a.Class)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the ledger of job %s is %v, want %v", id, got, want)
		}
	}
	if got := up.count(); got != n+1 {
		t.Errorf("the upstream has %d requests, want %d and one retry", got, n)
	}
}
