package redis_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
	"github.com/caddy-anvil/anvil/internal/store/storetest"
)

func TestConformanceOnOneServer(t *testing.T) {
	server := redistest.Start(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	storetest.Run(t, harness(func() redis.Options { return redis.Options{Addr: server.Addr()} }))
}

// harness gives each test a prefix of its own.
func harness(options func() redis.Options) storetest.Harness {
	places := map[testing.TB]string{}
	return storetest.Harness{Open: func(t testing.TB) store.Store {
		t.Helper()
		if places[t] == "" {
			places[t] = t.Name()
		}
		o := options()
		o.Prefix = places[t]
		return open(t, o)
	}}
}

func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
