package worker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// shortestWait keeps a due time that a store rounds differently than it compares from becoming a hot loop.
const shortestWait = time.Millisecond

// dispatcher is the loop that claims. Its fields are its own.
type dispatcher struct {
	*Engine
	// next is when to look for due jobs again without being woken.
	next time.Time
	// full are the endpoints that may have due jobs and no slot for them. When slots come free, only these are asked
	// about: of the others it is known that nothing is due before next.
	full map[string]bool
}

func (e *Engine) dispatch() {
	d := dispatcher{Engine: e, full: map[string]bool{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.loops.Done():
			return
		case <-e.freed:
			d.lookAtFull()
		case <-e.store.Wake():
			d.lookEverywhere()
		case <-e.changed:
			d.lookEverywhere()
		case <-timer.C:
			d.lookEverywhere()
		}
		timer.Reset(time.Until(d.next))
	}
}

func (d *dispatcher) lookEverywhere() {
	d.next = time.Now().Add(d.every.Poll)
	clear(d.full)
	d.look(func(string) bool { return true })
}

func (d *dispatcher) lookAtFull() {
	if len(d.full) > 0 {
		were := d.full
		d.full = map[string]bool{}
		d.look(func(endpoint string) bool { return were[endpoint] })
	}
}

// look claims what is due for the endpoints that it asks about, as far as they have free slots.
func (d *dispatcher) look(about func(endpoint string) bool) {
	r := d.rules()
	if r == nil || !r.Workers {
		return
	}
	for _, pass := range r.passes {
		asked := make([]store.LaneID, 0, len(pass))
		for _, id := range pass {
			if about(id.Endpoint) {
				asked = append(asked, id)
			}
		}
		d.claimFrom(r, asked)
	}
}

// claimFrom claims until the lanes have nothing more that is due, or no free slot.
func (d *dispatcher) claimFrom(r *ruling, asked []store.LaneID) {
	for {
		lanes := d.room(r, asked)
		if len(lanes) == 0 {
			return
		}
		got, ok := d.claim(lanes)
		if !ok {
			return
		}
		if !got.More {
			if got.Next > 0 {
				d.notLaterThan(got.Next)
			}
			return
		}
		if len(got.Jobs) == 0 {
			d.notLaterThan(d.every.Poll / 2) // a store that has more and gives nothing must not make us spin
			return
		}
		// A lane took all that it had slots for, and its remaining jobs hide when the other lanes are next due. Without
		// the full one they tell.
	}
}

func (d *dispatcher) notLaterThan(wait time.Duration) {
	if at := time.Now().Add(max(wait, shortestWait)); at.Before(d.next) {
		d.next = at
	}
}

// room returns the lanes with free slots, and notes the endpoints that have none.
func (d *dispatcher) room(r *ruling, ids []store.LaneID) []store.Lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	lanes := make([]store.Lane, 0, len(ids))
	for _, id := range ids {
		ep := r.Endpoints[id.Endpoint]
		if free := ep.slots() - d.busy[id.Endpoint]; free > 0 {
			lanes = append(lanes, store.Lane{LaneID: id, Max: free})
		} else {
			d.full[id.Endpoint] = true
		}
	}
	return lanes
}

// claim asks the store until it answers and starts the jobs that it gives. ok is false when there is no use in asking on.
func (d *dispatcher) claim(lanes []store.Lane) (got store.Claimed, ok bool) {
	// An unanswered claim may have leased jobs that only its token gets at, so the same one is sent until it is answered.
	c := store.Claim{Token: d.newID(), Lanes: lanes, Lease: d.every.Lease}
	trouble := backoff{}
	for d.mayClaim() {
		got, err := d.store.Claim(d.writing, c)
		if err == nil {
			if trouble.times > 0 {
				d.log.Info("the store answers again", zap.Int("failed_tries", trouble.times))
			}
			d.begin(c.Token, got.Jobs)
			d.claimEnded()
			return got, true
		}
		d.claimEnded()
		d.complain("claiming due jobs", err)
		if !trouble.wait(d.loops) {
			break
		}
	}
	return store.Claimed{}, false
}

func (d *dispatcher) mayClaim() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claiming = !d.draining && d.ruling != nil && d.ruling.Workers
	return d.claiming
}

func (d *dispatcher) claimEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claiming = false
	d.quiet.Broadcast()
}

// begin starts a goroutine for each job. There are never more than slots, which is what was claimed for.
func (d *dispatcher) begin(token event.ID, jobs []store.ClaimedJob) {
	for i := range jobs {
		// Not of any caller's context: an attempt ends by its outcome, or by being cut.
		ctx, cut := context.WithCancel(context.Background())
		job := &jobs[i].Job
		h := &held{ClaimedJob: jobs[i], cut: cut, lease: store.Lease{
			Job: job.ID, Token: token, Attempt: job.Attempts, Lane: store.LaneID{Queue: job.Queue, Endpoint: job.Endpoint},
		}}
		d.mu.Lock()
		d.jobs[h.lease] = h
		d.busy[job.Endpoint]++
		// Since the claim was asked for, settings without workers may have come to rule; then it is given back.
		if d.ruling != nil && d.ruling.Workers {
			h.endpoint, h.known = d.ruling.Endpoints[job.Endpoint]
		}
		d.mu.Unlock()
		d.wg.Go(func() { d.run(ctx, h) })
	}
}
