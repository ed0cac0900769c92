package redistest

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

func clusterClient(t *testing.T, c *Cluster, password string) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Password: password})
	t.Cleanup(func() { client.Close() })
	return client
}

// otherMaster is a master without the key.
func otherMaster(c *Cluster, key string) *Server {
	for _, s := range c.Masters() {
		if s != c.MasterOf(key) {
			return s
		}
	}
	return nil
}

func TestASlotMovesWithItsDataUnderAClient(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	client := clusterClient(t, c, "")
	const keys = 250
	for i := range keys {
		if err := client.Set(t.Context(), fmt.Sprintf("{q}:%d", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	from, to := c.MasterOf("{q}"), otherMaster(c, "{q}")
	m := c.BeginMove(t, "{q}", to)
	if n := m.MoveKeys(110); n != 110 {
		t.Errorf("moved %d keys, want 110", n)
	}
	if a, b := from.Do("DBSIZE"), to.Do("DBSIZE"); a != int64(keys-110) || b != int64(110) {
		t.Errorf("half way there are %v keys at the old and %v at the new master", a, b)
	}
	check := func(when string) {
		for i := range keys {
			if v, err := client.Get(t.Context(), fmt.Sprintf("{q}:%d", i)).Int(); v != i || err != nil {
				t.Fatalf("%s: key %d is %d, %v", when, i, v, err)
			}
		}
	}
	check("half way")
	if c.MasterOf("{q}") != from {
		t.Error("the slot has changed hands before the end")
	}
	m.EndMove()
	if c.MasterOf("{q}") != to {
		t.Error("the slot has not changed hands")
	}
	check("at the end")
	c.MoveSlot(t, "{q}", from)
	check("back again")
}

func TestAReplicaTakesOverFromAKilledClusterMaster(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, "--requirepass", "hidden")
	client := clusterClient(t, c, "hidden")
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	first := c.MasterOf("k")
	awaitReplicas(t, first, 1)
	c.MoveSlot(t, "elsewhere", otherMaster(c, "elsewhere"))
	first.Kill()
	if !poll(failoverTimeout, func() bool { return c.MasterOf("k") != first }) {
		t.Fatal("no failover")
	}
	if got := c.MasterOf("k").Do("GET", "k"); got != "v" {
		t.Errorf("the new master has %v, want v", got)
	}
}

func TestSlotHonoursHashTags(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	if c.Slot("foo") != 12182 || c.Slot("{foo}:bar") != 12182 {
		t.Errorf("slots %d and %d, want 12182", c.Slot("foo"), c.Slot("{foo}:bar"))
	}
	if n := len(c.Masters()); n != 3 {
		t.Errorf("%d masters, want 3", n)
	}
}
