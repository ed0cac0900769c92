package storetest

import (
	"fmt"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func keySpecs(it specify) {
	const ttl = time.Hour

	it("a live key makes a duplicate, which stores nothing", func(f *fixture) {
		first := f.accept(keyed(ttl, key(1)), to(hooks, hooks))
		f.wantDuplicate(webhook(keyed(ttl, key(1)), payload([]byte("other bytes"))), first)
		f.wantClaimed(f.claimAll(hooks), jobIDs(first)...)
	})

	it("an event without keys is never a duplicate", func(f *fixture) {
		f.accept()
		f.accept()
	})

	it("any one live key of several makes a duplicate", func(f *fixture) {
		first := f.accept(keyed(ttl, key(1), key(2), key(3)))
		for i := 1; i <= 3; i++ {
			f.wantDuplicate(webhook(keyed(ttl, key(10), key(i), key(11))), first)
		}
	})

	it("a duplicate claims none of its keys", func(f *fixture) {
		first := f.accept(keyed(ttl, key(1)))
		f.wantDuplicate(webhook(keyed(ttl, key(2), key(1), key(3))), first)
		f.accept(keyed(ttl, key(2)))
		f.accept(keyed(ttl, key(3)))
	})

	it("keys of two events give the ids of one of them and store nothing", func(f *fixture) {
		one, two := f.accept(keyed(ttl, key(1))), f.accept(keyed(ttl, key(2)))
		a := webhook(keyed(ttl, key(2), key(1)))
		got, err := f.store.Accept(f.Context(), a)
		f.must(err)
		if !got.Duplicate || got.EventID != one.Event.ID && got.EventID != two.Event.ID {
			f.Fatalf("answer %+v, want a duplicate of either event", got)
		}
		f.wantNothingOf(a)
	})

	it("an event that names a key twice is not its own duplicate", func(f *fixture) {
		first := f.accept(keyed(ttl, key(1), key(1)))
		f.wantDuplicate(webhook(keyed(ttl, key(1))), first)
	})

	it("keys of other sources, tenants and of unverified events never meet", func(f *fixture) {
		// Pairs that become equal when a store joins the parts without a separator, or with one of these.
		spaces := [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}}
		for _, sep := range []string{":", "/", "|", "\n", "-", "}{", "\x1f", ","} {
			spaces = append(spaces, [2]string{"a" + sep + "b", "c"}, [2]string{"a", "b" + sep + "c"})
		}
		var all []store.Accept
		for _, s := range spaces {
			for _, verified := range []bool{true, false} {
				all = append(all, f.accept(from(s[0], s[1]), keyed(ttl, key(1)), func(a *store.Accept) { a.Event.Verified = verified }))
			}
		}
		for _, first := range all {
			again := webhook(keyed(ttl, key(1)))
			again.Event.Source, again.Event.Tenant, again.Event.Verified = first.Event.Source, first.Event.Tenant, first.Event.Verified
			f.wantDuplicate(again, first)
		}
	})

	it("the end of a tenant's name is not the beginning of a key", func(f *fixture) {
		f.accept(from("a", "tenant"), keyed(ttl, "abcd"))
		f.accept(from("a", "tenantab"), keyed(ttl, "cd"))
		f.accept(from("a", ""), keyed(ttl, "01ab"))
		f.accept(from("a", "01"), keyed(ttl, "ab"), unverified)
	})

	it("endpoints and queue are no part of the key", func(f *fixture) {
		first := f.accept(keyed(ttl, key(1)))
		f.wantDuplicate(webhook(keyed(ttl, key(1)), to(store.LaneID{Queue: "slow", Endpoint: "github/ci"})), first)
	})

	for _, state := range event.States() {
		it(fmt.Sprintf("a duplicate of an event whose job is %v gets its ids", state), func(f *fixture) {
			first := f.jobIn(state, keyed(ttl, key(1)))
			f.wantDuplicate(webhook(keyed(ttl, key(1))), first)
		})
	}
}

func keyEndSpecs(it specify) {
	it("a key is free after its time and not before", func(f *fixture) {
		first := f.accept(keyed(time.Hour, key(1)))
		f.store.Advance(time.Hour - slack)
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), first)
		f.store.Advance(slack + time.Second)
		second := f.accept(keyed(time.Hour, key(1)))
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), second)
	})

	it("a duplicate does not make a key live longer", func(f *fixture) {
		first := f.accept(keyed(time.Hour, key(1)))
		f.store.Advance(50 * time.Minute)
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), first)
		f.store.Advance(20 * time.Minute)
		f.accept(keyed(time.Hour, key(1)))
	})

	it("each key has a time of its own", func(f *fixture) {
		first := f.accept(keyed(time.Hour, key(1)), keyed(9*time.Hour, key(2)))
		f.store.Advance(2 * time.Hour)
		f.accept(keyed(time.Hour, key(1)))
		f.wantDuplicate(webhook(keyed(time.Hour, key(2))), first)
	})

	for _, state := range event.States() {
		it(fmt.Sprintf("the time runs from the accept, whether or not the job is %v", state), func(f *fixture) {
			a := webhook(keyed(2*time.Hour, key(1)))
			if state == event.Observed {
				a = webhook(keyed(2*time.Hour, key(1)), observed)
			}
			f.wantFirst(a)
			f.store.Advance(time.Hour)
			f.bring(a, state)
			f.store.Advance(time.Hour - 2*slack)
			f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a)
			f.store.Advance(3 * slack)
			f.accept(keyed(time.Hour, key(1)))
		})
	}

	it("the end of a key does not touch its event", func(f *fixture) {
		a := f.accept(keyed(time.Hour, key(1)))
		f.store.Advance(48 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		if e, _ := f.event(a.Event.ID); string(e.Payload) != "payload" {
			f.Fatalf("payload is %q", e.Payload)
		}
		f.wantClaimed(f.claimAll(hooks), a.Jobs[0].ID)
	})
}
