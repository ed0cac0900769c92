package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// keysOf walks the keys of a prefix; the others are counted.
func keysOf(t *testing.T, r *redistest.Server, prefix string) (keys []string, others int) {
	t.Helper()
	ctx := context.Background()
	walk := r.Client().Scan(ctx, 0, "*", 1000).Iterator()
	for walk.Next(ctx) {
		if strings.HasPrefix(walk.Val(), "{"+prefix+"}:") {
			keys = append(keys, walk.Val())
		} else {
			others++
		}
	}
	if err := walk.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.Compact(keys), others // a walk may show a key twice
}

func TestTwoDeploymentsOnOneDatabaseNeverMeet(t *testing.T) {
	t.Parallel()
	ups := []*upstream{newUpstream(t, nil), newUpstream(t, nil)}
	// Both have the same sources, endpoints and queues; the first forgets soon.
	words := []string{"\t\tqueue webhooks {\n\t\t\tretain delivered 1s\n\t\t\tretain cancelled 1s\n\t\t}", ""}
	f := newFleet(t, 2)
	conf := func(i int, more string) string {
		return f.members[i].caddyfile(redisStore(f.redis.Addr(), patient, fmt.Sprintf("prefix p%d", i+1))+"\n"+more+words[i], simpleSite(ups[i]))
	}
	for i := range f.members {
		f.run(i, conf(i, ""))
	}
	one, two := f.members[0], f.members[1]
	const n = 5
	for i := range n {
		accepted(t, one.site+"/hooks", hook(i)) // fresh for each deployment
		accepted(t, two.site+"/hooks", hook(i))
	}
	one.settled(time.Minute)
	two.settled(time.Minute)
	for i, u := range ups {
		if got := u.count(); got != n {
			t.Errorf("upstream %d has %d requests, want %d", i+1, got, n)
		}
		noneTwice(t, u)
	}
	two.mustReload(conf(1, "\t\tworkers off\n"))
	client.CloseIdleConnections() // the reload ends them, maybe just when a request is on its way
	waiting := accepted(t, two.site+"/hooks", hook(n))
	jobs := two.jobs("")
	before, _ := keysOf(t, f.redis, "p2")

	for _, j := range jobs {
		if status, _ := one.call(http.MethodGet, "/anvil/jobs/"+j.ID, ""); status != http.StatusNotFound {
			t.Errorf("the first deployment answers %d for a job of the second", status)
		}
	}
	for _, path := range []string{"/anvil/jobs/" + waiting + "/cancel", "/anvil/replay"} {
		if status, text := one.call(http.MethodPost, path, `{"jobId":"`+waiting+`","force":true}`); !strings.Contains(text, "false") && status < 400 {
			t.Errorf("%s of the second deployment's job at the first: %d %s", path, status, text)
		}
	}
	// With the first one's last job go its keys in lists and counts, while the dedupe keys live.
	waitFor(t, time.Minute, "the first deployment forgetting its jobs", func() bool { return len(one.jobs("")) == 0 })
	if got := ids(two.jobs("")); !slices.Equal(got, ids(jobs)) {
		t.Errorf("the second deployment has the jobs %v, had %v", got, ids(jobs))
	}
	if j := two.job(waiting); j.State != "pending" {
		t.Errorf("the waiting job of the second is %s", j.State)
	}
	for _, j := range jobs {
		if got := two.event(j.EventID); len(got.Body) == 0 || len(got.Jobs) != 1 {
			t.Errorf("event %s of the second is %+v", j.EventID, got)
		}
	}
	after, _ := keysOf(t, f.redis, "p2")
	if !slices.Equal(before, after) {
		t.Errorf("keys of the second were %q, are %q", before, after)
	}
	if _, strangers := keysOf(t, f.redis, "p1"); strangers != len(after) {
		t.Errorf("%d keys are neither of p1 nor of p2", strangers-len(after))
	}

	two.mustReload(conf(1, ""))
	two.waitState(waiting, "delivered", time.Minute)
	if got := ups[0].count(); got != n {
		t.Errorf("the first upstream has %d requests, want %d", got, n)
	}
	if r := post(t, one.site+"/hooks", hook(0)); !r.Replayed {
		t.Error("the first deployment has forgotten a key with its job")
	}
}
