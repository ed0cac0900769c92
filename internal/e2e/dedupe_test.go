package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestSixtyConcurrentCopiesAreOneDelivery(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	answers := make([]response, 60)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			r, err := sendSigned(c.site+"/hooks", hook(1))
			if err != nil {
				t.Errorf("copy %d: %v", i, err)
			}
			answers[i] = r
		})
	}
	wg.Wait()
	fresh := 0
	for i, r := range answers {
		if r.status != http.StatusAccepted || r.JobID != answers[0].JobID {
			t.Errorf("copy %d: got %d %s, want 202 with job %s", i, r.status, r.body, answers[0].JobID)
		}
		if !r.Replayed {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d copies were taken as new, want 1", fresh)
	}
	c.settled(patience)
	if n := up.count(); n != 1 {
		t.Errorf("the upstream has %d requests, want 1", n)
	}
}

func TestADuplicateIsKnownAfterAKill(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	conf := c.caddyfile("", simpleSite(up))
	c.start(conf)
	id := accepted(t, c.site+"/hooks", hook(1))
	c.waitState(id, "delivered", patience)
	c.kill9()
	c.start(conf)
	r := post(t, c.site+"/hooks", hook(1))
	if r.status != http.StatusAccepted || !r.Replayed || r.JobID != id {
		t.Errorf("got %d %s, want a duplicate of %s", r.status, r.body, id)
	}
	c.settled(patience)
	for id, n := range up.jobHits() {
		if n > 2 { // the kill may have come between the delivery and its record
			t.Errorf("job %s was sent %d times", id, n)
		}
	}
	if len(up.jobHits()) != 1 {
		t.Errorf("the upstream saw %d jobs, want 1", len(up.jobHits()))
	}
}

func TestAKeyIsFreeAgainWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t\tdedupe signature {\n\t\t\tttl 2s\n\t\t}\n\t\tdeliver %s\n\t}", secret, up.addr()))
	n := 0
	waitFor(t, patience, "two copies being sent within the time", func() bool {
		n++
		start := time.Now()
		first := accepted(t, c.site, hook(n))
		r := post(t, c.site, hook(n))
		if time.Since(start) >= 2*time.Second {
			return false
		}
		if !r.Replayed || r.JobID != first {
			t.Errorf("within the time: got %s, want a duplicate of %s", r.body, first)
		}
		return true
	})
	waitFor(t, patience, "the event being taken as new", func() bool { return !post(t, c.site, hook(n)).Replayed })
	up.wait(n+1, patience)
}

// dedupeCase sends bodies (and perhaps ids) one after the other; want tells for each which earlier one it repeats.
type dedupeCase struct {
	name, rule string
	bodies     []string
	ids        []string // header X-Id
	want       []int    // index of the request whose job is expected
}

func TestDedupeRulesFindTheEventBehindTheRequest(t *testing.T) {
	t.Parallel()
	cases := []dedupeCase{
		{"signature", "dedupe signature", []string{"a", "b", "a"}, nil, []int{0, 1, 0}},
		{"body", "dedupe body", []string{"a", "b", "a"}, nil, []int{0, 1, 0}},
		{"header", "dedupe header X-Id", []string{`{"t":1}`, `{"t":2}`, `{"t":3}`}, []string{"one", "one", "two"}, []int{0, 0, 2}},
		{"empty-header", "dedupe header X-Id", []string{"a", "b", "c", "a"}, []string{"", "", "", ""}, []int{0, 1, 2, 0}},
		{"json", "dedupe json /data/id", []string{`{"t":1,"data":{"id":"x"}}`, `{"t":2,"data":{"id":"x"}}`, `{"t":1,"data":{"id":"y"}}`}, nil, []int{0, 0, 2}},
		{"json-odd", "dedupe json /id", []string{"\xef\xbb\xbf{\"id\":\"x\"}", `"text"`, `42`, `null`, `[]`, `{}`, ` `, `{`, `{"id":""}`, `{"id":1e400}`, `{"id":123456789012345678901234567890}`}, nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{"form", "dedupe form id", []string{"id=x&t=1", "t=2&id=x", "id=y", "t=3", "t=4"}, nil, []int{0, 0, 2, 3, 4}},
		{"off", "dedupe off", []string{"a", "a", "a"}, nil, []int{0, 1, 2}},
	}
	up := newUpstream(t, nil)
	site := ""
	for _, d := range cases {
		site += fmt.Sprintf("\tanvil /%s %s {\n\t\tverify hmac %q\n\t\t%s\n\t\tdeliver %s\n\t}\n", d.name, d.name, secret, d.rule, up.addr())
	}
	c := startCaddy(t, site)
	for _, d := range cases {
		jobs := make([]string, len(d.bodies))
		for i, body := range d.bodies {
			header := []string{"Content-Type", "application/x-www-form-urlencoded"}
			if d.ids != nil {
				header = append(header, "X-Id", d.ids[i])
			}
			r := post(t, c.site+"/"+d.name, []byte(body), header...)
			if r.status != http.StatusAccepted {
				t.Fatalf("%s: %q got %d %s", d.name, body, r.status, r.body)
			}
			jobs[i] = r.JobID
			if jobs[i] != jobs[d.want[i]] || r.Replayed != (d.want[i] != i) {
				t.Errorf("%s: request %d (%q) replayed %v, want it to repeat request %d", d.name, i, body, r.Replayed, d.want[i])
			}
			for k := range i {
				if jobs[k] == jobs[i] && d.want[k] != d.want[i] {
					t.Errorf("%s: requests %d and %d were taken for one event", d.name, k, i)
				}
			}
		}
	}
	c.settled(patience)
	for id, n := range up.jobHits() {
		if n != 1 {
			t.Errorf("job %s was sent %d times", id, n)
		}
	}
}

func TestKeysOfTwoSourcesAndTenantsNeverMeet(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf(`	anvil /a first {
		verify hmac %[1]q
		deliver %[2]s
	}
	anvil /b second {
		verify hmac %[1]q
		tenant {http.request.header.X-Tenant}
		deliver %[2]s
	}`, secret, up.addr()))
	accepted(t, c.site+"/a", hook(1))
	accepted(t, c.site+"/b", hook(1), "X-Tenant", "blue")
	accepted(t, c.site+"/b", hook(1), "X-Tenant", "red")
	if r := post(t, c.site+"/b", hook(1), "X-Tenant", "red"); !r.Replayed {
		t.Error("the same tenant's copy was taken as new")
	}
	tenants := map[string]bool{}
	for _, h := range up.wait(3, patience) {
		tenants[h.header("Anvil-Tenant")] = true
	}
	if !tenants[""] || !tenants["blue"] || !tenants["red"] {
		t.Errorf("the upstream saw the tenants %v", tenants)
	}
	if n := len(c.jobs("tenant=red")); n != 1 {
		t.Errorf("tenant red has %d jobs, want 1", n)
	}
}

// A dead event keeps its key: the sender is told which event it repeats, and that one can be replayed.
func TestADuplicateOfADeadEventNamesIt(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, statuses(500, 200))
	c := startCaddy(t, fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\tretry off\n\t\t}\n\t}", secret, up.addr()))
	id := accepted(t, c.site, hook(1))
	c.waitState(id, "dead", patience)
	if r := post(t, c.site, hook(1)); r.status != http.StatusAccepted || !r.Replayed || r.JobID != id {
		t.Errorf("got %d %s, want a duplicate of the dead %s", r.status, r.body, id)
	}
	if status, _, _ := c.replay(id, false); status != http.StatusOK {
		t.Errorf("replay of the dead job answered %d", status)
	}
	up.wait(2, patience)
}
