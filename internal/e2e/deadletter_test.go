package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func deadSite(u *upstream) string {
	return fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\tretry 100ms\n\t\t}\n\t}", secret, u.url()+"/in?token=canary-token")
}

func TestADeadJobIsListedReplayedAndDelivered(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer {
		switch {
		case n <= 2:
			return answer{status: 500, body: "no " + strings.Repeat("é", 600)}
		case n == 3:
			return answer{status: 502}
		}
		return answer{}
	})
	c := startCaddy(t, deadSite(up))
	body := []byte("{ \"odd\" : 1152921506151679042 }\n")
	id := accepted(t, c.site+"/hooks", body)
	old := c.waitState(id, "dead", patience)
	if old.DeadReason != "attempts_exhausted" || old.FailureContext == nil || old.FailureContext.Attempts != 2 {
		t.Errorf("the dead job is %+v", old)
	}
	if old.FailureContext != nil && (old.FailureContext.LastError == "" || len(old.FailureContext.LastError) > 512) {
		t.Errorf("last error is %q", old.FailureContext.LastError)
	}
	dead := c.jobs("state=dead")
	if len(dead) != 1 || dead[0].ID != id {
		t.Fatalf("the list of dead jobs is %+v, want %s", dead, id)
	}

	status, fresh, _ := c.replay(id, false)
	if status != http.StatusOK || fresh == id || len(fresh) != 36 {
		t.Fatalf("replay answered %d with job %q", status, fresh)
	}
	j := c.waitState(fresh, "delivered", patience)
	// The copy has a schedule of its own, so one more failure does not end it.
	if len(j.Ledger) != 2 || j.Ledger[0].Number != 1 || j.ReplayOf != id || j.EventID != old.EventID || j.FailureContext != nil {
		t.Errorf("the copy is %+v", j)
	}
	if got := c.job(id); got.State != "replayed" || len(got.Ledger) != 2 {
		t.Errorf("the old job is %s with %d rows, want replayed with 2", got.State, len(got.Ledger))
	}
	for _, h := range up.hits() {
		if !bytes.Equal(h.body, body) || h.header("Anvil-Event-Id") != old.EventID {
			t.Errorf("an attempt carried the body %q, event %s", h.body, h.header("Anvil-Event-Id"))
		}
		if of := h.header("Anvil-Replay-Of"); (h.jobID() == fresh && of != id) || (h.jobID() == id && of != "") {
			t.Errorf("job %s came as a replay of %q", h.jobID(), of)
		}
	}
	if e := c.event(old.EventID); len(e.Jobs) != 2 {
		t.Errorf("the event has %d jobs, want the old and its copy", len(e.Jobs))
	}
}

func TestReplayRefusesWhatIsNotDead(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	id := accepted(t, c.site+"/hooks", hook(1))
	c.waitState(id, "delivered", patience)
	const unknown = "01890000-0000-7000-8000-000000000000"
	if status, given, reason := c.replay(unknown, false); status != http.StatusNotFound || given != unknown || reason == "" {
		t.Errorf("an unknown job: %d %q %q, want 404 with its id and a reason", status, given, reason)
	}
	if status, given, reason := c.replay(id, false); status != http.StatusConflict || given != id || reason == "" {
		t.Errorf("a delivered job: %d %q %q, want 409 with its id and a reason", status, given, reason)
	}
	for _, body := range []string{"", "{", `{"jobId":"nonsense"}`, `{"jobId":""}`, `[]`, `{"jobId":"` + id + `","forse":true}`} {
		if status, text := c.call(http.MethodPost, "/anvil/replay", body); status < 400 || status > 404 {
			t.Errorf("replay of %q answered %d %s", body, status, text)
		}
	}
	for want := 2; want <= 3; want++ {
		if status, fresh, _ := c.replay(id, true); status != http.StatusOK {
			t.Errorf("forced replay answered %d", status)
		} else {
			c.waitState(fresh, "delivered", patience)
		}
		if n := up.count(); n != want {
			t.Errorf("the upstream has %d requests, want %d", n, want)
		}
	}
	if state := c.job(id).State; state != "delivered" {
		t.Errorf("the forced job is %s, want delivered still", state)
	}
}

func TestCancelEndsAPendingJobOnly(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tworkers off", simpleSite(up)))
	id := accepted(t, c.site+"/hooks", hook(1))
	other := accepted(t, c.site+"/hooks", hook(2))
	if !c.cancel(id) || c.cancel(id) {
		t.Error("cancel must be true once and false afterwards")
	}
	c.mustReload(c.caddyfile("", simpleSite(up)))
	c.waitState(other, "delivered", patience)
	if c.cancel(other) {
		t.Error("a delivered job was cancelled")
	}
	if h := up.hits(); len(h) != 1 || h[0].jobID() != other {
		t.Errorf("the upstream has %d requests, want only the other job's", len(h))
	}
	if state := c.job(id).State; state != "cancelled" {
		t.Errorf("the job is %s", state)
	}
	if status, _ := c.call(http.MethodPost, "/anvil/jobs/01890000-0000-7000-8000-000000000000/cancel", ""); status != http.StatusNotFound {
		t.Errorf("cancel of an unknown job answered %d", status)
	}
}

func TestWithWorkersOffEventsAreTakenReplayedAndNotSent(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, statuses(500, 200))
	c := newInstance(t)
	site := fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\tretry off\n\t\t}\n\t}", secret, up.addr())
	c.start(c.caddyfile("", site))
	id := accepted(t, c.site+"/hooks", hook(1))
	c.waitState(id, "dead", patience)
	c.mustReload(c.caddyfile("\t\tworkers off", site))
	status, fresh, _ := c.replay(id, false)
	if status != http.StatusOK {
		t.Fatalf("replay with workers off answered %d", status)
	}
	accepted(t, c.site+"/hooks", hook(2))
	holds(t, 1500*time.Millisecond, "nothing sent with workers off", func() bool { return up.count() == 1 })
	if state := c.job(fresh).State; state != "pending" {
		t.Errorf("the copy is %s", state)
	}
	c.mustReload(c.caddyfile("", site))
	up.wait(3, patience)
	c.waitState(fresh, "delivered", patience)
}
