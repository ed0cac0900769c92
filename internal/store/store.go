// Package store is the contract between the pipeline and whatever keeps its events and jobs. Package storetest is the
// same contract as code: every store passes the same suite.
//
// Rules for all methods:
//
//   - Ids are made by the caller. Every transition may be sent twice with the same arguments and gives the first answer
//     again, because clients of stores re-send what they got no reply to: Accept is known by its event id, Claim by its
//     token, Finish and Release by token and attempt number, Replay by the new job's id.
//   - The time that decides (due, lease, key's end, retention) is the store's own clock. Times go in as durations from
//     now. Advance moves that clock in tests.
//   - An error is one of the kinds below; "somebody else owns this now" is an answer (lost), never an error.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
)

// The kinds of error. Every error of a store wraps one of them, except those of a caller's own context.
var (
	// ErrUnavailable means that the store cannot answer now; trying again may help.
	ErrUnavailable = errors.New("store unavailable")
	// ErrFull means that there is no room for new work. Finishing, pruning and replaying should still go on.
	ErrFull = errors.New("store full")
	// ErrBacklog means that a queue has as many unfinished jobs as it may have.
	ErrBacklog = errors.New("backlog limit reached")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("store closed")
	// ErrNotFound means that there is no such job or event.
	ErrNotFound = errors.New("not found")
	// ErrPruned means that retention has taken the job or event; the job's final state is still known.
	ErrPruned = errors.New("pruned")
	// ErrCursor means that a cursor was not made by this store.
	ErrCursor = errors.New("invalid cursor")
)

// MaxLost is how many lives in a row a job may lose before it is dead with event.ReasonCrashLoop.
const MaxLost = 10

// PageScan is the most index entries one page of a list looks at. A page that reaches it may be short, even empty, and
// still have a next cursor.
const PageScan = 5000

// Store keeps events, jobs, the ledger and dedupe keys. All methods are safe for concurrent use.
type Store interface {
	// Accept claims the keys and stores the event with its jobs, all or nothing, durably when it returns. If any key is
	// live, nothing is stored and the answer holds the ids of the event that claimed it first. A key whose event the
	// store has lost counts as free. Only after the keys it looks at the limits: a duplicate is answered even at a full
	// backlog. Sent again for an event id it knows, it gives the first answer, not a duplicate.
	Accept(ctx context.Context, a Accept) (Accepted, error)

	// Claim leases due jobs of the given lanes, at most Max of each and in the order in which they became due, and gives
	// each the number of the attempt that now begins. It never touches other lanes.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Renew extends leases, counted from now, and returns those that are lost.
	Renew(ctx context.Context, leases []Lease, lease time.Duration) (lost []Lease, err error)
	// Finish ends a life with an outcome and writes its row of the ledger in the same step. lost means that the lease is
	// no longer the caller's and nothing was changed.
	Finish(ctx context.Context, f Finish) (lost bool, err error)
	// Release gives back a job that was not sent: pending again and due now, no row, and its attempt number is used again.
	Release(ctx context.Context, l Lease) (lost bool, err error)

	// Cancel ends a pending job. It is false for every other state, and ErrNotFound for an unknown id.
	Cancel(ctx context.Context, job event.ID) (bool, error)
	// Replay makes newJob a fresh copy of a dead job, pending and due now, and marks the old one replayed. With force it
	// also copies delivered and replayed jobs (a delivered one stays delivered). The answer has Replayed false and the
	// state when the state forbids it. Keys are not consulted, nor is the backlog limit.
	Replay(ctx context.Context, job, newJob event.ID, force bool) (Replayed, error)

	// Job returns a job with its ledger. A pruned job comes with ErrPruned and its final state.
	Job(ctx context.Context, id event.ID) (event.Job, []event.Attempt, error)
	// Event returns an event with its payload and its jobs, replays included. A pruned event is ErrPruned.
	Event(ctx context.Context, id event.ID) (event.Event, []event.Job, error)
	// Jobs lists jobs by (CreatedAt, ID), Events events by (AcceptedAt, ID), newest first, without payloads. Only an
	// empty next cursor ends a walk; see PageScan. Pruned ones are left out.
	Jobs(ctx context.Context, f JobFilter) (jobs []event.Job, next string, err error)
	Events(ctx context.Context, f EventFilter) (events []event.Event, next string, err error)
	// Stats counts without scanning finished work.
	Stats(ctx context.Context) (Stats, error)

	// Recover ends the lives whose lease has run out: a row of class lost, then pending again and due now, or dead with
	// event.ReasonCrashLoop after MaxLost in a row. A store whose leases end when it is opened reports those lives at the
	// first call.
	Recover(ctx context.Context) (Recovered, error)
	// Configured notes that these lanes are configured somewhere now. Orphans kills pending jobs that have been due for
	// longer than after in lanes that nobody has noted for longer than after, at most limit of them, with
	// event.ReasonNoEndpoint.
	Configured(ctx context.Context, lanes []LaneID) error
	Orphans(ctx context.Context, after time.Duration, limit int) (killed []event.Job, err error)
	// Prune removes what retention allows, in one small step; more means that there is more to do now. Retention takes
	// payload and ledger; ids and final state stay as long as a dedupe key needs them.
	Prune(ctx context.Context, r Retention) (more bool, err error)

	// Wake is signalled after jobs became due or changed such that a Claim may find more than the last one did.
	Wake() <-chan struct{}
	// Check returns nil when the store works, else why it does not.
	Check(ctx context.Context) error
	// Describe names the store and its place for logs, without secrets: "sqlite /var/lib/caddy/anvil/anvil.db".
	Describe() string
	// Advance moves the store's clock forward. Only tests call it.
	Advance(d time.Duration)
	// Close waits for what is being written and releases the store. Later calls return ErrClosed.
	Close() error
}

