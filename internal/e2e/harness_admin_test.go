package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// job is what the admin API says of a job.
type job struct {
	ID             string    `json:"id"`
	EventID        string    `json:"eventId"`
	Source         string    `json:"source"`
	Tenant         string    `json:"tenant"`
	Queue          string    `json:"queue"`
	Endpoint       string    `json:"endpoint"`
	State          string    `json:"state"`
	CreatedAt      time.Time `json:"createdAt"`
	ReplayOf       string    `json:"replayOf"`
	DeadReason     string    `json:"deadReason"`
	FailureContext *struct {
		Attempts  int    `json:"attempts"`
		LastError string `json:"lastError"`
	} `json:"failureContext"`
	Ledger []attempt `json:"attempts"` // in a single job only
}

type attempt struct {
	Number  int    `json:"number"`
	Status  int    `json:"status"`
	Class   string `json:"class"`
	Error   string `json:"error"`
	Snippet string `json:"snippet"`
}

type storedEvent struct {
	ID         string      `json:"id"`
	Source     string      `json:"source"`
	Type       string      `json:"eventType"`
	Keys       []string    `json:"dedupeKeys"`
	AcceptedAt time.Time   `json:"acceptedAt"`
	Scheme     string      `json:"scheme"`
	Host       string      `json:"host"`
	URI        string      `json:"uri"`
	Headers    [][2]string `json:"headers"`
	Body       []byte      `json:"bodyBase64"`
	BodyText   *string     `json:"bodyText"`
	Jobs       []job       `json:"jobs"`
}

// adminClient keeps no connections: each reload replaces the admin server.
var adminClient = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// call asks the admin API and returns status and body.
func (c *instance) call(method, path, body string) (int, string) {
	c.t.Helper()
	req, err := http.NewRequest(method, c.admin+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := adminClient.Do(req)
	if err != nil {
		c.t.Fatalf("asking the admin API: %v", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// get returns the body of a 200.
func (c *instance) get(path string) string {
	c.t.Helper()
	status, text := c.call(http.MethodGet, path, "")
	if status != http.StatusOK {
		c.t.Fatalf("GET %s: %d %s", path, status, text)
	}
	return text
}

func (c *instance) getJSON(path string, v any) {
	c.t.Helper()
	text := c.get(path)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		c.t.Fatalf("GET %s: %v in %s", path, err, text)
	}
}

// job returns one job with its ledger.
func (c *instance) job(id string) job {
	c.t.Helper()
	var j job
	c.getJSON("/anvil/jobs/"+id, &j)
	return j
}

// waitState returns the job as soon as it is in that state.
func (c *instance) waitState(id, state string, within time.Duration) job {
	c.t.Helper()
	var j job
	waitFor(c.t, within, "job "+id+" becoming "+state, func() bool {
		j = c.job(id)
		return j.State == state
	})
	return j
}

// jobs walks the whole list of a filter.
func (c *instance) jobs(filter string) []job {
	c.t.Helper()
	var all []job
	cursor := ""
	for {
		var page struct {
			Jobs       []job  `json:"jobs"`
			NextCursor string `json:"nextCursor"`
		}
		c.getJSON("/anvil/jobs?limit=200&"+filter+"&cursor="+url.QueryEscape(cursor), &page)
		all = append(all, page.Jobs...)
		if page.NextCursor == "" {
			return all
		}
		cursor = page.NextCursor
	}
}

func (c *instance) event(id string) storedEvent {
	c.t.Helper()
	var e storedEvent
	c.getJSON("/anvil/events/"+id, &e)
	return e
}

// events walks the whole list of events, which come without headers and body.
func (c *instance) events(filter string) []storedEvent {
	c.t.Helper()
	var all []storedEvent
	cursor := ""
	for {
		var page struct {
			Events     []storedEvent `json:"events"`
			NextCursor string        `json:"nextCursor"`
		}
		c.getJSON("/anvil/events?limit=200&"+filter+"&cursor="+url.QueryEscape(cursor), &page)
		all = append(all, page.Events...)
		if page.NextCursor == "" {
			return all
		}
		cursor = page.NextCursor
	}
}

// stats is the number of jobs in each state, over all queues.
func (c *instance) stats() (states map[string]int, unrouted int) {
	c.t.Helper()
	type counts struct {
		Pending, Running, Delivered, Dead, Cancelled, Replayed, Observed int
	}
	var s struct {
		Queues   []counts `json:"queues"`
		Unrouted int      `json:"unrouted"`
	}
	c.getJSON("/anvil/stats", &s)
	states = map[string]int{}
	for _, q := range s.Queues {
		for state, n := range map[string]int{
			"pending": q.Pending, "running": q.Running, "delivered": q.Delivered, "dead": q.Dead,
			"cancelled": q.Cancelled, "replayed": q.Replayed, "observed": q.Observed,
		} {
			states[state] += n
		}
	}
	return states, s.Unrouted
}

// settled waits until nothing is pending or running.
func (c *instance) settled(within time.Duration) {
	c.t.Helper()
	waitFor(c.t, within, "every job reaching its end", func() bool {
		states, _ := c.stats()
		return states["pending"]+states["running"] == 0
	})
}

// replay asks for a fresh copy and returns the status and the new job's id.
func (c *instance) replay(id string, force bool) (status int, newID, reason string) {
	c.t.Helper()
	body, _ := json.Marshal(map[string]any{"jobId": id, "force": force})
	status, text := c.call(http.MethodPost, "/anvil/replay", string(body))
	var r struct {
		Replayed bool   `json:"replayed"`
		JobID    string `json:"jobId"`
		Reason   string `json:"reason"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		c.t.Fatalf("replay answered %d %s", status, text)
	}
	if r.Replayed != (status == http.StatusOK) {
		c.t.Fatalf("replay answered %d with replayed %v", status, r.Replayed)
	}
	return status, r.JobID, r.Reason
}

// cancel reports whether the job was cancelled.
func (c *instance) cancel(id string) bool {
	c.t.Helper()
	status, text := c.call(http.MethodPost, "/anvil/jobs/"+id+"/cancel", "")
	var r struct {
		Cancelled bool `json:"cancelled"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
		c.t.Fatalf("cancel answered %d %s", status, text)
	}
	return r.Cancelled
}

// metric sums the samples of one metric whose labels contain all the parts; ok is false when there is none.
func (c *instance) metric(name string, labels ...string) (sum float64, ok bool) {
	c.t.Helper()
	for _, line := range strings.Split(c.get("/metrics"), "\n") {
		rest, found := strings.CutPrefix(line, name)
		if !found || rest == "" || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		if !containsAll(rest, labels) {
			continue
		}
		var v float64
		if err := json.Unmarshal([]byte(rest[strings.LastIndexByte(rest, ' ')+1:]), &v); err == nil {
			sum, ok = sum+v, true
		}
	}
	return sum, ok
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
