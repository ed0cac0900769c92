package redistest

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of three masters with a replica each. A master that does not answer for five seconds is
// replaced by its replica; a busy machine must not have one that lives replaced.
type Cluster struct {
	Servers []*Server // the three first masters, then their replicas in the same order

	t testing.TB
}

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// StartCluster runs six processes that end with the test, and returns when all of them see the whole cluster. The args are
// those of each node; a --requirepass among them is also used between the nodes.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	need(t)
	// CLUSTER SLOTS leaves out a replica that has received nothing yet, and by default the first ping comes after 10 s.
	own := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--repl-ping-replica-period", "1"}
	if password := option(args, "--requirepass"); password != "" {
		own = append(own, "--masterauth", password)
	}
	c := &Cluster{t: t}
	for i := range 2 * clusterMasters {
		s, err := run(serverBinary, t.TempDir(), true, "", append(own, args...))
		if err != nil {
			t.Fatal(err)
		}
		s.belongTo(t)
		c.Servers = append(c.Servers, s)
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1) // else masters spend the first seconds agreeing on distinct ones
	}
	for i, s := range c.Servers[:clusterMasters] {
		slots := []any{"CLUSTER", "ADDSLOTS"}
		for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
			slots = append(slots, slot)
		}
		s.Do(slots...)
	}
	for i, s := range c.Servers {
		for _, other := range c.Servers[:i] {
			s.Do("CLUSTER", "MEET", "127.0.0.1", other.port)
		}
	}
	for i, s := range c.Servers[clusterMasters:] {
		master := nodeID(c.Servers[i])
		s.await("the node's meeting with its master", func() bool {
			return s.client.ClusterReplicate(context.Background(), master).Err() == nil
		})
	}
	for _, s := range c.Servers {
		s.await("the whole cluster in the eyes", func() bool { return seesAll(s) })
	}
	return c
}

func nodeID(s *Server) string { return fmt.Sprint(s.Do("CLUSTER", "MYID")) }

// seesAll reports whether a node serves and would tell a client of every slot, master and replica.
func seesAll(s *Server) bool {
	ctx := context.Background()
	info, err := s.client.ClusterInfo(ctx).Result()
	if err != nil || infoField(info, "cluster_state") != "ok" {
		return false
	}
	ranges, err := s.client.ClusterSlots(ctx).Result() //nolint:staticcheck // its successor needs Redis 7
	if err != nil {
		return false
	}
	seen := 0
	for _, r := range ranges {
		if len(r.Nodes) == 2 {
			seen += r.End - r.Start + 1
		}
	}
	replication, err := s.info("replication")
	return err == nil && seen == clusterSlots && (infoField(replication, "role") == "master" || infoField(replication, "master_link_status") == "up")
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Servers) }

// Slot is the hash slot of the key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	var slot int64
	answered := poll(startTimeout, func() bool {
		for _, s := range running(c.Servers) {
			ctx, cancel := lookContext()
			var err error
			slot, err = s.client.ClusterKeySlot(ctx, key).Result()
			cancel()
			if err == nil {
				return true
			}
		}
		return false
	})
	if !answered {
		c.t.Fatal("asking the cluster for a slot: no node answers")
	}
	return int(slot)
}

// MasterOf is the server that most nodes name as master of the key's slot. A master that just died may still be it.
func (c *Cluster) MasterOf(key string) *Server {
	c.t.Helper()
	slot := c.Slot(key)
	var owner *Server
	named := poll(startTimeout, func() bool {
		owner, _ = c.named(func(r redis.ClusterSlot) bool { return r.Start <= slot && slot <= r.End })
		return owner != nil
	})
	if !named {
		c.t.Fatalf("asking the cluster for the master of slot %d: most nodes name none", slot)
	}
	return owner
}

// Masters are the servers that most nodes name as masters of slots, in the order of Servers.
func (c *Cluster) Masters() []*Server {
	c.t.Helper()
	var masters []*Server
	for _, s := range c.Servers {
		if m, _ := c.named(func(r redis.ClusterSlot) bool { return r.Nodes[0].Addr == s.Addr() }); m != nil {
			masters = append(masters, s)
		}
	}
	return masters
}

// named is the master of the ranges that are wanted, as most of the nodes that answer see it, or nil, and whether all of
// them do.
func (c *Cluster) named(wanted func(redis.ClusterSlot) bool) (master *Server, unanimous bool) {
	votes, answers := map[string]int{}, 0
	for _, s := range running(c.Servers) {
		ctx, cancel := lookContext()
		ranges, err := s.client.ClusterSlots(ctx).Result() //nolint:staticcheck // its successor needs Redis 7
		cancel()
		if err != nil {
			continue
		}
		answers++
		for _, r := range ranges {
			if len(r.Nodes) > 0 && wanted(r) {
				votes[r.Nodes[0].Addr]++
				break // a master with several ranges has one vote
			}
		}
	}
	for _, s := range c.Servers {
		if n := votes[s.Addr()]; 2*n > answers {
			return s, n == answers
		}
	}
	return nil, false
}
