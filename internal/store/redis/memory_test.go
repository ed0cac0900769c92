package redis

import (
	"context"
	"testing"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// Accepts look at the memory themselves when nobody has for a while.
func TestACallerWhoLeavesInTheMiddleHasNotLookedAtTheMemory(t *testing.T) {
	server := redistest.Start(t)
	s := &Store{o: Options{Addr: server.Addr(), AcceptTimeout: DefaultAcceptTimeout}, server: newServer(), client: server.Client()}
	left, leave := context.WithCancel(t.Context())
	leave()
	s.lookAtMemory(left)
	if s.server.looked.at.Load() != nil {
		t.Error("a caller who had left counts as having looked")
	}
	s.lookAtMemory(t.Context())
	if s.server.looked.at.Load() == nil || s.server.used.Load() == 0 {
		t.Error("a caller who stayed has seen nothing")
	}
}
