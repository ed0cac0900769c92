package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// JobList is a page of jobs, newest first.
type JobList struct {
	Jobs []Job `json:"jobs"`
	// NextCursor asks for the next page; only null ends the list, a page with a cursor may be short or even empty.
	NextCursor *string `json:"nextCursor"`
}

// Job is a job as lists show it.
type Job struct {
	ID      event.ID `json:"id"`
	EventID event.ID `json:"eventId"`
	Source  string   `json:"source"`
	// Endpoint is the identity "<source>/<name>".
	Endpoint string `json:"endpoint"`
	Queue    string `json:"queue"`
	// DeadLetterQueue is "<queue>.dead" for a dead job.
	DeadLetterQueue string `json:"deadLetterQueue,omitempty"`
	State           string `json:"state"`
	// AttemptCount is the number of the newest attempt, 0 before the first.
	AttemptCount int  `json:"attemptCount"`
	CreatedAt    Time `json:"createdAt"`
	// RunAt is when a pending job is due.
	RunAt           Time         `json:"runAt,omitzero"`
	EndedAt         Time         `json:"endedAt,omitzero"`
	Tenant          string       `json:"tenant,omitempty"`
	EventType       string       `json:"eventType,omitempty"`
	ProviderEventID string       `json:"providerEventId,omitempty"`
	ReplayOf        event.ID     `json:"replayOf,omitzero"`
	DeadReason      event.Reason `json:"deadReason,omitempty"`
	LastError       string       `json:"lastError,omitempty"`
}

// JobDetail is a job with its ledger.
type JobDetail struct {
	Job
	Attempts []Attempt `json:"attempts"`
	// FailureContext is there for dead jobs, and for those that were dead until they were replayed.
	FailureContext *FailureContext `json:"failureContext,omitempty"`
}

// Attempt is a row of the ledger.
type Attempt struct {
	// Number counts from 1.
	Number     int         `json:"number"`
	StartedAt  Time        `json:"startedAt"`
	DurationMS float64     `json:"durationMs"`
	Status     int         `json:"status,omitempty"`
	Class      event.Class `json:"class"`
	Error      string      `json:"error,omitempty"`
	Snippet    string      `json:"snippet,omitempty"`
}

// FailureContext is what made a job dead.
type FailureContext struct {
	Attempts  int    `json:"attempts"`
	LastError string `json:"lastError"`
}

// Jobs lists jobs by the parameters state, queue ("<queue>.dead" for its dead jobs), source, endpoint ("<source>/<name>",
// or the bare name beside source), tenant, eventType, limit (1 to 500, default 50) and cursor.
func (s *Service) Jobs(ctx context.Context, query url.Values) (JobList, error) {
	f, err := parseJobFilter(query)
	if err != nil {
		return JobList{}, err
	}
	jobs, next, err := s.Store.Jobs(ctx, f)
	if err != nil {
		return JobList{}, failed("listing jobs", err)
	}
	return JobList{Jobs: jobsOf(jobs), NextCursor: cursorOf(next)}, nil
}

// Job shows one job. For a pruned one the error holds its final state.
func (s *Service) Job(ctx context.Context, id string) (JobDetail, error) {
	jobID, err := parseID(id)
	if err != nil {
		return JobDetail{}, err
	}
	j, ledger, err := s.Store.Job(ctx, jobID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return JobDetail{}, notFound("job", jobID)
	case errors.Is(err, store.ErrPruned):
		return JobDetail{}, &Error{
			Status: http.StatusGone, State: j.State.String(),
			Message: fmt.Sprintf("job %s is over and its retention too; only its final state is kept", jobID),
		}
	case err != nil:
		return JobDetail{}, failed("reading job "+id, err)
	}
	d := JobDetail{Job: jobOf(&j), Attempts: make([]Attempt, len(ledger))}
	for i, a := range ledger {
		d.Attempts[i] = Attempt{
			Number: a.Number, StartedAt: Time{a.StartedAt}, DurationMS: float64(a.Duration.Microseconds()) / 1000,
			Status: a.Status, Class: a.Class, Error: a.Error, Snippet: a.Snippet,
		}
	}
	if j.State == event.Dead || j.State == event.Replayed {
		d.FailureContext = &FailureContext{Attempts: j.Attempts, LastError: j.LastError}
	}
	return d, nil
}

func jobOf(j *event.Job) Job {
	out := Job{
		ID: j.ID, EventID: j.EventID, Source: j.Source, Endpoint: j.Endpoint, Queue: j.Queue, State: j.State.String(),
		AttemptCount: j.Attempts, CreatedAt: Time{j.CreatedAt}, EndedAt: Time{j.EndedAt},
		Tenant: j.Tenant, EventType: j.EventType, ProviderEventID: j.ProviderID,
		ReplayOf: j.ReplayOf, DeadReason: j.DeadReason, LastError: j.LastError,
	}
	switch j.State {
	case event.Pending:
		out.RunAt = Time{j.RunAt}
	case event.Dead:
		out.DeadLetterQueue = j.Queue + deadSuffix
	}
	return out
}

func jobsOf(jobs []event.Job) []Job {
	out := make([]Job, len(jobs))
	for i := range jobs {
		out[i] = jobOf(&jobs[i])
	}
	return out
}

func cursorOf(next string) *string {
	if next == "" {
		return nil
	}
	return &next
}
