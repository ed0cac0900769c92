package storetest

import (
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func wakeSpecs(it specify) {
	cases := []struct {
		name   string
		before func(f *fixture) store.Lease // ends with nothing due
		then   func(f *fixture, l store.Lease)
	}{
		{"an accept", func(*fixture) (l store.Lease) { return l }, func(f *fixture, _ store.Lease) { f.accept() }},
		{"a failed attempt that is due at once", claimedJob, func(f *fixture, l store.Lease) { f.finish(failed(l, 0)) }},
		{"a job given back", claimedJob, func(f *fixture, l store.Lease) { f.release(l) }},
		{"a replay", func(f *fixture) store.Lease {
			l := claimedJob(f)
			f.finish(dead(l))
			return l
		}, func(f *fixture, l store.Lease) { f.replay(l.Job) }},
		{"a recovered life", func(f *fixture) store.Lease {
			l := claimedJob(f)
			f.store.Advance(2 * time.Hour)
			return l
		}, func(f *fixture, _ store.Lease) { f.wantRecovered(1) }},
	}
	for _, c := range cases {
		it("comes after "+c.name, func(f *fixture) {
			l := c.before(f)
			if l != (store.Lease{}) {
				f.wantWake() // of the accept
			}
			f.forgetWakes()
			c.then(f, l)
			f.wantWake()
			if len(f.claimAll(hooks)) != 1 {
				f.Fatal("woken, but no job is due")
			}
		})
	}

	it("comes for what happened while nobody listened, and holds up nobody", func(f *fixture) {
		var want []event.ID
		for range 20 {
			want = append(want, f.accept().Jobs[0].ID)
		}
		f.wantWake()
		f.wantClaimed(f.claimAll(hooks), want...)
	})
}

func claimedJob(f *fixture) store.Lease {
	f.Helper()
	f.accept()
	return f.claimOne(hooks)
}

func (f *fixture) wantWake() {
	f.Helper()
	timeout := time.NewTimer(slack)
	defer timeout.Stop()
	select {
	case <-f.store.Wake():
	case <-timeout.C:
		f.Fatal("no wake came")
	}
}

func (f *fixture) forgetWakes() {
	for {
		select {
		case <-f.store.Wake():
		default:
			return
		}
	}
}
