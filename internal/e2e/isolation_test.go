package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestAHangingEndpointDoesNotDelayAHealthyOne(t *testing.T) {
	t.Parallel()
	hanging := newUpstream(t, func(int, hit) answer { return answer{hang: true} })
	healthy := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf(`	anvil /a slow {
		verify hmac %[1]q
		deliver %[2]s {
			timeout 1h
		}
	}
	anvil /b quick {
		verify hmac %[1]q
		deliver %[3]s
	}`, secret, hanging.addr(), healthy.addr()))
	for i := range 300 {
		accepted(t, c.site+"/a", hook(i))
	}
	// All come while the other endpoint hangs, which it does for an hour.
	n := 0
	tookInTime(t, "the 95th percentile of the healthy endpoint beside a hanging one", 2*time.Second, func() time.Duration {
		var delays []time.Duration
		for range 50 {
			start := time.Now()
			accepted(t, c.site+"/b", hook(n))
			n++
			delays = append(delays, healthy.wait(n, patience)[n-1].at.Sub(start))
		}
		slices.Sort(delays)
		return delays[47]
	})
	if n := hanging.count(); n > 8 {
		t.Errorf("the hanging endpoint holds %d deliveries, its concurrency is 8", n)
	}
}

func TestFanOutRetriesOnlyTheFailingEndpoint(t *testing.T) {
	t.Parallel()
	failing, good := newUpstream(t, statuses(500, 500, 500, 500, 500, 200)), newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf(`	anvil demo {
		verify hmac %q
		deliver %s
		deliver %s mirror {
			retry 50ms 50ms 50ms 50ms 50ms 50ms
		}
	}`, secret, good.addr(), failing.addr()))
	r := post(t, c.site, hook(1))
	if r.status != http.StatusAccepted || len(r.JobIDs) != 2 || r.JobID != r.JobIDs[0] {
		t.Fatalf("got %d %s, want a 202 with two job ids", r.status, r.body)
	}
	c.waitState(r.JobIDs[0], "delivered", patience)
	j := c.waitState(r.JobIDs[1], "delivered", patience)
	if good.count() != 1 || failing.count() != 6 || j.Endpoint != "demo/mirror" {
		t.Errorf("good has %d requests, failing %d at %s; want 1 and 6 at demo/mirror", good.count(), failing.count(), j.Endpoint)
	}
	for i, h := range failing.hits() {
		if h.jobID() != r.JobIDs[1] || h.header("Anvil-Attempt") != strconv.Itoa(i+1) || j.Ledger[i].Number != i+1 {
			t.Errorf("attempt %d came as job %s number %s, ledger number %d", i+1, h.jobID(), h.header("Anvil-Attempt"), j.Ledger[i].Number)
		}
	}
}

func TestAnEndlessAnswerHoldsNoWorkerAndNoMemory(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(int, hit) answer { return answer{endless: true} })
	c := startCaddy(t, simpleSite(up))
	before := c.memory()
	for i := range 40 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	c.settled(patience)
	if states, _ := c.stats(); states["delivered"] != 40 || up.count() != 40 {
		t.Errorf("stats are %v after %d requests; a 200 with an endless body is delivered", states, up.count())
	}
	if grown := c.memory() - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	snippets := 0
	for id := range up.jobHits() {
		j := c.job(id)
		if len(j.Ledger) != 1 || len(j.Ledger[0].Snippet) > 512 {
			t.Errorf("ledger is %+v, want one row with a cut snippet", j.Ledger)
			continue
		}
		if j.Ledger[0].Snippet != "" {
			snippets++
		}
	}
	if snippets == 0 { // the time for reading may be over before a busy machine has begun to, but not in all of them
		t.Error("no ledger has a snippet")
	}
}

func TestA2xxIsDeliveredEvenIfItsBodyNeverComes(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(int, hit) answer { return answer{stall: true} })
	c := startCaddy(t, simpleSite(up))
	id := accepted(t, c.site+"/hooks", hook(1))
	if j := c.waitState(id, "delivered", patience); len(j.Ledger) != 1 || j.Ledger[0].Status != 200 {
		t.Errorf("ledger is %+v", j.Ledger)
	}
}

