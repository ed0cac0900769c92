package ingress

import (
	"net/netip"
	"sync"
	"time"
)

// RateKey is whom a RateLimiter counts for. The zero key stands for everyone together, as for a limit on a whole source.
type RateKey struct {
	network netip.Addr
}

// ByIP counts a client by its address: IPv4 addresses singly (IPv4 within IPv6 as the IPv4 that it is), IPv6 addresses
// by /64, because every subscriber has at least that many to choose from. What is no IP address has the zero key.
func ByIP(ip string) RateKey {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return RateKey{}
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return RateKey{addr}
	}
	return RateKey{netip.PrefixFrom(addr, 64).Masked().Addr()}
}

// maxKeys bounds the table of a RateLimiter; full, it takes some 8 MiB.
const maxKeys = 1 << 16

// RateLimiter lets n requests of a key pass in each window. A key's window begins with its first request and has a fixed
// end, so two bursts of n can meet at the border of two windows. It is safe for concurrent use; the lock is held for
// two look-ups in a map, far less than anything else that happens to a request.
//
// The table is bounded. It has two generations, and when the younger one is full, or a window old, it becomes the older
// one and the older one is forgotten. So what is forgotten is first of all what has expired. Under a flood from more
// addresses than the table holds, the longest-known keys are forgotten and begin anew: some senders then get more than
// n, but nobody is locked out for want of room, and memory stays bounded.
type RateLimiter struct {
	n      int
	window time.Duration

	mu           sync.Mutex
	young, old   map[RateKey]usage
	youngStarted time.Time
}

// usage is one key's window.
type usage struct {
	started time.Time
	passed  int
}

// NewRateLimiter makes a RateLimiter for n requests in each window. Both must be positive.
func NewRateLimiter(n int, window time.Duration) *RateLimiter {
	return &RateLimiter{n: n, window: window, young: map[RateKey]usage{}}
}

// Allow counts a request and reports whether it may pass. If not, retryAfter says in how long one will. Refused requests
// are not counted.
func (l *RateLimiter) Allow(key RateKey, now time.Time) (ok bool, retryAfter time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if now.Sub(l.youngStarted) >= l.window {
		l.turn(now)
	}
	u, isYoung := l.young[key]
	known := isYoung
	if !known {
		u, known = l.old[key]
	}
	age := now.Sub(u.started)
	switch {
	case !known, age >= l.window:
		u = usage{started: now}
	case u.passed >= l.n:
		return false, l.window - age
	}
	u.passed++
	if !isYoung && len(l.young) >= maxKeys/2 {
		l.turn(now)
	}
	l.young[key] = u
	return true, 0
}

// turn makes the young generation the old one.
func (l *RateLimiter) turn(now time.Time) {
	l.old, l.young, l.youngStarted = l.young, map[RateKey]usage{}, now
}
