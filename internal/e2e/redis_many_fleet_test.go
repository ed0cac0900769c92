package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// fleet is several instances on one Redis. The numbers of its members begin at 0.
type fleet struct {
	t       testing.TB
	redis   *redistest.Server
	members []*instance
	conf    []string // what each member runs
}

// newFleet runs a Redis that keeps what it acknowledges, and prepares n instances without starting them.
func newFleet(t testing.TB, n int, redisArgs ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, redis: redistest.Start(t, append(durable[:len(durable):len(durable)], redisArgs...)...), conf: make([]string, n)}
	for range n {
		f.members = append(f.members, newInstance(t))
	}
	// Caddy's exit waits up to 5 s for connections that were opened and not used yet.
	t.Cleanup(client.CloseIdleConnections)
	return f
}

// startFleet runs n instances that all have the same words in their global option, and the same site save that the upstream
// sees the number of the member which delivers in the path.
func startFleet(t testing.TB, n int, global string, site func(member int) string) *fleet {
	t.Helper()
	f := newFleet(t, n)
	for i, c := range f.members {
		f.run(i, c.caddyfile(f.global(global), site(i)))
	}
	return f
}

// patient is a word for tests in which nothing may be refused for a Redis, or a machine, that stands still for seconds.
const patient = "accept_timeout 10s"

// startPatient is startOnRedis with an instance that is patient.
func startPatient(t testing.TB, site string, args ...string) (*instance, *redistest.Server) {
	t.Helper()
	r := redistest.Start(t, args...)
	return startInstances(t, 1, redisStore(r.Addr(), patient), site)[0], r
}

// global puts the fleet's store in front of further words of the global option.
func (f *fleet) global(words string) string {
	return redisStore(f.redis.Addr(), patient) + "\n" + words
}

// run starts a member.
func (f *fleet) run(i int, conf string) {
	f.t.Helper()
	f.conf[i] = conf
	f.members[i].start(conf)
}

// rerun starts a member that has ended, with what it ran before.
func (f *fleet) rerun(i int) {
	f.t.Helper()
	f.members[i].start(f.conf[i])
}

// urls are where the members take webhooks.
func (f *fleet) urls() []string {
	all := make([]string, len(f.members))
	for i, c := range f.members {
		all[i] = c.site + "/hooks"
	}
	return all
}

// numberedSite is simpleSite with the member's number in the path at the upstream, and further words for the endpoint.
func numberedSite(u *upstream, words string) func(member int) string {
	return func(member int) string {
		return fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s/%d {\n%s\n\t\t}\n\t}", secret, u.url(), member, words)
	}
}

// by is the number of the member that a hit comes from, as text.
func by(h hit) string { return h.uri()[1:] }

// startLoadOver is startLoad with a balancer: each request goes to the next of the URLs, a repetition too.
func startLoadOver(urls []string, senders int, pause time.Duration) *load {
	l := newLoad()
	for s := range senders {
		l.wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			n, answered := 0, true
			for turn := s; ; turn++ {
				if answered {
					n = l.number()
				}
				answered = l.one(urls[turn%len(urls)], n)
				select {
				case <-l.quit:
					return
				case <-tick.C:
				}
			}
		})
	}
	return l
}

// waitMore returns when n more events have been acknowledged.
func (l *load) waitMore(t testing.TB, n int) {
	t.Helper()
	enough := l.count() + n
	waitFor(t, time.Minute, fmt.Sprintf("%d more events being acknowledged", n), func() bool { return l.count() >= enough })
}

// shares counts the hits by member.
func shares(u *upstream) map[string]int {
	all := map[string]int{}
	for _, h := range u.hits() {
		all[by(h)]++
	}
	return all
}

// ids of jobs, sorted.
func ids(jobs []job) []string {
	all := make([]string, len(jobs))
	for i := range jobs {
		all[i] = jobs[i].ID
	}
	slices.Sort(all)
	return all
}
