package ingress

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func allow(t *testing.T, l *RateLimiter, key RateKey, now time.Time) {
	t.Helper()
	if ok, retryAfter := l.Allow(key, now); !ok || retryAfter != 0 {
		t.Errorf("at %v: got %v, %v, want true, 0", now.Sub(start), ok, retryAfter)
	}
}

func refuse(t *testing.T, l *RateLimiter, key RateKey, now time.Time, retryAfter time.Duration) {
	t.Helper()
	if ok, got := l.Allow(key, now); ok || got != retryAfter {
		t.Errorf("at %v: got %v, %v, want false, %v", now.Sub(start), ok, got, retryAfter)
	}
}

func TestRateLimiterCountsInWindowsThatBeginWithAKeysFirstRequest(t *testing.T) {
	l := NewRateLimiter(2, time.Minute)
	key := ByIP("192.0.2.1")
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	allow(t, l, key, at(0))
	allow(t, l, key, at(10))
	refuse(t, l, key, at(20), 40*time.Second)
	refuse(t, l, key, at(59), time.Second)
	allow(t, l, key, at(60))
	allow(t, l, key, at(119))
	refuse(t, l, key, at(119), time.Second)
	// The next window begins with a request, not where the last one ended.
	allow(t, l, key, at(150))
	allow(t, l, key, at(180))
	refuse(t, l, key, at(181), 29*time.Second)
}

func TestRateLimiterCountsKeysApart(t *testing.T) {
	l := NewRateLimiter(1, time.Minute)
	for _, key := range []RateKey{ByIP("192.0.2.1"), ByIP("192.0.2.2"), ByIP("2001:db8::1"), {}} {
		allow(t, l, key, start)
		refuse(t, l, key, start, time.Minute)
	}
}

// Turning the generations of the table must not end a window early, whenever in a generation it began.
func TestRateLimiterKeepsEveryWindowToItsEnd(t *testing.T) {
	for offset := range 60 {
		l := NewRateLimiter(1, time.Minute)
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
		allow(t, l, ByIP("192.0.2.1"), at(0))
		key := ByIP("192.0.2.2")
		allow(t, l, key, at(offset))
		for s := offset + 1; s < offset+60; s++ {
			refuse(t, l, key, at(s), time.Duration(offset+60-s)*time.Second)
		}
		allow(t, l, key, at(offset+60))
	}
}

// A window that outlives its generation goes on counting where it was.
func TestRateLimiterCountsOnAcrossGenerations(t *testing.T) {
	l := NewRateLimiter(3, time.Minute)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	allow(t, l, ByIP("192.0.2.1"), at(0))
	key := ByIP("192.0.2.2")
	allow(t, l, key, at(50))
	allow(t, l, ByIP("192.0.2.1"), at(60)) // the generation of key's window is a minute old
	allow(t, l, key, at(70))
	allow(t, l, key, at(80))
	refuse(t, l, key, at(90), 20*time.Second)
	allow(t, l, key, at(110))
}

func TestRateLimiterLetsExactlyNOfConcurrentRequestsPass(t *testing.T) {
	l := NewRateLimiter(100, time.Minute)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if ok, _ := l.Allow(RateKey{}, start); ok {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 100 {
		t.Errorf("%d passed, want 100", passed.Load())
	}
}

// numbered returns the i-th of many addresses.
func numbered(i int) RateKey {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(i))
	return RateKey{netip.AddrFrom4(a)}
}

func TestRateLimiterTableIsBoundedAndAdmitsEveryNewKey(t *testing.T) {
	l := NewRateLimiter(1, time.Minute)
	for i := range 4 * maxKeys {
		if ok, _ := l.Allow(numbered(i), start); !ok {
			t.Fatalf("key %d was refused its first request", i)
		}
		if size := len(l.young) + len(l.old); size > maxKeys {
			t.Fatalf("%d keys in the table, want at most %d", size, maxKeys)
		}
	}
}

func TestRateLimiterForgetsExpiredKeysBeforeLiveOnes(t *testing.T) {
	l := NewRateLimiter(1, time.Minute)
	for i := range maxKeys / 2 {
		allow(t, l, numbered(i), start)
	}
	later := start.Add(time.Minute)
	for i := range maxKeys / 2 {
		allow(t, l, numbered(maxKeys+i), later)
	}
	for i := range maxKeys / 2 {
		refuse(t, l, numbered(maxKeys+i), later, time.Minute)
	}
}

func TestRateLimiterFreesMemoryAfterAFlood(t *testing.T) {
	l := NewRateLimiter(1, time.Minute)
	for i := range maxKeys {
		l.Allow(numbered(i), start)
	}
	l.Allow(RateKey{}, start.Add(time.Minute))
	l.Allow(RateKey{}, start.Add(2*time.Minute))
	if size := len(l.young) + len(l.old); size > 2 {
		t.Errorf("%d keys are kept two windows later", size)
	}
}

func TestByIP(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"IPv4 neighbours", "192.0.2.1", "192.0.2.2", false},
		{"IPv4 within IPv6", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"IPv4 neighbours within IPv6", "::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"one /64", "2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true},
		{"two /64", "2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"zones of one /64", "fe80::1%eth0", "fe80::2%eth1", true},
		{"no address at all", "@", "", true},
		{"no address and an address", "@", "192.0.2.1", false},
		{"IPv4 and IPv6 of equal leading bytes", "0.0.0.0", "::", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ByIP(c.a) == ByIP(c.b); got != c.same {
				t.Errorf("%s and %s have the same key: %v, want %v", c.a, c.b, got, c.same)
			}
		})
	}
}

func BenchmarkRateLimiter(b *testing.B) {
	for name, keys := range map[string]int{"one key": 1, "1,000 keys": 1000, "a flood of new keys": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			l := NewRateLimiter(1<<30, time.Minute)
			now := time.Now()
			var next atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.Allow(numbered(int(next.Add(1))%keys), now)
				}
			})
		})
	}
}

func BenchmarkByIP(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		ByIP("2001:db8:0:1:ffff:ffff:ffff:ffff")
	}
}
