package e2e

import (
	"net/http"
	"testing"
	"time"
)

// Redis forgets its scripts at each restart and failover, and when an operator asks it to.
func TestFlushingScriptsUnderLoadIsNotNoticed(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, r := startPatient(t, simpleSite(up), durable...)
	l := startLoad(c.site+"/hooks", 8, 5*time.Millisecond)
	for range 20 {
		enough := l.count() + 20
		waitFor(t, time.Minute, "events being acknowledged", func() bool { return l.count() >= enough })
		r.Do("SCRIPT", "FLUSH")
	}
	acked := l.stop()
	if l.unheard != 0 || len(l.refused) != 0 {
		t.Errorf("%d without an answer, refused by status: %v", l.unheard, l.refused)
	}
	c.settled(time.Minute)
	allArrived(t, up, acked)
	noneTwice(t, up)
	sane(t, c)
}

// A Redis that became a replica, by a failover or by mistake, answers reads and refuses writes.
func TestARedisThatBecameAReplicaIsUsedAgainOnceItIsAMaster(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, r := startOnRedis(t, healthSite(up), durable...)
	l := startLoad(c.site+"/hooks", 4, 10*time.Millisecond)
	waitFor(t, time.Minute, "events being acknowledged", func() bool { return l.count() >= 100 })
	// Nobody is there to replicate from, so that the data stay.
	r.Do("REPLICAOF", "127.0.0.1", freePort(t))
	var replica span
	replica.from = time.Now()
	refusedInTime(t, c, hook(-1))
	waitFor(t, time.Minute, "readiness turning to 503", func() bool { return c.status("/ready") == http.StatusServiceUnavailable })
	refused := l.refusals()
	waitFor(t, time.Minute, "refusals of all senders", func() bool { return l.refusals() >= refused+20 })
	c.rests("while Redis is a replica")
	replica.to = time.Now()
	r.Do("REPLICAOF", "NO", "ONE")
	c.delivers("/hooks", hook(-1), time.Minute)
	acked := l.stop()
	for id, request := range l.when {
		if request.from.After(replica.from) && request.to.Before(replica.to) {
			t.Errorf("a replica has acknowledged event %d", acked[id])
		}
	}
	c.settled(time.Minute)
	allArrived(t, up, acked)
	noneTwice(t, up)
	sane(t, c)
	waitFor(t, time.Minute, "readiness", func() bool { return c.status("/ready") == http.StatusOK })
}
