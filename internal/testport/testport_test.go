package testport

import (
	"net"
	"testing"
)

// two ranges of one place are what two processes have.
func two(t *testing.T, blocks int) (a, b *Range) {
	t.Helper()
	from := 32500 // where no test draws
	const block = 5
	end := from + blocks*block
	ranges := [2]*Range{}
	for i := range ranges {
		r := &Range{next: from, end: end, block: block}
		t.Cleanup(func() {
			for _, ln := range r.held {
				ln.Close()
			}
		})
		ranges[i] = r
	}
	return ranges[0], ranges[1]
}

func draw(t *testing.T, r *Range) int {
	t.Helper()
	port, err := r.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestTwoProcessesNeverDrawTheSamePort(t *testing.T) {
	a, b := two(t, 6)
	drawn := map[int]bool{}
	for range 10 {
		drawn[draw(t, a)] = true
	}
	for range 10 {
		if port := draw(t, b); drawn[port] {
			t.Errorf("port %d was drawn by both", port)
		}
	}
}

func TestAPortIsDrawnAgainOnlyWhenAllHaveBeen(t *testing.T) {
	r, _ := two(t, 2)
	drawn := map[int]bool{}
	for range 8 { // four of each block, beside the one that is held
		port := draw(t, r)
		if drawn[port] {
			t.Errorf("port %d was drawn twice", port)
		}
		drawn[port] = true
	}
	if port := draw(t, r); !drawn[port] {
		t.Errorf("port %d is of no block", port)
	}
}

func TestAPortThatSomebodyListensOnIsNotDrawn(t *testing.T) {
	r, _ := two(t, 1)
	for range 4 {
		ln, err := r.Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
	}
	if ln, err := r.Listen(); err == nil {
		t.Errorf("port %s was given while somebody listens on it", ln.Addr())
		ln.Close()
	}
}

func TestTheSecondPortHasToBeFreeToo(t *testing.T) {
	r, _ := two(t, 1)
	r.second = 100
	taken, err := On(r.next + 1 + r.second)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if port := draw(t, r); port == taken.Addr().(*net.TCPAddr).Port-r.second {
		t.Errorf("port %d was drawn, whose second one is taken", port)
	}
}
