package storetest

import (
	"crypto/rand"
	"runtime"
	"testing"
	"time"
)

const benchSenders = 64

// Benchmark measures what the two hot paths cost: an accept of 1 KiB with one key from 64 sides at once, and a job's way
// from claim to outcome in claims of 64.
func Benchmark(b *testing.B, h Harness) {
	b.Run("accept", func(b *testing.B) {
		f := newFixture(b, h)
		b.ReportAllocs()
		b.ResetTimer()
		f.acceptBench(b)
	})
	b.Run("claim and finish", func(b *testing.B) {
		f := newFixture(b, h)
		f.acceptBench(b)
		b.ReportAllocs()
		b.ResetTimer()
		for done := 0; done < b.N; {
			token, jobs := f.claim(time.Hour, benchSenders, hooks)
			if len(jobs) == 0 {
				b.Fatalf("%d of %d jobs were due", done, b.N)
			}
			f.parallel(len(jobs), func(i int) error {
				return wantKept(f.store.Finish(b.Context(), delivered(leaseOf(token, jobs[i]))))
			})
			done += len(jobs)
		}
	})
}

func (f *fixture) acceptBench(b *testing.B) {
	body := make([]byte, 1024)
	_, _ = rand.Read(body) // never fails
	b.SetParallelism(max(1, benchSenders/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := f.store.Accept(b.Context(), webhook(payload(body), keyed(time.Hour, newKey()))); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
