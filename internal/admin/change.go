package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Replayed answers Replay.
type Replayed struct {
	// Status is 200, 404 for an unknown job, 409 for one in a state that forbids it and 410 for one that retention has
	// taken.
	Status   int  `json:"-"`
	Replayed bool `json:"replayed"`
	// JobID is the copy's id, or the given one when nothing was replayed.
	JobID string `json:"jobId"`
	// Reason says why nothing was replayed: "not_found", "not_dead" or "pruned", a colon, and a sentence.
	Reason string `json:"reason,omitempty"`
}

// Cancelled answers Cancel.
type Cancelled struct {
	// Cancelled is false for a job that is not pending.
	Cancelled bool `json:"cancelled"`
}

// Replay makes a fresh copy of a dead job; with force, of a delivered or already replayed one too.
func (s *Service) Replay(ctx context.Context, id string, force bool) (Replayed, error) {
	job, err := parseID(id)
	if err != nil {
		return Replayed{}, err
	}
	fresh := s.NewID()
	r, err := s.Store.Replay(ctx, job, fresh, force)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Replayed{Status: http.StatusNotFound, JobID: id, Reason: "not_found: no job has this id"}, nil
	case errors.Is(err, store.ErrPruned):
		return Replayed{Status: http.StatusGone, JobID: id, Reason: "pruned: the retention of this job is over, its body is gone"}, nil
	case err != nil:
		return Replayed{}, failed("replaying job "+id, err)
	case !r.Replayed:
		return Replayed{Status: http.StatusConflict, JobID: id, Reason: notDead(r.State)}, nil
	}
	return Replayed{Status: http.StatusOK, Replayed: true, JobID: fresh.String()}, nil
}

// notDead tells what to do instead.
func notDead(state event.State) string {
	hint := "it was never to be sent"
	switch state {
	case event.Pending, event.Running:
		hint = "it will be tried without a replay"
	case event.Delivered, event.Replayed:
		hint = `add "force":true to send it once more`
	case event.Cancelled:
		hint = "a cancelled job stays cancelled"
	}
	return fmt.Sprintf("not_dead: the job is %s; %s", state, hint)
}

// Cancel ends a pending job.
func (s *Service) Cancel(ctx context.Context, id string) (Cancelled, error) {
	job, err := parseID(id)
	if err != nil {
		return Cancelled{}, err
	}
	ok, err := s.Store.Cancel(ctx, job)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Cancelled{}, notFound("job", job)
	case err != nil:
		return Cancelled{}, failed("cancelling job "+id, err)
	}
	return Cancelled{Cancelled: ok}, nil
}
