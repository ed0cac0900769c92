package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
	"github.com/caddy-anvil/anvil/internal/store/storetest"
)

func TestConformanceOnOneServer(t *testing.T) {
	noLeaks(t)
	server := redistest.Start(t)
	storetest.Run(t, harness(redis.Options{Addr: server.Addr()}))
}

func TestConformanceWithSentinel(t *testing.T) {
	noLeaks(t)
	s := redistest.StartSentinel(t)
	storetest.Run(t, harness(redis.Options{Master: s.MasterName(), Sentinels: s.Addrs(), Replicas: 1}))
}

func TestConformanceOnACluster(t *testing.T) {
	noLeaks(t)
	c := redistest.StartCluster(t)
	storetest.Run(t, harness(redis.Options{Cluster: c.Addrs()}))
}

// harness gives each test a prefix of its own, and so in a cluster a slot of its own. The suite is about answers, so it
// waits for them where Redis is slow.
func harness(o redis.Options) storetest.Harness {
	o.AcceptTimeout = time.Minute
	return storetest.Harness{Open: func(t testing.TB) store.Store {
		t.Helper()
		o := o
		o.Prefix = strings.ReplaceAll(t.Name(), "/", ":")
		return open(t, o)
	}}
}

func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
