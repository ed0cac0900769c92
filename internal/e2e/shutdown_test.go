package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// exiting sends SIGTERM and returns when the server says that it ends.
func (c *instance) exiting() {
	c.t.Helper()
	c.signalTerm()
	c.logged("exiting; byeee")
}

func TestSIGTERMLetsADeliveryFinishWithinTheDrainTime(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	up := newUpstream(t, func(int, hit) answer { <-gate; return answer{delay: 2 * time.Second} })
	open := openedAtEnd(t, gate)
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 10m", simpleSite(up))
	c.start(conf)
	id := accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, patience)
	c.exiting()
	open()
	c.term() // ends with the delivery, far from the end of the drain time
	c.start(conf)
	j := c.waitState(id, "delivered", patience)
	if len(j.Ledger) != 1 || j.Ledger[0].Class != "delivered" {
		t.Errorf("ledger is %+v, want one delivered row", j.Ledger)
	}
	holds(t, time.Second, "one delivery only", func() bool { return up.count() == 1 })
}

// patientSite leaves a delivery all the time that it wants.
func patientSite(u *upstream) string {
	return fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\ttimeout 1h\n\t\t}\n\t}", secret, u.addr())
}

func TestSIGTERMCutsALongDeliveryAndTheNextStartRepeatsIt(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer { return answer{hang: n%2 == 1} })
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 1s", patientSite(up))
	n := 0
	tookInTime(t, "the end with drain_timeout 1s, which is 4s by default,", 4*time.Second, func() time.Duration {
		c.start(conf)
		id := accepted(t, c.site+"/hooks", hook(n))
		up.wait(n+1, patience)
		start := time.Now()
		c.term()
		took := time.Since(start)
		c.start(conf)
		if h := up.wait(n+2, patience)[n+1]; h.jobID() != id {
			t.Errorf("the next start sent job %s, want %s", h.jobID(), id)
		}
		j := c.waitState(id, "delivered", patience)
		if len(j.Ledger) != 2 || j.Ledger[0].Class != "interrupted" || j.Ledger[1].Class != "delivered" {
			t.Errorf("ledger is %+v, want an interrupted row and a delivered one", j.Ledger)
		}
		c.term()
		n += 2
		return took
	})
}

func TestSIGTERMDoesNotBeginQueuedDeliveries(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	up := newUpstream(t, func(n int, _ hit) answer {
		if n > 1 {
			return answer{}
		}
		<-gate
		return answer{delay: 2 * time.Second} // the server says that it ends a moment before it tells the workers
	})
	open := openedAtEnd(t, gate)
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 10m\n\t\tqueue webhooks {\n\t\t\tconcurrency 1\n\t\t}", simpleSite(up))
	c.start(conf)
	for i := range 3 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	up.wait(1, patience)
	c.exiting()
	open()
	c.term()
	if n := up.count(); n != 1 {
		t.Errorf("%d deliveries had begun when the server ended, want the one under way", n)
	}
	c.start(conf)
	up.wait(3, patience)
	c.settled(patience)
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
	stalled := fmt.Sprintf("\n\tanvil /stalled stalled {\n\t\tverify hmac %q\n\t\tread_timeout 3s\n\t\tdeliver %s\n\t}", secret, up.addr())
	conf := c.caddyfile("\t\tdrain_timeout 1s", patientSite(up)+stalled)
	n := 0
	tookInTime(t, "the end with drain_timeout 1s and read_timeout 3s", 10*time.Second, func() time.Duration {
		c.start(conf)
		n++
		accepted(t, c.site+"/hooks", hook(n))
		up.wait(n, patience)
		conn := dial(t, c.site)
		_ = conn.SetDeadline(time.Time{}) // so that it is the server who ends it
		_, _ = io.WriteString(conn, strings.Replace(c.rawPost(1000, "X-Signature: "+sign(secret, nil)), "/hooks", "/stalled", 1)+"ten bytes.")
		start := time.Now()
		c.term()
		return time.Since(start)
	})
}
