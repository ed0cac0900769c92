package ingress_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-anvil/anvil/internal/ingress"
)

const kib = 1 << 10

// counter counts the bytes that were taken from a reader.
type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func granted(int64) bool { return true }

func TestReadBodyReturnsTheExactBytes(t *testing.T) {
	for name, size := range map[string]int{
		"nothing": 0, "a byte": 1, "1 KiB": kib, "the first buffer": 32 * kib, "a byte more than the first buffer": 32*kib + 1,
		"several buffers": 200 * kib, "exactly the limit": 256 * kib,
	} {
		want := bytes.Repeat([]byte{0, 0xff, 'a', '\n', 0xfe, '\r', 'b'}, size/7+1)[:size]
		for kind, r := range map[string]func() io.Reader{
			"in one go":         func() io.Reader { return bytes.NewReader(want) },
			"byte by byte":      func() io.Reader { return iotest.OneByteReader(bytes.NewReader(want)) },
			"end with the data": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(want)) },
		} {
			for claim, length := range map[string]int64{"claimed": int64(size), "unclaimed": -1} {
				t.Run(name+", "+kind+", "+claim, func(t *testing.T) {
					got, err := ingress.ReadBody(t.Context(), r(), length, 256*kib, granted)
					if err != nil {
						t.Fatal(err)
					}
					if got == nil || !bytes.Equal(got, want) {
						t.Errorf("got %d other bytes, want %d", len(got), size)
					}
				})
			}
		}
	}
}

func TestReadBodyReadsNothingWhenTheClaimIsTooLarge(t *testing.T) {
	r := &counter{r: endless{}}
	_, err := ingress.ReadBody(t.Context(), r, 256*kib+1, 256*kib, func(int64) bool {
		t.Error("memory was taken")
		return true
	})
	if !errors.Is(err, ingress.ErrBodyTooLarge) || r.n != 0 {
		t.Errorf("got %v after %d bytes, want ErrBodyTooLarge after none", err, r.n)
	}
}

func TestReadBodyStopsOneByteAfterTheLimit(t *testing.T) {
	for claim, length := range map[string]int64{"no claim": -1, "a false claim": 100, "a claim of the limit": 100_000} {
		t.Run(claim, func(t *testing.T) {
			r := &counter{r: endless{}}
			_, err := ingress.ReadBody(t.Context(), r, length, 100_000, granted)
			if !errors.Is(err, ingress.ErrBodyTooLarge) || r.n != 100_001 {
				t.Errorf("got %v after %d bytes, want ErrBodyTooLarge after 100001", err, r.n)
			}
		})
	}
}

func TestReadBodyTakesMemoryAsBytesArriveNotAsTheyAreClaimed(t *testing.T) {
	var taken int64
	grow := func(n int64) bool { taken += n; return true }
	// The sender claims 25 MiB, sends a little and breaks off.
	stalled := errors.New("stalled")
	r := io.MultiReader(strings.NewReader(strings.Repeat("x", 100)), iotest.ErrReader(stalled))
	if _, err := ingress.ReadBody(t.Context(), r, 25<<20, 25<<20, grow); !errors.Is(err, stalled) {
		t.Fatalf("got %v, want the reader's error", err)
	}
	if taken > 32*kib {
		t.Errorf("%d bytes of memory for 100 bytes of body", taken)
	}
}

func TestReadBodyAsksForAllMemoryThatItTakes(t *testing.T) {
	const limit = 256 * kib
	for _, c := range []struct {
		name             string
		size             int
		length, wantMost int64
	}{
		{"claimed", kib, kib, kib + 1},
		{"claimed, beyond the first buffer", 40 * kib, 40 * kib, 40*kib + 1},
		{"claimed, the limit", limit, limit, limit},
		{"unclaimed", kib, -1, 32 * kib},
		{"unclaimed, beyond the first buffer", 40 * kib, -1, 64 * kib},
		{"unclaimed, the limit", limit, -1, limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			var taken int64
			body, err := ingress.ReadBody(t.Context(), bytes.NewReader(make([]byte, c.size)), c.length, limit,
				func(n int64) bool { taken += n; return true })
			if err != nil {
				t.Fatal(err)
			}
			if taken != c.wantMost || int64(cap(body)) > taken {
				t.Errorf("asked for %d bytes and returned %d, want %d", taken, cap(body), c.wantMost)
			}
		})
	}
}

