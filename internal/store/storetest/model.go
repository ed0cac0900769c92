package storetest

import (
	"math/rand/v2"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

const modelLease = 10 * time.Minute

// model does random transitions and keeps what the store should say about them.
type model struct {
	*fixture
	rand   *rand.Rand
	lanes  []store.LaneID
	jobs   []event.ID // in the order of creation, so that a seed repeats a run
	lane   map[event.ID]store.LaneID
	state  map[event.ID]event.State
	leases []store.Lease
	stale  []store.Lease
}

func newModel(f *fixture) *model {
	m := &model{
		fixture: f, rand: rand.New(rand.NewPCG(1, 2)),
		lane: map[event.ID]store.LaneID{}, state: map[event.ID]event.State{},
	}
	for range 4 {
		m.lanes = append(m.lanes, f.ownLane())
	}
	return m
}

func (m *model) run(steps int) {
	m.Helper()
	weighted := []func(){m.accept, m.accept, m.accept, m.claim, m.claim, m.claim, m.finish, m.finish, m.finish, m.release, m.cancel, m.replay, m.staleFinish}
	for i := range steps {
		weighted[m.rand.IntN(len(weighted))]()
		if i%40 == 39 {
			m.store.Advance(2 * modelLease)
			m.recover()
		}
	}
}

func (m *model) add(id event.ID, lane store.LaneID) {
	m.jobs = append(m.jobs, id)
	m.lane[id], m.state[id] = lane, event.Pending
}

func (m *model) accept() {
	lanes := []store.LaneID{pick(m, m.lanes), pick(m, m.lanes)}[:1+m.rand.IntN(2)]
	a := m.fixture.accept(to(lanes...))
	for i, id := range jobIDs(a) {
		m.add(id, lanes[i])
	}
}

func (m *model) claim() {
	token, jobs := m.fixture.claim(modelLease, 1+m.rand.IntN(3), pick(m, m.lanes))
	for _, c := range jobs {
		m.move(c.Job.ID, event.Pending, event.Running)
		m.leases = append(m.leases, leaseOf(token, c))
	}
}

func (m *model) finish() {
	if l, ok := m.takeLease(); ok {
		outcomes := []store.Finish{delivered(l), dead(l), failed(l, 0)}
		fin := pick(m, outcomes)
		m.fixture.finish(fin)
		m.move(l.Job, event.Running, fin.State)
	}
}

func (m *model) release() {
	if l, ok := m.takeLease(); ok {
		m.fixture.release(l)
		m.move(l.Job, event.Running, event.Pending)
	}
}

func (m *model) staleFinish() {
	if len(m.stale) > 0 {
		if lost, err := m.store.Finish(m.Context(), delivered(pick(m, m.stale))); err != nil || !lost {
			m.Fatalf("finishing a recovered life: lost %v, %v", lost, err)
		}
	}
}

func (m *model) cancel() {
	if len(m.jobs) == 0 {
		return
	}
	id := pick(m, m.jobs)
	if m.state[id] == event.Cancelled {
		return
	}
	m.wantCancelled(id, m.state[id] == event.Pending)
	if m.state[id] == event.Pending {
		m.state[id] = event.Cancelled
	}
}

func (m *model) replay() {
	for _, id := range m.jobs {
		if m.state[id] == event.Dead {
			m.add(m.fixture.replay(id), m.lane[id])
			m.state[id] = event.Replayed
			return
		}
	}
}

func (m *model) recover() {
	r, err := m.store.Recover(m.Context())
	m.must(err)
	if len(r.Returned)+len(r.Dead) != len(m.leases) {
		m.Fatalf("recovered %d and %d dead, want %d in all", len(r.Returned), len(r.Dead), len(m.leases))
	}
	for _, l := range m.leases {
		m.move(l.Job, event.Running, event.Pending)
	}
	for _, j := range r.Dead {
		m.move(j.ID, event.Pending, event.Dead)
	}
	m.stale, m.leases = append(m.stale, m.leases...), nil
}

func (m *model) takeLease() (l store.Lease, ok bool) {
	if len(m.leases) == 0 {
		return l, false
	}
	i := m.rand.IntN(len(m.leases))
	l = m.leases[i]
	m.leases = append(m.leases[:i], m.leases[i+1:]...)
	return l, true
}

func (m *model) move(id event.ID, was, is event.State) {
	if m.state[id] != was {
		m.Fatalf("the store took a job that is %v for one that is %v", m.state[id], was)
	}
	m.state[id] = is
}

func (m *model) counts() map[store.LaneID]counts {
	all := map[store.LaneID]counts{}
	for id, state := range m.state {
		c := all[m.lane[id]]
		c[state]++
		all[m.lane[id]] = c
	}
	return all
}

// wantLists wants every job in the list of its state.
func (m *model) wantLists() {
	m.Helper()
	want := map[event.State][]event.ID{}
	for id, state := range m.state {
		want[state] = append(want[state], id)
	}
	for _, state := range event.States() {
		m.wantSame(want[state], idsOfJobs(m.allJobs(store.JobFilter{State: &state, Limit: 13})))
	}
}

func pick[T any](m *model, from []T) T { return from[m.rand.IntN(len(from))] }
