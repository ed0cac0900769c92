package e2e

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestSIGTERMLetsADeliveryFinishWithinTheDrainTime(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(int, hit) answer { return answer{delay: 2 * time.Second} })
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 10s", simpleSite(up))
	c.start(conf)
	id := accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, 5*time.Second)
	start := time.Now()
	c.term()
	if took := time.Since(start); took > 6*time.Second {
		t.Errorf("the server ended after %s, the delivery took 2s", took)
	}
	c.start(conf)
	j := c.waitState(id, "delivered", 5*time.Second)
	if len(j.Ledger) != 1 || j.Ledger[0].Class != "delivered" {
		t.Errorf("ledger is %+v, want one delivered row", j.Ledger)
	}
	holds(t, time.Second, "one delivery only", func() bool { return up.count() == 1 })
}

func TestSIGTERMCutsALongDeliveryAndTheNextStartRepeatsIt(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer { return answer{hang: n == 1} })
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 1s", simpleSite(up))
	c.start(conf)
	id := accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, 5*time.Second)
	start := time.Now()
	c.term()
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the server ended after %s with drain_timeout 1s", took)
	}
	c.start(conf)
	if h := up.wait(2, 5*time.Second)[1]; h.jobID() != id {
		t.Errorf("the next start sent job %s, want %s", h.jobID(), id)
	}
	j := c.waitState(id, "delivered", 5*time.Second)
	if len(j.Ledger) != 2 || j.Ledger[0].Class != "interrupted" || j.Ledger[1].Class != "delivered" {
		t.Errorf("ledger is %+v, want an interrupted row and a delivered one", j.Ledger)
	}
}

func TestSIGTERMDoesNotBeginQueuedDeliveries(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(int, hit) answer { return answer{delay: 1500 * time.Millisecond} })
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 10s\n\t\tqueue webhooks {\n\t\t\tconcurrency 1\n\t\t}", simpleSite(up))
	c.start(conf)
	for i := range 3 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	up.wait(1, 5*time.Second)
	c.term()
	if n := up.count(); n != 1 {
		t.Errorf("%d deliveries had begun when the server ended, want the one under way", n)
	}
	c.start(conf)
	up.wait(3, 15*time.Second)
	c.settled(10 * time.Second)
	for id, n := range up.jobHits() {
		if n != 1 {
			t.Errorf("job %s was sent %d times", id, n)
		}
	}
}

func TestSIGTERMIsBoundedWithAHangingUpstreamAndAStalledSender(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(int, hit) answer { return answer{hang: true} })
	c := newInstance(t)
	c.start(c.caddyfile("\t\tdrain_timeout 1s", strings.Replace(simpleSite(up), "\t\tdeliver", "\t\tread_timeout 3s\n\t\tdeliver", 1)))
	accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, 5*time.Second)
	conn := dial(t, c.site)
	_, _ = io.WriteString(conn, c.rawPost(1000, "X-Signature: "+sign(secret, nil))+"ten bytes.")
	start := time.Now()
	c.term()
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the server ended after %s with drain_timeout 1s and read_timeout 3s", took)
	}
}
