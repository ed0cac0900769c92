package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// withClock has the instance started with a wall clock that is off, where this machine allows it.
func (c *instance) withClock(off time.Duration) {
	c.launch = func(cmd *exec.Cmd) error {
		err := startWithClock(cmd, off)
		if err != nil {
			c.t.Skipf("setting a process's clock off: %v", err)
		}
		return err
	}
}

// clockOff is how much the wall clock of the instance is off, as its log tells.
func (c *instance) clockOff() time.Duration {
	c.t.Helper()
	var line struct {
		TS float64 `json:"ts"`
	}
	all := c.log.since(0)
	if err := json.Unmarshal([]byte(all[len(all)-1]), &line); err != nil {
		c.t.Fatalf("reading the log's last line: %v", err)
	}
	sec, frac := math.Modf(line.TS)
	return time.Until(time.Unix(int64(sec), int64(frac*1e9)))
}

func TestClocksThatAreOffNeitherDoubleNorDelay(t *testing.T) {
	t.Parallel()
	const retry = 2 * time.Second
	up := newUpstream(t, func(_ int, h hit) answer {
		switch {
		case strings.Contains(string(h.body), "slow"):
			return answer{delay: 8 * time.Second} // two looks for lost attempts come in between
		case strings.Contains(string(h.body), "fails") && h.header("Anvil-Attempt") != "3":
			return answer{status: 500}
		}
		return answer{}
	})
	f := newFleet(t, 2)
	site := numberedSite(up, "\t\t\tretry 2s 2s\n\t\t\ttimeout 60s\n\t\t\tconcurrency 4")
	for i, off := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		f.members[i].withClock(off)
		f.run(i, f.members[i].caddyfile(f.global(""), site(i)))
		if got := f.members[i].clockOff(); got < off-time.Minute || got > off+time.Minute {
			t.Fatalf("the clock of instance %d is off by %s, want %s", i, got, off)
		}
	}
	urls := f.urls()
	acked := map[string]int{}
	for i := range 12 {
		kind := []string{"slow", "fails", "plain"}[i%3]
		body := fmt.Appendf(nil, `{"id":%d,"kind":%q}`, i, kind)
		id := accepted(t, urls[i%2], body)
		acked[id] = i
		if r := post(t, urls[1-i%2], body); !r.Replayed || r.JobID != id {
			t.Errorf("a copy at the other instance got %s, want a duplicate of %s", r.body, id)
		}
	}
	f.members[0].settled(2 * time.Minute)
	times := map[string][]hit{}
	for _, h := range up.hits() {
		times[h.jobID()] = append(times[h.jobID()], h)
	}
	senders := map[string]bool{}
	for id, i := range acked {
		j, hits := f.members[1].job(id), times[id]
		want := 1
		if i%3 == 1 {
			want = 3
		}
		if len(hits) != want || j.State != "delivered" || len(j.Ledger) != want {
			t.Errorf("job %s (event %d) was sent %d times and is %+v, want %d", id, i, len(hits), j, want)
		}
		if age := time.Since(j.CreatedAt); age < 0 || age > 2*time.Minute {
			t.Errorf("job %s says that it is from %s ago", id, age)
		}
		for n := 1; n < len(hits); n++ {
			// With one of the wrong clocks it would come at once or ten minutes late.
			if rest := hits[n].at.Sub(hits[n-1].at); rest < retry/2 || rest > retry+time.Minute {
				t.Errorf("attempt %d of job %s came %s after the one before, planned are %s", n+1, id, rest, retry)
			}
		}
		for _, h := range hits {
			senders[by(h)] = true
		}
	}
	if len(senders) != 2 {
		t.Errorf("only the instances %v have delivered", senders)
	}
}
