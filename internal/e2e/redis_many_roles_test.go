package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// sources is the source that receiver and worker share in their global options.
func sources(u *upstream, words string) string {
	return fmt.Sprintf("\t\tsource demo {\n\t\t\tverify hmac %q\n\t\t\tdeliver %s {\n%s\n\t\t\t}\n\t\t}", secret, u.url(), words)
}

// workerfile is a configuration without sites.
func (c *instance) workerfile(global string) string {
	return fmt.Sprintf("{\n\tadmin 127.0.0.1:%d\n\tpersist_config off\n\tanvil {\n%s\n\t}\n}\n", c.ports.admin, global)
}

func TestAWorkerWithoutSitesDeliversAtOnceWhatAReceiverTakes(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer {
		if n == 1 {
			return answer{status: 500}
		}
		return answer{}
	})
	f := newFleet(t, 2)
	receiver, worker := f.members[0], f.members[1]
	words := sources(up, "\t\t\t\tretry off")
	f.run(0, receiver.caddyfile(f.global("\t\tworkers off\n"+words), "\tanvil /hooks demo"))
	f.run(1, worker.workerfile(f.global(words)))

	dead := accepted(t, receiver.site+"/hooks", hook(0))
	worker.waitState(dead, "dead", time.Minute)
	// The worker looks by itself once a second. Posting right after a delivery, each webhook would wait for most of that.
	// A busy machine may delay many as much, but not all.
	n := 0
	fastest := time.Hour
	for ; n < 30 && fastest > 500*time.Millisecond; n++ {
		start := time.Now()
		id := accepted(t, receiver.site+"/hooks", hook(1+n))
		hits := up.wait(2+n, time.Minute)
		if got := hits[len(hits)-1].jobID(); got != id {
			t.Fatalf("the upstream got job %s, want %s", got, id)
		}
		fastest = min(fastest, hits[len(hits)-1].at.Sub(start))
		receiver.waitState(id, "delivered", time.Minute)
	}
	if fastest > 500*time.Millisecond {
		t.Errorf("no delivery began earlier than %s after the POST; the worker was not woken", fastest)
	}

	status, fresh, _ := receiver.replay(dead, false)
	if status != http.StatusOK {
		t.Fatalf("replay at the receiver answered %d", status)
	}
	receiver.waitState(fresh, "delivered", time.Minute)
	if got := up.count(); got != n+2 {
		t.Errorf("the upstream has %d requests, want %d", got, n+2)
	}
}

func TestAReceiverWithoutWorkersDeliversNothing(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	f := startFleet(t, 2, "\t\tworkers off", numberedSite(up, ""))
	id := accepted(t, f.urls()[0], hook(1))
	holds(t, 2500*time.Millisecond, "a pending job that nobody sends", func() bool {
		return up.count() == 0 && f.members[1].job(id).State == "pending"
	})
	if !f.members[1].cancel(id) {
		t.Error("the other receiver could not cancel it")
	}
	if state := f.members[0].job(id).State; state != "cancelled" {
		t.Errorf("the job is %s, want cancelled", state)
	}
}