// Key is a dedupe key with its life. Keys of different sources, tenants, and of verified and unverified events never
// meet, even when their values are equal.
type Key struct {
	Value string // lower-case hex
	TTL   time.Duration
}

// Accept is one webhook to store. Event.AcceptedAt, Seq and Keys are the store's to fill.
type Accept struct {
	Event event.Event
	Keys  []Key
	Jobs  []NewJob
}

// NewJob is a job of an accepted event.
type NewJob struct {
	ID    event.ID
	Queue string
	// Endpoint is the identity "<source>/<name>"; "<source>/" for the one observed job of a source without endpoints.
	Endpoint string
	// Observed stores the job and never sends it.
	Observed bool
	// MaxPending is the most pending and running jobs that the queue may have before this one; 0 means no limit.
	MaxPending int
}

// Accepted answers Accept.
type Accepted struct {
	EventID   event.ID
	JobIDs    []event.ID
	Duplicate bool
}

// LaneID names a lane: one endpoint in one queue.
type LaneID struct {
	Queue    string
	Endpoint string
}

// Lane is a lane with room for Max more jobs.
type Lane struct {
	LaneID
	Max int
}

// Claim asks for due jobs.
type Claim struct {
	// Token is new for each Claim and fences everything that is claimed by it. Sent again, after no answer came, it gives
	// the same jobs as far as they are still its own, and their leases begin anew.
	Token event.ID
	Lanes []Lane
	Lease time.Duration
}

// Claimed answers Claim.
type Claimed struct {
	Jobs []ClaimedJob
	// Next is how long from now the earliest job in these lanes becomes due, counting those that were left because a
	// lane was full as due now; 0 with no jobs left means that only a wake can bring more.
	Next time.Duration
	// More is true when a lane had more due jobs than it could take.
	More bool
}

// ClaimedJob is a leased job and all that is needed to send it.
type ClaimedJob struct {
	Job   event.Job
	Event event.Event
}

// Lease is the right to finish one life of a job.
type Lease struct {
	Job     event.ID
	Token   event.ID
	Attempt int
	// Lane is the claimed job's, for stores that keep lanes apart.
	Lane LaneID
}

// Finish is the outcome of one life.
type Finish struct {
	Lease
	// Row is the ledger row; Row.Number must be Lease.Attempt.
	Row event.Attempt
	// State is Delivered, Dead, or Pending to try again in RetryIn.
	State   event.State
	RetryIn time.Duration
	// Reason is for Dead.
	Reason event.Reason
	// Uncounted keeps Failures as it is: an attempt that our own shutdown cut short is not the endpoint's failure.
	Uncounted bool
}

// Replayed answers Replay.
type Replayed struct {
	Replayed bool
	// State is the old job's state that forbids it; without meaning when Replayed is true.
	State event.State
}

// JobFilter selects jobs; empty fields select all. Limit must be positive.
type JobFilter struct {
	State    *event.State
	Queue    string
	Source   string
	Endpoint string
	Tenant   string
	// EventType is the whole type of the event that the job is of; a job of an event without a type matches none.
	EventType string
	Limit     int
	Cursor    string
}

// EventFilter selects events; empty fields select all. Limit must be positive.
type EventFilter struct {
	Source string
	Tenant string
	// EventType is the whole type; an event without one matches none.
	EventType string
	Limit     int
	Cursor    string
}

// Stats is what the store counts.
type Stats struct {
	Lanes []LaneStats
	// Bytes is the size of the store on its medium, 0 when unknown.
	Bytes int64
	// Warnings are standing facts that the operator should know ("the disk is nearly full").
	Warnings []string
}

// LaneStats counts the jobs of a lane. Pruned jobs are not counted.
type LaneStats struct {
	LaneID
	Source string
	// Jobs is indexed by event.State.
	Jobs [7]int64
	// OldestPending is the age of the oldest pending job by creation, 0 when there is none.
	OldestPending time.Duration
}

// Recovered answers Recover.
type Recovered struct {
	// Returned are pending again, Dead are dead.
	Returned, Dead []event.Job
}

// Retention says how long finished jobs keep payload and ledger, by queue and final state; a queue that is not listed
// has Default's.
type Retention struct {
	Queues  map[string]StateRetention
	Default StateRetention
}

// StateRetention is indexed by event.State; only final states have a meaning.
type StateRetention [7]time.Duration

// Match reports whether a job is one that the filter selects.
func (f *JobFilter) Match(j *event.Job) bool {
	return (f.State == nil || *f.State == j.State) && (f.Queue == "" || f.Queue == j.Queue) &&
		(f.Source == "" || f.Source == j.Source) && (f.Endpoint == "" || f.Endpoint == j.Endpoint) &&
		(f.Tenant == "" || f.Tenant == j.Tenant) && (f.EventType == "" || f.EventType == j.EventType)
}

// Match reports whether an event is one that the filter selects.
func (f *EventFilter) Match(e *event.Event) bool {
	return (f.Source == "" || f.Source == e.Source) && (f.Tenant == "" || f.Tenant == e.Tenant) &&
		(f.EventType == "" || f.EventType == e.Type)
}
