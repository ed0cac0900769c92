package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/admin"
	"github.com/caddy-anvil/anvil/internal/event"
)

func TestReplayIsAllowedByStateAndForce(t *testing.T) {
	for _, c := range []struct {
		state event.State
		force bool
		// refused is part of the reason; empty means that a copy is made.
		refused string
		after   event.State
	}{
		{event.Dead, false, "", event.Replayed},
		{event.Dead, true, "", event.Replayed},
		{event.Delivered, false, `delivered; add "force":true`, event.Delivered},
		{event.Delivered, true, "", event.Delivered},
		{event.Replayed, false, `replayed; add "force":true`, event.Replayed},
		{event.Replayed, true, "", event.Replayed},
		{event.Pending, true, "pending; it will be tried", event.Pending},
		{event.Running, true, "running; it will be tried", event.Running},
		{event.Cancelled, true, "cancelled; a cancelled job stays cancelled", event.Cancelled},
		{event.Observed, true, "observed; it was never to be sent", event.Observed},
	} {
		name := c.state.String()
		if c.force {
			name += " with force"
		}
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			id := f.in(c.state).Jobs[0].ID
			r, err := f.Replay(t.Context(), id.String(), c.force)
			if err != nil {
				t.Fatal(err)
			}
			if c.refused == "" {
				wantJSON(t, r, object{"replayed": true, "jobId": r.JobID})
				fresh := encode(t, must(f.Job(t.Context(), r.JobID)))
				if r.Status != http.StatusOK || fresh["replayOf"] != id.String() || fresh["state"] != "pending" || fresh["attemptCount"] != 0. {
					t.Errorf("status %d, the copy is %v", r.Status, fresh)
				}
			} else {
				wantJSON(t, r, object{"replayed": false, "jobId": id.String(), "reason": r.Reason})
				if r.Status != http.StatusConflict || !strings.HasPrefix(r.Reason, "not_dead: ") || !strings.Contains(r.Reason, c.refused) {
					t.Errorf("status %d, reason %q; want 409 and %q", r.Status, r.Reason, c.refused)
				}
			}
			if got := f.show(id).State; got != c.after.String() {
				t.Errorf("the job is %s afterwards, want %s", got, c.after)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestReplayOfAnUnknownJobIs404WithTheGivenID(t *testing.T) {
	f := newFixture(t)
	r, err := f.Replay(t.Context(), unknownID, false)
	if err != nil || r.Status != http.StatusNotFound {
		t.Fatalf("status %d, %v; want 404", r.Status, err)
	}
	wantJSON(t, r, object{"replayed": false, "jobId": unknownID, "reason": "not_found: no job has this id"})
}

func TestReplayOfAPrunedJobIs410WithTheGivenID(t *testing.T) {
	f := newFixture(t)
	id := f.in(event.Dead, remembered).Jobs[0].ID
	f.prune()
	r, err := f.Replay(t.Context(), id.String(), true)
	if err != nil || r.Status != http.StatusGone || r.JobID != id.String() || !strings.HasPrefix(r.Reason, "pruned: ") || r.Replayed {
		t.Errorf("%+v, %v; want 410", r, err)
	}
}

func TestAReplayedJobCanBeReplayedOnlyOnceWithoutForce(t *testing.T) {
	f := newFixture(t)
	id := f.in(event.Dead).Jobs[0].ID.String()
	for i, want := range []int{http.StatusOK, http.StatusConflict} {
		if r, err := f.Replay(t.Context(), id, false); err != nil || r.Status != want {
			t.Errorf("replay %d: status %d, %v; want %d", i+1, r.Status, err, want)
		}
	}
	if n := len(f.jobIDs("state=pending")); n != 1 {
		t.Errorf("%d copies, want 1", n)
	}
}

func TestCancelEndsPendingJobsOnly(t *testing.T) {
	f := newFixture(t)
	for _, state := range event.States() {
		id := f.in(state, from("s"+state.String(), "")).Jobs[0].ID
		c, err := f.Cancel(t.Context(), id.String())
		if err != nil {
			t.Fatal(err)
		}
		wantJSON(t, c, object{"cancelled": state == event.Pending})
		want := state
		if state == event.Pending {
			want = event.Cancelled
		}
		if got := f.show(id).State; got != want.String() {
			t.Errorf("a %s job is %s after a cancel, want %s", state, got, want)
		}
	}
}

func TestCancelOfAnUnknownJobIs404(t *testing.T) {
	f := newFixture(t)
	_, err := f.Cancel(t.Context(), unknownID)
	refusal(t, err, http.StatusNotFound)
}

func TestAStoreThatCannotAnswerIs503WithTheReason(t *testing.T) {
	f := newFixture(t)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		if e := refusal(t, call(t.Context(), f.Service), http.StatusServiceUnavailable); !strings.Contains(e.Message, "store closed") {
			t.Errorf("%s: the reason is %q", name, e.Message)
		}
	}
}

func TestACallWhoseCallerHasGoneChangesNothing(t *testing.T) {
	f := newFixture(t)
	id := f.in(event.Dead).Jobs[0].ID
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Replay(ctx, id.String(), false)
	refusal(t, err, http.StatusServiceUnavailable)
	if got := f.show(id).State; got != "dead" {
		t.Errorf("the job is %s", got)
	}
}

var calls = map[string]func(ctx context.Context, s *admin.Service) error{
	"jobs":   func(ctx context.Context, s *admin.Service) error { _, err := s.Jobs(ctx, nil); return err },
	"job":    func(ctx context.Context, s *admin.Service) error { _, err := s.Job(ctx, unknownID); return err },
	"events": func(ctx context.Context, s *admin.Service) error { _, err := s.Events(ctx, nil); return err },
	"event":  func(ctx context.Context, s *admin.Service) error { _, err := s.Event(ctx, unknownID); return err },
	"replay": func(ctx context.Context, s *admin.Service) error {
		_, err := s.Replay(ctx, unknownID, false)
		return err
	},
	"cancel": func(ctx context.Context, s *admin.Service) error { _, err := s.Cancel(ctx, unknownID); return err },
	"stats":  func(ctx context.Context, s *admin.Service) error { _, err := s.Stats(ctx); return err },
}
