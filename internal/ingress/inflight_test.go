package ingress_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-anvil/anvil/internal/ingress"
)

func TestInFlightLetsInNoMoreThanItsMaximum(t *testing.T) {
	f := ingress.NewInFlight(2, 0)
	for range 2 {
		if !f.Enter() {
			t.Fatal("refused below the maximum")
		}
	}
	if f.Enter() {
		t.Fatal("let in above the maximum")
	}
	f.Leave()
	if !f.Enter() {
		t.Error("refused although one has left")
	}
	if f.Enter() {
		t.Error("a refusal counted as an entry or a leaving")
	}
}

func TestInFlightReservesUpToTheExactByte(t *testing.T) {
	f := ingress.NewInFlight(0, 100)
	for _, c := range []struct {
		n    int64
		want bool
	}{{60, true}, {41, false}, {math.MaxInt64, false}, {40, true}, {1, false}, {0, true}} {
		if got := f.Reserve(c.n); got != c.want {
			t.Errorf("reserving %d: got %v, want %v", c.n, got, c.want)
		}
	}
	f.Release(40)
	if !f.Reserve(40) || f.Reserve(1) {
		t.Error("what was released is not what can be reserved again")
	}
}

func TestInFlightHoldsItsBoundsUnderConcurrentUse(t *testing.T) {
	const (
		requests = 3
		bytes    = 1000
	)
	f := ingress.NewInFlight(requests, bytes)
	var inside, held, entered atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			n := int64(100 + 50*g)
			for range 2000 {
				if !f.Enter() {
					continue
				}
				entered.Add(1)
				if now := inside.Add(1); now > requests {
					t.Errorf("%d inside", now)
				}
				if f.Reserve(n) {
					if now := held.Add(n); now > bytes {
						t.Errorf("%d bytes held", now)
					}
					held.Add(-n)
					f.Release(n)
				}
				inside.Add(-1)
				f.Leave()
			}
		})
	}
	wg.Wait()
	if entered.Load() == 0 {
		t.Error("nobody was let in")
	}
	if !f.Reserve(bytes) {
		t.Error("bytes are missing in the end")
	}
	for range requests {
		if !f.Enter() {
			t.Error("places are missing in the end")
		}
	}
}

func TestInFlightRefusalsDoNotDisturbThoseThatFit(t *testing.T) {
	f := ingress.NewInFlight(1, 100)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if f.Reserve(101) {
						t.Error("reserved more than there is")
					}
				}
			}
		})
	}
	for range 100_000 {
		if !f.Reserve(100) {
			t.Error("refused what fits, while others were being refused")
			break
		}
		f.Release(100)
	}
	close(stop)
	wg.Wait()
}
