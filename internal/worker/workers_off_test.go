package worker

import (
	"sync"
	"testing"

	"github.com/caddy-anvil/anvil/internal/event"
)

func TestJobsClaimedAsSettingsWithoutWorkersComeAreGivenBackUnsent(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(200))
	e := start(t, s)
	on := settings(endpoint("a", up.url))
	off := settings(endpoint("a", up.url))
	off.Workers = false
	switchOff := sync.OnceFunc(func() { e.Attach(off) })
	s.set(func(w *watched) {
		w.after = func(call string) error {
			if call == "claim" {
				switchOff()
			}
			return nil
		}
	})
	id := accept(t, s, "x", lane("a"))[0]
	e.Attach(on)
	s.until(t, "the job was given back or sent", func() bool { return s.count("release")+s.count("finish") > 0 })
	if j, _ := s.job(t, id); j.State != event.Pending || j.Attempts != 0 || len(up.got()) != 0 {
		t.Errorf("the job is %s with %d attempts; %d requests", j.State, j.Attempts, len(up.got()))
	}
}
