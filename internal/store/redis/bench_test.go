package redis_test

import (
	"sync"
	"testing"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
	"github.com/caddy-anvil/anvil/internal/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	server := redistest.Start(b, "--appendonly", "yes")
	storetest.Benchmark(b, harness(redis.Options{Addr: server.Addr()}))
}

// BenchmarkPage lists among 200,000 jobs: the newest, and a filter that matches nothing and so looks at a page's most.
func BenchmarkPage(b *testing.B) {
	s := on(b, redistest.Start(b))
	const jobs, senders = 200_000, 64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range jobs / senders {
				if _, err := s.Accept(b.Context(), webhook()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	dead := event.Dead
	for name, f := range map[string]store.JobFilter{
		"newest 100":     {Limit: 100},
		"no such tenant": {Limit: 100, Tenant: "nobody"},
		"dead":           {Limit: 100, State: &dead},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := s.Jobs(b.Context(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("events", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.Events(b.Context(), store.EventFilter{Limit: 100}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
