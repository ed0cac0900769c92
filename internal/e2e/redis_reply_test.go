package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// startBehindProxy returns an instance whose Redis has its scripts already: the first call of each would only be told that
// it is unknown, which is no loss.
func startBehindProxy(t *testing.T, up *upstream, option string) (*instance, *redistest.Proxy) {
	t.Helper()
	r := redistest.Start(t, durable...)
	p := redistest.NewProxy(t, r.Addr())
	site := strings.Replace(simpleSite(up), "\t\tdeliver", "\t\t"+option+"\n\t\tdeliver", 1)
	c := startInstances(t, 1, redisStore(p.Addr(), patient), site)[0]
	c.delivers("/hooks", []byte(`{"id":"the first"}`), time.Minute)
	return c, p
}

func happened(t *testing.T, what string, lost <-chan struct{}) {
	t.Helper()
	select {
	case <-lost:
	case <-time.After(time.Minute):
		t.Fatalf("no reply to %s was lost", what)
	}
}

// The sender must not learn that its event was there before: it was not, and providers alert on that.
func TestAnAcceptWhoseReplyWasLostIsStillTheFirst(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"found by its key": "", "found by its id": "dedupe off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			c, p := startBehindProxy(t, up, option)
			const n = 20
			for i := range n {
				lost := p.LoseReply(string(hook(i)))
				id := accepted(t, c.site+"/hooks", hook(i)) // fails on "replayed":true
				happened(t, fmt.Sprintf("accept %d", i), lost)
				c.waitState(id, "delivered", time.Minute)
			}
			if events := c.events(""); len(events) != n+1 {
				t.Errorf("there are %d events, want %d", len(events), n+1)
			}
			noneTwice(t, up)
			sane(t, c)
		})
	}
}

func TestAnOutcomeWhoseReplyWasLostIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		first  int
		ledger []string
	}{
		"a delivery":             {200, []string{"delivered"}},
		"a failure with a retry": {500, []string{"status", "delivered"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			up := newUpstream(t, func(n int, _ hit) answer {
				if n != 2 {
					return answer{}
				}
				<-gate
				return answer{status: k.first}
			})
			open := openedAtEnd(t, gate)
			c, p := startBehindProxy(t, up, "")
			id := accepted(t, c.site+"/hooks", hook(1))
			up.wait(2, time.Minute)
			raw := uuid.MustParse(id)
			lost := p.LoseReply(string(raw[:])) // only the outcome, or a renewal before it, names the job
			open()
			happened(t, "the outcome", lost)
			j := c.waitState(id, "delivered", time.Minute)
			if len(j.Ledger) != len(k.ledger) {
				t.Fatalf("the ledger is %+v, want %v", j.Ledger, k.ledger)
			}
			for i, a := range j.Ledger {
				if a.Class != k.ledger[i] || a.Number != i+1 {
					t.Errorf("row %d of the ledger is %+v, want %s", i, a, k.ledger[i])
				}
			}
			if got := up.jobHits()[id]; got != len(k.ledger) {
				t.Errorf("the job arrived %d times, want %d", got, len(k.ledger))
			}
			sane(t, c)
		})
	}
}