func TestReadBodyStopsWhenTheBudgetIsUsedUp(t *testing.T) {
	f := ingress.NewInFlight(1, 100*kib)
	var taken int64
	grow := func(n int64) bool {
		if !f.Reserve(n) {
			return false
		}
		taken += n
		return true
	}
	r := &counter{r: endless{}}
	if _, err := ingress.ReadBody(t.Context(), r, -1, 1<<30, grow); !errors.Is(err, ingress.ErrBudget) {
		t.Fatalf("got %v, want ErrBudget", err)
	}
	if r.n > 100*kib {
		t.Errorf("%d bytes were read", r.n)
	}
	f.Release(taken)
	if !f.Reserve(100 * kib) {
		t.Error("what was granted does not add up to what was taken")
	}
}

func TestReadBodyReadsNothingWithoutBudget(t *testing.T) {
	r := &counter{r: endless{}}
	_, err := ingress.ReadBody(t.Context(), r, -1, kib, func(int64) bool { return false })
	if !errors.Is(err, ingress.ErrBudget) || r.n != 0 {
		t.Errorf("got %v after %d bytes, want ErrBudget after none", err, r.n)
	}
}

func TestReadBodyErrors(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		name   string
		ctx    context.Context
		r      io.Reader
		length int64
		want   error
	}{
		{"the reader's own", t.Context(), iotest.ErrReader(broken), -1, broken},
		{"after some data", t.Context(), io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), -1, broken},
		{"shorter than claimed", t.Context(), strings.NewReader("short"), 6, io.ErrUnexpectedEOF},
		{"nothing where a claim is", t.Context(), strings.NewReader(""), 1, io.ErrUnexpectedEOF},
		{"cancelled", cancelled, endless{}, -1, context.Canceled},
		{"a reader without progress", t.Context(), stuck{}, -1, io.ErrNoProgress},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := ingress.ReadBody(c.ctx, c.r, c.length, kib, granted)
			if !errors.Is(err, c.want) || body != nil {
				t.Errorf("got %q, %v, want %v", body, err, c.want)
			}
		})
	}
}

// stuck never returns anything.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// hesitant returns nothing at every other read.
type hesitant struct {
	r       io.Reader
	waiting bool
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.waiting = !h.waiting; h.waiting {
		return 0, nil
	}
	return h.r.Read(p[:min(1, len(p))])
}

func TestReadBodyBearsReadsThatReturnNothing(t *testing.T) {
	want := strings.Repeat("x", 300)
	got, err := ingress.ReadBody(t.Context(), &hesitant{r: strings.NewReader(want)}, -1, kib, granted)
	if err != nil || string(got) != want {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
}

func TestReadBodyBearsAnyClaim(t *testing.T) {
	for _, length := range []int64{math.MinInt64, -1, math.MaxInt64} {
		body, err := ingress.ReadBody(t.Context(), strings.NewReader("ok"), length, math.MaxInt64, granted)
		if length > 2 {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d: got %v, want io.ErrUnexpectedEOF", length, err)
			}
		} else if err != nil || string(body) != "ok" {
			t.Errorf("%d: got %q, %v", length, body, err)
		}
	}
}

func TestIsTimeoutTellsSlowSendersFromBrokenOnes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"the connection's deadline", os.ErrDeadlineExceeded, true},
		{"a context's deadline", context.DeadlineExceeded, true},
		{"hung up", io.ErrUnexpectedEOF, false},
		{"cancelled", context.Canceled, false},
	} {
		_, err := ingress.ReadBody(t.Context(), iotest.ErrReader(c.err), -1, kib, granted)
		if got := ingress.IsTimeout(err); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if ingress.IsTimeout(nil) || ingress.IsTimeout(ingress.ErrBodyTooLarge) || ingress.IsTimeout(ingress.ErrBudget) {
		t.Error("something that is no timeout is taken for one")
	}
}

func TestReadBodyOfAClaimedKiBCostsOneAllocation(t *testing.T) {
	body := make([]byte, kib)
	r := bytes.NewReader(body)
	n := testing.AllocsPerRun(100, func() {
		r.Reset(body)
		if _, err := ingress.ReadBody(t.Context(), r, kib, 256*kib, granted); err != nil {
			t.Fatal(err)
		}
	})
	if n != 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}

func BenchmarkReadBody(b *testing.B) {
	for name, size := range map[string]int{"1KiB": kib, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			body := make([]byte, size)
			r := bytes.NewReader(body)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(body)
				if _, err := ingress.ReadBody(b.Context(), r, int64(size), 25<<20, granted); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
