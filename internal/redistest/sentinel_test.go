package redistest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestSentinelsPromoteAReplicaWhenTheMasterIsKilled(t *testing.T) {
	t.Parallel()
	g := StartSentinel(t)
	first := g.Master()
	if first != g.Servers[0] {
		t.Fatalf("the sentinels name %s as the first master", first.Addr())
	}
	first.Do("SET", "k", "v")
	awaitReplicas(t, first, 2)
	first.Kill()
	second := g.WaitFailover(first)
	if got := second.Do("GET", "k"); got != "v" {
		t.Errorf("the new master has %v, want v", got)
	}
	for _, s := range g.Sentinels {
		s.Kill() // or they may promote the third one meanwhile
	}
	second.Kill()
	second.Start()
	if role := second.Info("replication", "role"); role != "master" {
		t.Errorf("the promoted server is a %s again after a restart, want master", role)
	}
}

func TestAClientFindsTheMasterWithBothPasswords(t *testing.T) {
	t.Parallel()
	g := StartSentinelWithPassword(t, "of the sentinels", "--requirepass", "of redis")
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: g.MasterName(), SentinelAddrs: g.Addrs(), SentinelPassword: "of the sentinels", Password: "of redis",
	})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := g.Master().Do("GET", "k"); got != "v" {
		t.Errorf("the master has %v, want v", got)
	}
	g.Master().Kill()
	g.WaitFailover(g.Servers[0])
}
