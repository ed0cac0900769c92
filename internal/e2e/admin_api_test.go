package e2e

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAStoredEventIsShownWithItsExactBytes(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, githubSite(up))
	text := []byte(`{"n":1152921506151679042,"s":"café","huge":` + strings.Repeat("9", 309) + `,"beyond":1e400}`)
	binary := []byte{0, 0xff, 0xfe, '\n'}
	for _, body := range [][]byte{text, binary} {
		r, err := send(c.site+"/hooks/github", body, "X-GitHub-Event", "push", "X-GitHub-Delivery", "d-1", "X-Hub-Signature-256", sign(githubSecret, body))
		if err != nil || r.status != http.StatusAccepted {
			t.Fatalf("got %d %s %v", r.status, r.body, err)
		}
	}
	events := c.events("source=github")
	if len(events) != 2 {
		t.Fatalf("%d events listed, want 2", len(events))
	}
	newest, oldest := c.event(events[0].ID), c.event(events[1].ID)
	asText := string(text)
	if diff := cmp.Diff(&asText, oldest.BodyText); !bytes.Equal(oldest.Body, text) || diff != "" {
		t.Errorf("the text body came as %q, its text (-want +got):\n%s", oldest.Body, diff)
	}
	if diff := cmp.Diff((*string)(nil), newest.BodyText); !bytes.Equal(newest.Body, binary) || diff != "" {
		t.Errorf("the binary body came as %q, its text (-want +got):\n%s", newest.Body, diff)
	}
	if oldest.Type != "push" || oldest.URI != "/hooks/github" || len(oldest.Jobs) != 1 || len(oldest.Keys) != 1 {
		t.Errorf("the event is %+v", oldest)
	}
	if !slices.Contains(oldest.Headers, [2]string{"X-Github-Delivery", "d-1"}) {
		t.Errorf("the headers are %q", oldest.Headers)
	}
	if !strings.HasSuffix(mustField(t, c.get("/anvil/events/"+oldest.ID), "acceptedAt"), "Z") {
		t.Error("acceptedAt is not in UTC")
	}
}

// mustField cuts a string field out of JSON text.
func mustField(t *testing.T, text, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, `"`+name+`":"`)
	if !ok {
		t.Fatalf("no field %s in %s", name, text)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func TestTheListsPageThroughEverythingNewestFirst(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	var want []string
	for i := range 25 {
		want = append(want, accepted(t, c.site+"/hooks", hook(i)))
	}
	slices.Reverse(want)
	var got []string
	cursor := ""
	for pages := 0; ; pages++ {
		var page struct {
			Jobs       []job   `json:"jobs"`
			NextCursor *string `json:"nextCursor"`
		}
		c.getJSON("/anvil/jobs?limit=7&cursor="+cursor, &page)
		if len(page.Jobs) > 7 {
			t.Fatalf("a page has %d jobs", len(page.Jobs))
		}
		for _, j := range page.Jobs {
			got = append(got, j.ID)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if !slices.Equal(got, want) {
		t.Errorf("the walk gave\n%v, want\n%v", got, want)
	}
	c.settled(patience)
	for filter, n := range map[string]int{
		"source=demo": 25, "source=other": 0, "queue=webhooks": 25, "queue=q": 0,
		"endpoint=demo/default": 25, "endpoint=demo/x": 0, "state=delivered": 25, "state=dead": 0, "tenant=x": 0, "eventType=x": 0,
		"source=demo&state=delivered&queue=webhooks": 25,
	} {
		if got := len(c.jobs(filter)); got != n {
			t.Errorf("filter %s gives %d jobs, want %d", filter, got, n)
		}
	}
	for _, bad := range []string{"/anvil/jobs?state=asleep", "/anvil/jobs?limit=x", "/anvil/jobs?limit=-1", "/anvil/jobs?cursor=%21", "/anvil/events?cursor=%21", "/anvil/jobs/nonsense", "/anvil/jobs?colour=red"} {
		if status, text := c.call(http.MethodGet, bad, ""); status < 400 || status > 404 || !strings.Contains(text, `"error"`) {
			t.Errorf("%s answered %d %s", bad, status, text)
		}
	}
	for _, path := range []string{"/anvil/jobs/01890000-0000-7000-8000-000000000000", "/anvil/events/01890000-0000-7000-8000-000000000000"} {
		if status, text := c.call(http.MethodGet, path, ""); status != http.StatusNotFound || !strings.Contains(text, `"error"`) {
			t.Errorf("%s answered %d %s, want 404", path, status, text)
		}
	}
}

func TestNothingIsChangedByGet(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tworkers off", simpleSite(up)))
	id := accepted(t, c.site+"/hooks", hook(1))
	for _, path := range []string{"/anvil/replay", "/anvil/replay?jobId=" + id, "/anvil/jobs/" + id + "/cancel"} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			if status, text := c.call(method, path, ""); status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s answered %d %s, want 405", method, path, status, text)
			}
		}
	}
	if state := c.job(id).State; state != "pending" {
		t.Errorf("the job is %s", state)
	}
}

