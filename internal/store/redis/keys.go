package redis

import (
	"strconv"
	"strings"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// All keys of a store share one hash tag, so that in a cluster they lie in one slot and a script may change several of
// them at once: an event with jobs in two queues, or a dedupe key that must hold whatever queue its source has today.
//
//	{prefix}:meta              hash    layout, clock (the newest time that was given out), checks, touched
//	{prefix}:jobs              hash    job id → job, see lua/prelude.lua
//	{prefix}:event:<id>        string  event with its payload; once pruned only what its keys need
//	{prefix}:key:<hash>        string  end, event id, job ids; the only keys with a TTL
//	{prefix}:ledger            hash    job id → its attempts
//	{prefix}:replays           hash    event id → ids of the copies of its jobs
//	{prefix}:counts            hash    queue → unfinished jobs; lane and state → jobs
//	{prefix}:noted             hash    lane → when a configuration had it last
//	{prefix}:due:<lane>        zset    pending jobs by the time they are due
//	{prefix}:wait:<lane>       zset    pending jobs by creation
//	{prefix}:leases            zset    running jobs by the end of their lease
//	{prefix}:running           zset    running jobs by creation
//	{prefix}:claims            hash    token → jobs that it claimed
//	{prefix}:claimed           zset    tokens by the time they can be forgotten
//	{prefix}:final:<state>     zset    jobs in a final state by creation
//	{prefix}:ended:<state>:<queue>     zset    the same by their end
//	{prefix}:events            zset    events by acceptance
//	{prefix}:spent             zset    pruned events by the end of their keys
//	{prefix}:wake              channel the instance that made a job due
type keyspace struct {
	tag   string
	fixed map[string]string
}

func newKeyspace(prefix string) keyspace {
	k := keyspace{tag: "{" + prefix + "}:", fixed: map[string]string{}}
	for _, name := range []string{
		"meta", "jobs", "ledger", "replays", "counts", "noted", "leases", "running", "claims", "claimed", "events", "spent", "wake",
	} {
		k.fixed[name] = k.tag + name
	}
	return k
}

func (k *keyspace) of(name string) string { return k.fixed[name] }

func (k *keyspace) event(id event.ID) string { return k.tag + "event:" + string(id[:]) }

func (k *keyspace) due(l store.LaneID) string { return k.tag + "due:" + l.Queue + ":" + l.Endpoint }

func (k *keyspace) wait(l store.LaneID) string { return k.tag + "wait:" + l.Queue + ":" + l.Endpoint }

func (k *keyspace) final(s event.State) string { return k.tag + "final:" + s.String() }

func (k *keyspace) ended(s event.State, queue string) string {
	return k.tag + "ended:" + s.String() + ":" + queue
}

// key is where a dedupe key stands.
func (k *keyspace) key(e *event.Event, value string) string {
	sum := store.KeyHash(e, value)
	return k.tag + "key:" + string(sum[:])
}

// A lane in counts, noted and jobs is "<queue>\0<endpoint>"; neither may have a zero byte.
func laneText(l store.LaneID) string { return l.Queue + "\x00" + l.Endpoint }

func parseLane(text string) store.LaneID {
	queue, endpoint, _ := strings.Cut(text, "\x00")
	return store.LaneID{Queue: queue, Endpoint: endpoint}
}

// countField reads a field of counts. ok is false for the fields that count a whole queue.
func countField(field string) (lane string, s event.State, ok bool) {
	i := strings.LastIndexByte(field, 0)
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(field[i+1:], 10, 8)
	if err != nil || n > uint64(event.Observed) {
		return "", 0, false
	}
	return field[:i], event.State(n), true
}
