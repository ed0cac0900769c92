package e2e

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

func TestADuplicateOfADeadEventNamesItAtEveryInstanceAndItReplays(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	up := newUpstream(t, func(int, hit) answer {
		if open.Load() {
			return answer{}
		}
		return answer{status: 500}
	})
	f := startFleet(t, 2, "", numberedSite(up, "\t\t\tretry off"))
	one, two := f.members[0], f.members[1]
	id := accepted(t, f.urls()[0], hook(1))
	dead := two.waitState(id, "dead", time.Minute)
	for i, url := range f.urls() {
		if r := post(t, url, hook(1)); r.status != http.StatusAccepted || !r.Replayed || r.JobID != id {
			t.Errorf("instance %d: a copy got %d %s, want a duplicate of the dead %s", i, r.status, r.body, id)
		}
	}
	if got := two.jobs("state=dead"); len(got) != 1 || got[0].ID != id {
		t.Errorf("the other instance lists %+v as dead, want %s", got, id)
	}
	open.Store(true)
	status, fresh, _ := two.replay(id, false)
	if status != http.StatusOK {
		t.Fatalf("replay answered %d", status)
	}
	one.waitState(fresh, "delivered", time.Minute)
	// The copies of an event have nothing to do with its key: none is taken for a duplicate, however often it is replayed.
	for range 2 {
		status, again, _ := one.replay(fresh, true)
		if status != http.StatusOK {
			t.Fatalf("a forced replay answered %d", status)
		}
		j := two.waitState(again, "delivered", time.Minute)
		if j.ReplayOf != fresh || len(j.Ledger) != 1 {
			t.Errorf("the copy is %+v, want one attempt and a mark", j)
		}
	}
	hits := up.hits()
	if len(hits) != 4 {
		t.Fatalf("the upstream has %d requests, want the failure and three replays", len(hits))
	}
	for i, h := range hits {
		want := []string{"", id, fresh, fresh}[i]
		if h.header("Anvil-Event-Id") != dead.EventID || h.header("Anvil-Replay-Of") != want {
			t.Errorf("request %d is of event %s and a replay of %q, want %s and %q", i, h.header("Anvil-Event-Id"), h.header("Anvil-Replay-Of"), dead.EventID, want)
		}
	}
	if r := post(t, f.urls()[1], hook(1)); !r.Replayed || r.JobID != id {
		t.Errorf("after the replays a copy got %s, want a duplicate of %s", r.body, id)
	}
}