// A web page that the operator has open must not be able to steer the admin API.
func TestAForeignOriginIsRefused(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, statuses(410))
	c := startCaddy(t, simpleSite(up))
	id := accepted(t, c.site+"/hooks", hook(1))
	c.waitState(id, "dead", patience)
	for _, k := range []struct{ method, path, body string }{
		{http.MethodPost, "/anvil/replay", `{"jobId":"` + id + `"}`},
		{http.MethodPost, "/anvil/jobs/" + id + "/cancel", ""},
		{http.MethodOptions, "/anvil/replay", ""},
		{http.MethodGet, "/anvil/jobs", ""},
		{http.MethodGet, "/anvil/jobs/" + id, ""},
		{http.MethodGet, "/anvil/events", ""},
		{http.MethodGet, "/anvil/stats", ""},
		{http.MethodGet, "/metrics", ""},
	} {
		// A form's content type is what a page may send without asking first.
		r, err := sendVia(adminClient, k.method, c.admin+k.path, strings.NewReader(k.body), "Origin", "https://evil.example", "Content-Type", "text/plain")
		if err != nil || r.status != http.StatusForbidden {
			t.Errorf("%s %s: got %d %s %v, want 403", k.method, k.path, r.status, r.body, err)
		}
		// Under a name of the page's own that leads here.
		r, err = sendVia(adminClient, k.method, c.admin+k.path, strings.NewReader(k.body), "Host", "evil.example")
		if err != nil || r.status != http.StatusForbidden {
			t.Errorf("%s %s for another host: got %d %s %v, want 403", k.method, k.path, r.status, r.body, err)
		}
	}
	if j := c.job(id); j.State != "dead" || len(c.jobs("")) != 1 {
		t.Errorf("the job is %s, there are %d", j.State, len(c.jobs("")))
	}
}

func TestNoAnswerOfTheAdminAPIIsForOtherOrigins(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	id := accepted(t, c.site+"/hooks", hook(1))
	for _, path := range []string{"/anvil/jobs", "/anvil/jobs/" + id, "/anvil/events", "/anvil/stats"} {
		r, err := sendVia(adminClient, http.MethodGet, c.admin+path, nil)
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("%s: got %d %v", path, r.status, err)
		}
		for name := range r.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s has the header %s: %s", path, name, r.header.Get(name))
			}
		}
	}
}

func TestStatsEqualWhatTheUpstreamSaw(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(_ int, h hit) answer {
		if bytes.Contains(h.body, []byte(`"evt_7`)) {
			return answer{status: 410}
		}
		return answer{}
	})
	c := startCaddy(t, simpleSite(up))
	for i := range 100 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	c.settled(patience)
	states, unrouted := c.stats()
	if states["delivered"] != 89 || states["dead"] != 11 || unrouted != 0 {
		t.Errorf("stats are %v, unrouted %d; want 89 delivered and 11 dead", states, unrouted)
	}
	if n := up.count(); n != 100 {
		t.Errorf("the upstream has %d requests", n)
	}
	for state, n := range map[string]int{"delivered": 89, "dead": 11} {
		if got := len(c.jobs("state=" + state)); got != n {
			t.Errorf("the list has %d %s jobs, want %d", got, state, n)
		}
	}
}

func TestStatesNeverGoBackwards(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(n int, _ hit) answer { return answer{delay: time.Duration(n%5) * 10 * time.Millisecond} })
	c := startCaddy(t, simpleSite(up))
	rank := map[string]int{"pending": 0, "running": 1, "delivered": 2}
	last := map[string]string{}
	look := func() bool {
		ended := 0
		for _, j := range c.jobs("") {
			if rank[j.State] < rank[last[j.ID]] {
				t.Fatalf("job %s went from %s to %s", j.ID, last[j.ID], j.State)
			}
			last[j.ID] = j.State
			if j.State == "delivered" {
				ended++
			}
		}
		return ended == 200
	}
	for i := range 200 {
		accepted(t, c.site+"/hooks", hook(i))
		if i%20 == 0 {
			look()
		}
	}
	waitFor(t, patience, "all jobs being delivered", look)
}

func TestThePublicSiteHasNoAdminAPI(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	for _, path := range []string{"/anvil/jobs", "/anvil/stats", "/metrics"} {
		r, err := sendVia(client, http.MethodGet, c.site+path, nil)
		if err != nil || len(r.body) != 0 {
			t.Errorf("%s on the site answered %d %s %v", path, r.status, r.body, err)
		}
	}
}

func TestWithoutAnvilInTheConfigurationTheAdminAPISaysSo(t *testing.T) {
	t.Parallel()
	c := startCaddy(t, "\trespond hello")
	status, text := c.call(http.MethodGet, "/anvil/stats", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "error") {
		t.Errorf("got %d %s, want 503", status, text)
	}
}

func TestRetentionTakesTheJobAndKeepsItsFinalState(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tqueue webhooks {\n\t\t\tretain delivered 1s\n\t\t}", simpleSite(up)))
	id := accepted(t, c.site+"/hooks", hook(1))
	waitFor(t, patience, "the delivered job being pruned", func() bool {
		status, _ := c.call(http.MethodGet, "/anvil/jobs/"+id, "")
		return status == http.StatusGone
	})
	if _, text := c.call(http.MethodGet, "/anvil/jobs/"+id, ""); !strings.Contains(text, "delivered") {
		t.Errorf("the pruned job answers %s, want its final state", text)
	}
	if n := len(c.jobs("")); n != 0 {
		t.Errorf("%d pruned jobs are listed", n)
	}
	if r := post(t, c.site+"/hooks", hook(1)); !r.Replayed || r.JobID != id {
		t.Errorf("got %s, want a duplicate of the pruned %s", r.body, id)
	}
	if n := up.count(); n != 1 {
		t.Errorf("the upstream has %d requests", n)
	}
}
