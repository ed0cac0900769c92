package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func lifecycleSpecs(it specify) {
	it("a store that works passes its check and says what it is", func(f *fixture) {
		f.must(f.store.Check(f.Context()))
		if f.store.Describe() == "" {
			f.Fatal("the description is empty")
		}
		if n := f.stats().Bytes; n < 0 {
			f.Fatalf("the size is %d", n)
		}
	})

	it("closing twice is fine", func(f *fixture) {
		f.must(f.store.Close())
		if err := f.store.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			f.Fatal(err)
		}
	})

	it("closing from two sides at once is fine", func(f *fixture) {
		f.parallel(2, func(int) error {
			if err := f.store.Close(); !errors.Is(err, store.ErrClosed) {
				return err
			}
			return nil
		})
	})

	it("opens again and again", func(f *fixture) {
		a := f.accept(keyed(time.Hour, key(1)))
		for range 5 {
			f.restart()
			f.must(f.store.Check(f.Context()))
		}
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a)
	})

	methods := calls()
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		call := methods[name]
		it(name+" after the close says that the store is closed", func(f *fixture) {
			l := claimedJob(f)
			f.must(f.store.Close())
			f.store.Advance(time.Second)
			f.store.Wake()
			f.wantErr(call(f.Context(), f.store, l), store.ErrClosed)
		})
		it(name+" with an ended context is done or refused with the context's error", func(f *fixture) {
			l := claimedJob(f)
			ctx, cancel := context.WithCancel(f.Context())
			cancel()
			if err := call(ctx, f.store, l); err != nil && !errors.Is(err, context.Canceled) {
				f.Fatalf("error %v, want none or %v", err, context.Canceled)
			}
			f.must(f.store.Check(f.Context()))
		})
	}

	it("transitions refused by an ended context can be sent again", func(f *fixture) {
		ended, cancel := context.WithCancel(f.Context())
		cancel()

		a := webhook(keyed(time.Hour, key(1)), to(hooks, hooks))
		_, _ = f.store.Accept(ended, a)
		f.wantFirst(a)

		c := claimOf(10, hooks)
		_, _ = f.store.Claim(ended, c)
		got, err := f.store.Claim(f.Context(), c)
		f.must(err)
		f.wantClaimed(got.Jobs, jobIDs(a)...)

		back := leaseOf(c.Token, got.Jobs[0])
		_, _ = f.store.Release(ended, back)
		f.release(back)
		f.finish(delivered(f.claimOne(hooks)))

		fin := dead(leaseOf(c.Token, got.Jobs[1]))
		_, _ = f.store.Finish(ended, fin)
		f.finish(fin)
		f.wantLedger(fin.Job, event.ClassTimeout)

		id := newID()
		_, _ = f.store.Replay(ended, fin.Job, id, false)
		f.wantReplayed(fin.Job, id, false)
		f.wantClaimed(f.claimAll(hooks), id)
	})
}

// calls are all methods that can fail. l is the lease of a running job.
func calls() map[string]func(ctx context.Context, s store.Store, l store.Lease) error {
	return map[string]func(ctx context.Context, s store.Store, l store.Lease) error{
		"accept": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, err := s.Accept(ctx, webhook(keyed(time.Hour, key(1))))
			return err
		},
		"claim": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, err := s.Claim(ctx, claimOf(1, hooks))
			return err
		},
		"renew": func(ctx context.Context, s store.Store, l store.Lease) error {
			_, err := s.Renew(ctx, []store.Lease{l}, time.Hour)
			return err
		},
		"finish": func(ctx context.Context, s store.Store, l store.Lease) error {
			_, err := s.Finish(ctx, delivered(l))
			return err
		},
		"release": func(ctx context.Context, s store.Store, l store.Lease) error {
			_, err := s.Release(ctx, l)
			return err
		},
		"cancel": func(ctx context.Context, s store.Store, l store.Lease) error {
			_, err := s.Cancel(ctx, l.Job)
			return err
		},
		"replay": func(ctx context.Context, s store.Store, l store.Lease) error {
			_, err := s.Replay(ctx, l.Job, newID(), true)
			return err
		},
		"job": func(ctx context.Context, s store.Store, l store.Lease) error {
			_, _, err := s.Job(ctx, l.Job)
			return err
		},
		"event": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, _, err := s.Event(ctx, newID())
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		},
		"jobs": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, _, err := s.Jobs(ctx, store.JobFilter{Limit: 1})
			return err
		},
		"events": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, _, err := s.Events(ctx, store.EventFilter{Limit: 1})
			return err
		},
		"stats": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, err := s.Stats(ctx)
			return err
		},
		"recover": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, err := s.Recover(ctx)
			return err
		},
		"configured": func(ctx context.Context, s store.Store, _ store.Lease) error {
			return s.Configured(ctx, []store.LaneID{hooks})
		},
		"orphans": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, err := s.Orphans(ctx, time.Hour, 10)
			return err
		},
		"prune": func(ctx context.Context, s store.Store, _ store.Lease) error {
			_, err := s.Prune(ctx, keepFor(time.Hour))
			return err
		},
		"check": func(ctx context.Context, s store.Store, _ store.Lease) error { return s.Check(ctx) },
	}
}
