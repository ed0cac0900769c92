package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// crowd stores foreign values of a size until the memory in use reaches a part of maxmemory; a part above 1 ends at the
// first refusal. It returns the keys.
func crowd(t *testing.T, r *redistest.Server, size int, part float64) []string {
	t.Helper()
	ctx := context.Background()
	value := strings.Repeat("x", size)
	var keys []string
	for {
		used, err := strconv.ParseFloat(r.Info("memory", "used_memory"), 64)
		if err != nil {
			t.Fatal(err)
		}
		most, err := strconv.ParseFloat(r.Info("memory", "maxmemory"), 64)
		if err != nil {
			t.Fatal(err)
		}
		if used >= part*most {
			return keys
		}
		key := fmt.Sprintf("foreign:%d:%d", size, len(keys))
		switch err := r.Client().Set(ctx, key, value, 0).Err(); {
		case err != nil && strings.HasPrefix(err.Error(), "OOM"):
			return keys
		case err != nil:
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
}

func free(r *redistest.Server, keys []string) {
	for _, key := range keys {
		r.Do("DEL", key)
	}
}

func TestAFullRedisRefusesNewWebhooksAndFinishesTheStoredOnes(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	up := newUpstream(t, func(int, hit) answer {
		if open.Load() {
			return answer{}
		}
		return answer{status: 500}
	})
	f := newFleet(t, 2, "--maxmemory", "24mb", "--maxmemory-policy", "noeviction")
	site := fmt.Sprintf(`	anvil /hooks demo {
		verify hmac %[1]q
		deliver %[2]s {
			retry exponential {
				base 500ms
				cap 1s
				attempts 100
			}
		}
	}
	anvil /once once {
		verify hmac %[1]q
		deliver %[2]s {
			retry off
		}
	}
	anvil_health /health`, secret, up.url())
	for i, c := range f.members {
		f.run(i, c.caddyfile(f.global(""), site))
	}
	one, two := f.members[0], f.members[1]
	const n = 20
	acked := map[string]int{}
	for i := range n {
		acked[accepted(t, f.urls()[i%2], hook(i))] = i
	}
	dead := accepted(t, one.site+"/once", hook(n))
	one.waitState(dead, "dead", time.Minute)

	// What memory there is is looked at while webhooks come in, so the first ones may still be taken.
	extra := n
	refused := func(when string) {
		t.Helper()
		for _, c := range f.members {
			var r response
			waitFor(t, time.Minute, when+": a refusal", func() bool {
				extra++
				r = post(t, c.site+"/hooks", hook(extra))
				if r.status == http.StatusAccepted {
					acked[r.JobID] = extra
				}
				return r.status != http.StatusAccepted
			})
			if r.status != http.StatusServiceUnavailable || r.Error != "store_full" || r.header.Get("Retry-After") == "" {
				t.Errorf("%s: got %d %s, Retry-After %q; want 503 store_full with a time", when, r.status, r.body, r.header.Get("Retry-After"))
			}
		}
	}
	crowd(t, f.redis, 64<<10, 0.93)
	refused("above nine tenths")
	f.redis.Do("SET", "foreign:small", "there is room for others still")
	large := crowd(t, f.redis, 64<<10, 2)
	small := crowd(t, f.redis, 64, 2) // the last holes
	refused("at the limit")

	// At the limit, deliveries go on: claims, failures, renewals, ends and replays need no room to begin.
	before := up.count()
	up.wait(before+2*n, time.Minute)
	open.Store(true)
	status, fresh, reason := two.replay(dead, false)
	if status != http.StatusOK {
		t.Errorf("replay at the limit answered %d %s", status, reason)
	}
	one.settled(2 * time.Minute)
	delivered := map[string]bool{}
	for _, h := range up.hits()[before:] {
		delivered[h.jobID()] = true
	}
	for id, i := range acked {
		if !delivered[id] {
			t.Errorf("event %d was acknowledged as job %s and never arrived", i, id)
		}
	}
	if !delivered[fresh] {
		t.Errorf("the replay %s never arrived", fresh)
	}
	if states, _ := two.stats(); states["dead"] != 0 || states["replayed"] != 1 {
		t.Errorf("stats are %v, want nothing dead and one replayed", states)
	}

	free(f.redis, large)
	free(f.redis, small)
	waitFor(t, time.Minute, "webhooks being accepted again at both", func() bool {
		extra++
		return post(t, one.site+"/hooks", hook(extra)).status == http.StatusAccepted &&
			post(t, two.site+"/once", hook(extra)).status == http.StatusAccepted
	})
}
