package redistest

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Move is the migration of one slot from its master to another. While it lasts, each key of the slot is at one of the
// two, and clients are sent from one to the other by ASK and TRYAGAIN.
type Move struct {
	t        testing.TB
	c        *Cluster
	slot     int
	from, to *Server
}

// moveBatch is how many keys one MIGRATE carries at most: it blocks both masters.
const moveBatch = 100

// MoveSlot migrates the slot of key, with all its data, to the master to and returns when every node says so.
func (c *Cluster) MoveSlot(t testing.TB, key string, to *Server) {
	t.Helper()
	c.BeginMove(t, key, to).EndMove()
}

// BeginMove declares the migration of the slot of key to the master to, and moves no key yet.
func (c *Cluster) BeginMove(t testing.TB, key string, to *Server) *Move {
	t.Helper()
	m := &Move{t: t, c: c, slot: c.Slot(key), from: c.MasterOf(key), to: to}
	if m.from == to {
		t.Fatalf("moving slot %d: it is at %s already", m.slot, to.Addr())
	}
	m.to.Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", nodeID(m.from))
	m.from.Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", nodeID(m.to))
	return m
}

// MoveKeys moves up to n keys and returns how many there were to move; fewer than n means that none is left.
func (m *Move) MoveKeys(n int) int {
	m.t.Helper()
	moved := 0
	for moved < n {
		want := min(n-moved, moveBatch)
		keys, _ := m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, want).([]any)
		if len(keys) > 0 {
			m.migrate(keys)
		}
		moved += len(keys)
		if len(keys) < want {
			break
		}
	}
	return moved
}

func (m *Move) migrate(keys []any) {
	m.t.Helper()
	args := []any{"MIGRATE", "127.0.0.1", m.to.port, "", 0, 5000}
	if m.to.password != "" {
		args = append(args, "AUTH", m.to.password)
	}
	m.from.Do(append(append(args, "KEYS"), keys...)...)
}

// EndMove moves the keys that are left, makes the new master the owner and returns when every node that answers says so.
func (m *Move) EndMove() {
	m.t.Helper()
	for m.MoveKeys(moveBatch) == moveBatch {
	}
	id := nodeID(m.to)
	m.to.Do("CLUSTER", "SETSLOT", m.slot, "NODE", id)
	m.from.Do("CLUSTER", "SETSLOT", m.slot, "NODE", id)
	m.to.await(fmt.Sprintf("all nodes to name it the master of slot %d", m.slot), func() bool {
		now, unanimous := m.c.named(func(r redis.ClusterSlot) bool { return r.Start <= m.slot && m.slot <= r.End })
		return now == m.to && unanimous
	})
}
