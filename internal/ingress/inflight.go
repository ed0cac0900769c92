package ingress

import "sync/atomic"

// InFlight bounds the requests under way and the memory that their bodies take. It is safe for concurrent use and never
// waits: what does not fit is refused.
type InFlight struct {
	requests, bytes gauge
}

// NewInFlight makes an InFlight for at most maxRequests requests and maxBytes bytes of bodies.
func NewInFlight(maxRequests, maxBytes int64) *InFlight {
	return &InFlight{requests: gauge{limit: maxRequests}, bytes: gauge{limit: maxBytes}}
}

// Enter counts a request in, or refuses it. Each that was let in must Leave once.
func (f *InFlight) Enter() bool { return f.requests.take(1) }

// Leave counts a request out.
func (f *InFlight) Leave() { f.requests.give(1) }

// Reserve takes n bytes, or refuses and takes none. What was taken must be released.
func (f *InFlight) Reserve(n int64) bool { return f.bytes.take(n) }

// Release gives n bytes back.
func (f *InFlight) Release(n int64) { f.bytes.give(n) }

type gauge struct {
	used  atomic.Int64
	limit int64
}

// take compares before it adds. Adding first and undoing it at the limit would, for a moment, refuse small takers that
// fit because a large one that does not fit is being turned away.
func (g *gauge) take(n int64) bool {
	for {
		used := g.used.Load()
		if n > g.limit-used {
			return false
		}
		if g.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (g *gauge) give(n int64) { g.used.Add(-n) }
