// Package event holds the nouns of the pipeline: what arrived (Event), what has to be delivered (Job) and what was
// tried (Attempt). It imports nothing from this project, so every other package can speak in these words.
package event

import (
	"time"

	"github.com/google/uuid"
)

// ID names an event or a job. Ids are UUIDv7, made by whoever creates the thing, never by a store.
type ID = uuid.UUID

// Event is one accepted webhook.
type Event struct {
	ID     ID
	Source string
	// Tenant is the value of the source's tenant placeholder, empty when the source has none.
	Tenant string
	// Verified is false when the source accepts webhooks without proof (verify none).
	Verified bool
	// Type and ProviderID are what the provider calls this event ("push", "evt_1"), empty when unknown.
	Type       string
	ProviderID string
	// Keys are the dedupe keys that this event claimed, in lower-case hex.
	Keys []string
	// Payload is the request as it came, opaque to stores; see Payload.
	Payload []byte

	// AcceptedAt and Seq are set by the store: its own clock, and a number that grows within the store.
	AcceptedAt time.Time
	Seq        int64
}

// Job is the delivery of one event to one endpoint.
type Job struct {
	ID      ID
	EventID ID
	// Source, Tenant, EventType and ProviderID repeat the event's, for lists.
	Source     string
	Tenant     string
	EventType  string
	ProviderID string
	Queue      string
	// Endpoint is the identity "<source>/<name>".
	Endpoint string
	State    State
	// Attempts is the number of the newest attempt; it counts every life, lost ones too.
	Attempts int
	// Failures counts the failed attempts of the present schedule; the retry policy is asked with it.
	Failures int
	// Lost counts the lives in a row that ended without an outcome (a crash, or a lease that ran out).
	Lost      int
	CreatedAt time.Time
	// RunAt is when a pending job is due.
	RunAt time.Time
	// EndedAt is when the job reached a final state, zero before.
	EndedAt time.Time
	// ReplayOf is the dead job that this one is a copy of, zero otherwise.
	ReplayOf ID
	// DeadReason says why a dead job is dead: one of the Reason constants.
	DeadReason Reason
	// LastError is the newest failed attempt's error, cut and scrubbed.
	LastError string
	// Pruned marks a job whose body and ledger retention has taken; only its id and final state are left.
	Pruned bool
}

// Attempt is one try of a job: a row of the ledger.
type Attempt struct {
	// Number counts from 1 over the whole life of a job.
	Number    int
	StartedAt time.Time
	Duration  time.Duration
	// Status is the HTTP status, 0 when none came.
	Status int
	Class  Class
	// Error is empty for a delivered attempt; cut and scrubbed of credentials.
	Error string
	// Snippet is the beginning of the response body, valid UTF-8.
	Snippet string
}

// State is where a job stands.
type State uint8

// The states of a job. pending → running → delivered, pending again or dead; cancelled from pending only;
// replayed is a dead job of which a copy was made; observed is stored and never sent.
const (
	Pending State = iota
	Running
	Delivered
	Dead
	Cancelled
	Replayed
	Observed
)

var stateNames = [...]string{"pending", "running", "delivered", "dead", "cancelled", "replayed", "observed"}

// States lists every state in order.
func States() []State {
	return []State{Pending, Running, Delivered, Dead, Cancelled, Replayed, Observed}
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Final reports whether a job in this state will never be tried again.
func (s State) Final() bool { return s > Running }

// ParseState is the inverse of String.
func ParseState(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Class sorts the outcome of an attempt. It is a metric label, so the set is closed.
type Class string

// The classes of an attempt.
const (
	ClassDelivered   Class = "delivered"   // a 2xx
	ClassStatus      Class = "status"      // any other HTTP status
	ClassTimeout     Class = "timeout"     // no status in time
	ClassDNS         Class = "dns"         // the name did not resolve
	ClassConnect     Class = "connect"     // no connection
	ClassTLS         Class = "tls"         // no TLS session
	ClassReset       Class = "reset"       // the connection ended before a status came
	ClassConfig      Class = "config"      // the request could not be built
	ClassLost        Class = "lost"        // nobody finished this life; the endpoint may have seen it
	ClassInterrupted Class = "interrupted" // cut short by our own shutdown; the endpoint may have seen it
)

// Reason says why a job is dead. It is a metric label, so the set is closed.
type Reason string

// The reasons of death.
const (
	ReasonAttempts   Reason = "attempts_exhausted" // the schedule has no further try
	ReasonGone       Reason = "gone"               // the endpoint answered 410
	ReasonCrashLoop  Reason = "crash_loop"         // ten lives in a row were lost
	ReasonNoEndpoint Reason = "no_endpoint"        // nobody has configured the endpoint for orphan_after
)
