package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestSixtyCopiesOverTwoInstancesAreOneDelivery(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	f := startFleet(t, 2, "", numberedSite(up, ""))
	urls := f.urls()
	answers := make([]response, 60)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			r, err := sendSigned(urls[i%2], hook(1))
			if err != nil {
				t.Errorf("copy %d: %v", i, err)
			}
			answers[i] = r
		})
	}
	wg.Wait()
	fresh := 0
	for i, r := range answers {
		if r.status != http.StatusAccepted || r.JobID != answers[0].JobID {
			t.Errorf("copy %d: got %d %s, want 202 with job %s", i, r.status, r.body, answers[0].JobID)
		}
		if !r.Replayed {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d copies were taken as new, want 1", fresh)
	}
	f.members[0].settled(time.Minute)
	if n := up.count(); n != 1 {
		t.Errorf("the upstream has %d requests, want 1", n)
	}
	for i, c := range f.members {
		if n := len(c.events("")); n != 1 {
			t.Errorf("instance %d lists %d events, want 1", i, n)
		}
	}
}

func TestInstancesUnderLoadSendNoJobTwice(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d instances", n), func(t *testing.T) {
			t.Parallel()
			// Some deliveries outlast the rest between two looks for lost attempts.
			up := newUpstream(t, func(n int, _ hit) answer {
				if n%50 == 0 {
					return answer{delay: 6 * time.Second}
				}
				return answer{delay: time.Duration(n%7) * 15 * time.Millisecond}
			})
			f := startFleet(t, n, "", numberedSite(up, ""))
			l := startLoadOver(f.urls(), 8, 10*time.Millisecond)
			l.waitMore(t, 500)
			acked := l.stop()
			f.members[0].settled(2 * time.Minute)
			allArrived(t, up, acked)
			noneTwice(t, up)
			if len(l.refused) > 0 || l.unheard > 0 {
				t.Errorf("refused by status: %v, without an answer: %d", l.refused, l.unheard)
			}
			for i, c := range f.members {
				if states, _ := c.stats(); states["delivered"] != len(acked) {
					t.Errorf("instance %d says %v, %d events were acknowledged", i, states, len(acked))
				}
			}
			t.Logf("%d delivered, by instance: %v", len(acked), shares(up))
		})
	}
}

func TestInstancesWithEqualSlotsShareABacklog(t *testing.T) {
	t.Parallel()
	const instances, slots, n = 3, 4, 20 * 3 * 4
	// All slots of all instances have to be taken before any job is done, so an instance that takes too few holds up all.
	var rounds [n/(instances*slots) + 1]chan struct{}
	for i := range rounds {
		rounds[i] = make(chan struct{})
	}
	gone := make(chan struct{})
	up := newUpstream(t, func(n int, _ hit) answer {
		round := min((n-1)/(instances*slots), len(rounds)-1)
		if n%(instances*slots) == 0 {
			close(rounds[round])
		}
		select {
		case <-rounds[round]:
		case <-gone:
		}
		return answer{}
	})
	openedAtEnd(t, gone)
	f := startFleet(t, instances, "", numberedSite(up, fmt.Sprintf("\t\t\ttimeout 60s\n\t\t\tconcurrency %d", slots)))
	// One instance takes them all in.
	var wg sync.WaitGroup
	for s := range 10 {
		wg.Go(func() {
			for i := s; i < n; i += 10 {
				if r, err := sendSigned(f.urls()[0], hook(i)); err != nil || r.status != http.StatusAccepted {
					t.Errorf("event %d: %d %s, %v", i, r.status, r.body, err)
				}
			}
		})
	}
	wg.Wait()
	f.members[1].settled(2 * time.Minute)
	if got := up.count(); got != n {
		t.Errorf("the upstream has %d requests, want %d", got, n)
	}
	got := shares(up)
	t.Logf("deliveries by instance: %v", got)
	for i := range f.members {
		if share := got[strconv.Itoa(i)]; share != n/instances {
			t.Errorf("instance %d delivered %d of %d, want a third: %v", i, share, n, got)
		}
	}
}