func TestConnectionFailuresAreAttemptsWithTheirClass(t *testing.T) {
	t.Parallel()
	silent := newUpstream(t, func(int, hit) answer { return answer{hang: true} })
	resetting := newUpstream(t, func(int, hit) answer { return answer{reset: true} })
	elsewhere := newUpstream(t, nil)
	moved := newUpstream(t, func(int, hit) answer {
		return answer{status: 307, header: []string{"Location: " + elsewhere.url() + "/"}}
	})
	gone := newUpstream(t, statuses(410))
	cases := []struct{ name, upstream, class, reason string }{
		{"refused", fmt.Sprintf("127.0.0.1:%d", freePort(t)), "connect", "attempts_exhausted"},
		{"noname", "no-such-name.invalid:80", "dns", "attempts_exhausted"},
		{"silent", silent.addr(), "timeout", "attempts_exhausted"},
		{"reset", resetting.addr(), "reset", "attempts_exhausted"},
		{"plain", "https://" + silent.addr(), "tls", "attempts_exhausted"},
		{"moved", moved.addr(), "status", "attempts_exhausted"},
		{"gone", gone.addr(), "status", "gone"},
	}
	site := ""
	for _, k := range cases {
		timeout := "1m"
		if strings.HasSuffix(k.upstream, silent.addr()) {
			timeout = "1s"
		}
		site += fmt.Sprintf("\tanvil /%s %s {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\ttimeout %s\n\t\t\tretry 100ms\n\t\t}\n\t}\n", k.name, k.name, secret, k.upstream, timeout)
	}
	c := startCaddy(t, site)
	for _, k := range cases {
		id := accepted(t, c.site+"/"+k.name, hook(1))
		j := c.waitState(id, "dead", patience)
		want := 2
		if k.reason == "gone" {
			want = 1
		}
		if len(j.Ledger) != want || j.DeadReason != k.reason {
			t.Errorf("%s: %d rows, dead of %s; want %d, %s", k.name, len(j.Ledger), j.DeadReason, want, k.reason)
		}
		for _, row := range j.Ledger {
			if row.Class != k.class {
				// A server that speaks no TLS may look like a hang or a reset, by what its bytes look like.
				if k.name == "plain" && (row.Class == "timeout" || row.Class == "reset") {
					continue
				}
				t.Errorf("%s: class %s (%s), want %s", k.name, row.Class, row.Error, k.class)
			}
		}
	}
	if n := elsewhere.count(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

func TestAttemptsFollowTheScheduleAndRetryAfter(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer {
		if n == 2 {
			return answer{status: 503, header: []string{"Retry-After: 3"}}
		}
		return answer{status: 500}
	})
	c := startCaddy(t, fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\tretry 500ms 500ms 2s\n\t\t}\n\t}", secret, up.addr()))
	id := accepted(t, c.site, hook(1))
	j := c.waitState(id, "dead", patience)
	hits := up.hits()
	if len(hits) != 4 || j.FailureContext == nil || j.FailureContext.Attempts != 4 {
		t.Fatalf("%d requests, failure context %+v; want 4 attempts", len(hits), j.FailureContext)
	}
	// How much later than planned an attempt comes depends on the machine, so the plan is read from the log.
	for i, want := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 2 * time.Second} {
		c.logged("attempt failed", id, fmt.Sprintf(`"attempt":%d,`, i+1), fmt.Sprintf(`"next_retry":%q`, want))
		if gap := hits[i+1].at.Sub(hits[i].at); gap < want-50*time.Millisecond {
			t.Errorf("gap %d is %s, want %s", i+1, gap, want)
		}
	}
}

func TestConnectionsToTheUpstreamAreUsedAgain(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	for i := range 500 {
		accepted(t, c.site+"/hooks", hook(i), "Idempotency-Key", strconv.Itoa(i))
	}
	c.settled(patience)
	// A pause of some seconds closes those that are idle, so a busy machine opens some anew.
	if up.count() != 500 || up.connections() > 100 {
		t.Errorf("%d requests over %d connections, want 500 over at most 100", up.count(), up.connections())
	}
}

// An upstream that closes its idle connections must cost at most an attempt, and never a silent second POST.
func TestAnIdleConnectionClosedByTheUpstreamRepeatsNothingSilently(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer { return answer{reset: n == 2} })
	c := startCaddy(t, fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\tretry 100ms 100ms\n\t\t}\n\t}", secret, up.addr()))
	c.waitState(accepted(t, c.site, hook(1), "Idempotency-Key", "one"), "delivered", patience)
	id := accepted(t, c.site, hook(2), "Idempotency-Key", "two")
	j := c.waitState(id, "delivered", patience)
	if got := up.jobHits()[id]; got != len(j.Ledger) {
		t.Errorf("the upstream has %d requests of the job, its ledger %d rows", got, len(j.Ledger))
	}
}

func TestTheUpstreamsPathReplacesTheEventsOwn(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf(`	anvil /in/* demo {
		verify hmac %[1]q
		deliver %[2]s own
		deliver %[2]s/ root
		deliver %[2]s/fixed?a=1 fixed
	}`, secret, up.url()))
	r := post(t, c.site+"/in/x%2Fy?b=2", hook(1))
	want := []string{"/in/x%2Fy?b=2", "/", "/fixed?a=1"}
	for _, h := range up.wait(3, patience) {
		i := slices.Index(r.JobIDs, h.jobID())
		if i < 0 || h.uri() != want[i] {
			t.Errorf("endpoint %d got %q, want %q", i, h.uri(), want[max(i, 0)])
		}
	}
}
