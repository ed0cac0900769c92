package anvil

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/admin"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/sqlite"
)

const unknownJob = "01890000-0000-7000-8000-000000000000"

// adminMux mounts routes as Caddy's admin endpoint does: on a ServeMux, with errors that are an APIError, by value and not
// wrapped, written as their status and everything else as a 500.
func adminMux(routes []caddy.AdminRoute) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.Pattern, func(w http.ResponseWriter, req *http.Request) {
			err := r.Handler.ServeHTTP(w, req)
			if err == nil {
				return
			}
			answer, ok := err.(caddy.APIError) //nolint:errorlint // as Caddy does
			if !ok {
				answer = caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err}
			}
			answer.Message = answer.Error()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(answer.HTTPStatus)
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	return mux
}

// adminAPI is the API over a real store.
type adminAPI struct {
	*testing.T
	mux   http.Handler
	store store.Store
}

func newAdminAPI(t *testing.T) *adminAPI {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "anvil.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	service := &admin.Service{Store: s, NewID: func() event.ID { return uuid.Must(uuid.NewV7()) }}
	return &adminAPI{T: t, store: s, mux: adminMux(adminRoutes(func() (*admin.Service, error) { return service, nil }))}
}

// accept stores a webhook that says body, with one pending job.
func (a *adminAPI) accept(body string) (eventID, jobID event.ID) {
	a.Helper()
	eventID, jobID = uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	_, err := a.store.Accept(a.Context(), store.Accept{
		Event: event.Event{ID: eventID, Source: "github", Payload: (&event.Payload{Method: "POST", Body: []byte(body)}).Encode()},
		Keys:  []store.Key{{Value: strings.ReplaceAll(eventID.String(), "-", ""), TTL: 1 << 50}},
		Jobs:  []store.NewJob{{ID: jobID, Queue: "webhooks", Endpoint: "github/default"}},
	})
	if err != nil {
		a.Fatal(err)
	}
	return eventID, jobID
}

// dead stores a webhook whose job is dead.
func (a *adminAPI) dead() event.ID {
	a.Helper()
	_, id := a.accept("{}")
	lease := store.Lease{Job: id, Token: uuid.Must(uuid.NewV7()), Attempt: 1}
	lane := store.LaneID{Queue: "webhooks", Endpoint: "github/default"}
	_, err := a.store.Claim(a.Context(), store.Claim{Token: lease.Token, Lanes: []store.Lane{{LaneID: lane, Max: 1}}, Lease: 1 << 40})
	if err != nil {
		a.Fatal(err)
	}
	lost, err := a.store.Finish(a.Context(), store.Finish{
		Lease: lease, State: event.Dead, Reason: event.ReasonGone, Row: event.Attempt{Number: 1, Status: 410, Class: event.ClassStatus},
	})
	if err != nil || lost {
		a.Fatalf("finishing: lost %v, %v", lost, err)
	}
	return id
}

func (a *adminAPI) call(method, target, body string) *httptest.ResponseRecorder {
	a.Helper()
	w := httptest.NewRecorder()
	a.mux.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

// want calls and wants a status, and returns the fields of the answer.
func (a *adminAPI) want(status int, method, target, body string) map[string]any {
	a.Helper()
	w := a.call(method, target, body)
	if w.Code != status {
		a.Fatalf("%s %s: %d %s, want %d", method, target, w.Code, w.Body, status)
	}
	return a.wantJSON(w)
}

// wantJSON wants an answer that no cache may keep and that says why it is a refusal if it is one.
func (a *adminAPI) wantJSON(w *httptest.ResponseRecorder) map[string]any {
	a.Helper()
	if typ, cache := w.Header().Get("Content-Type"), w.Header().Get("Cache-Control"); typ != "application/json" || cache != "no-store" {
		a.Errorf("content type %q, cache control %q", typ, cache)
	}
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		a.Fatalf("%v in %q", err, w.Body)
	}
	if reason, _ := answer["error"].(string); w.Code >= 400 && reason == "" && answer["reason"] == nil {
		a.Errorf("%d without a reason in %s", w.Code, w.Body)
	}
	return answer
}

func TestAdminAPIAnswersEachRoute(t *testing.T) {
	a := newAdminAPI(t)
	eventID, jobID := a.accept("{}")
	if jobs := a.want(200, "GET", "/anvil/jobs?state=pending&source=github", "")["jobs"].([]any); len(jobs) != 1 {
		t.Errorf("the list of jobs is %v", jobs)
	}
	if got := a.want(200, "GET", "/anvil/jobs/"+jobID.String(), ""); got["id"] != jobID.String() || got["eventId"] != eventID.String() {
		t.Errorf("the job is %v", got)
	}
	if events := a.want(200, "GET", "/anvil/events?limit=1", "")["events"].([]any); len(events) != 1 {
		t.Errorf("the list of events is %v", events)
	}
	if got := a.want(200, "GET", "/anvil/events/"+eventID.String(), ""); got["id"] != eventID.String() || got["bodyText"] != "{}" {
		t.Errorf("the event is %v", got)
	}
	if got := a.want(200, "GET", "/anvil/stats", "")["queues"].([]any); len(got) != 1 {
		t.Errorf("the queues are %v", got)
	}
	for _, want := range []bool{true, false} {
		if got := a.want(200, "POST", "/anvil/jobs/"+jobID.String()+"/cancel", ""); got["cancelled"] != want {
			t.Errorf("cancel answered %v, want %v", got, want)
		}
	}
}

func TestAdminAPIReplaysADeadJobOnceUnlessForced(t *testing.T) {
	a := newAdminAPI(t)
	id := a.dead().String()
	for _, c := range []struct {
		force  bool
		status int
	}{{false, 200}, {false, 409}, {true, 200}} {
		got := a.want(c.status, "POST", "/anvil/replay", fmt.Sprintf(`{"jobId":%q,"force":%v}`, id, c.force))
		if got["replayed"] != (c.status == 200) || (got["jobId"] == id) != (c.status != 200) || (got["reason"] != nil) != (c.status != 200) {
			t.Errorf("force %v: %d with %v", c.force, c.status, got)
		}
	}
	got := a.want(404, "POST", "/anvil/replay", `{"jobId":"`+unknownJob+`"}`)
	if got["replayed"] != false || got["jobId"] != unknownJob {
		t.Errorf("an unknown job answered %v", got)
	}
}

func TestAdminAPIRefusesAReplayWhoseBodyIsNotExactlyWhatItTakes(t *testing.T) {
	a := newAdminAPI(t)
	id := a.dead().String()
	good := `{"jobId":"` + id + `"}`
	for body, status := range map[string]int{
		"":                                      400,
		"{":                                     400,
		"null":                                  400,
		"[]":                                    400,
		`"` + id + `"`:                          400,
		"{}":                                    400,
		`{"force":true}`:                        400,
		`{"jobId":null}`:                        400,
		`{"jobId":""}`:                          400,
		`{"jobId":"nonsense"}`:                  400,
		`{"jobId":1}`:                           400,
		`{"jobId":["` + id + `"]}`:              400,
		`{"jobId":"` + id + `","forse":1}`:      400,
		`{"jobId":"` + id + `","force":"true"}`: 400,
		good + good:                             400,
		good + "x":                              400,
		good + "]":                              400,
		"jobId=" + id:                           400,
		`{"jobId":"` + strings.Repeat("a", 70_000) + `"}`: 413,
		good + strings.Repeat(" ", 70_000):                413,
	} {
		a.want(status, "POST", "/anvil/replay", body)
	}
	if got := a.want(200, "GET", "/anvil/jobs/"+id, ""); got["state"] != "dead" {
		t.Errorf("the job is %v after refused replays", got["state"])
	}
	a.want(200, "POST", "/anvil/replay", "\n"+good+"\n")
}

func TestAdminAPIAnswersAWrongMethodWithWhatIsAllowedAndChangesNothing(t *testing.T) {
	a := newAdminAPI(t)
	_, pending := a.accept("{}")
	for path, allow := range map[string]string{
		"/anvil/jobs":                                 "GET, HEAD",
		"/anvil/jobs/" + pending.String():             "GET, HEAD",
		"/anvil/events":                               "GET, HEAD",
		"/anvil/events/" + unknownJob:                 "GET, HEAD",
		"/anvil/stats":                                "GET, HEAD",
		"/anvil/replay":                               "POST",
		"/anvil/jobs/" + pending.String() + "/cancel": "POST",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := a.call(method, path, `{"jobId":"`+pending.String()+`"}`)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != allow {
				t.Errorf("%s %s: %d, allow %q; want 405, %q", method, path, w.Code, w.Header().Get("Allow"), allow)
			}
			a.wantJSON(w)
		}
	}
	if got := a.want(200, "GET", "/anvil/jobs/"+pending.String(), ""); got["state"] != "pending" {
		t.Errorf("the job is %v", got["state"])
	}
}

func TestAdminAPIRefusesWhatItDoesNotKnow(t *testing.T) {
	a := newAdminAPI(t)
	for target, status := range map[string]int{
		"/anvil":                           404,
		"/anvil/":                          404,
		"/anvil/job":                       404,
		"/anvil/jobs/":                     404,
		"/anvil/jobs/" + unknownJob + "/x": 404,
		"/anvil/jobs/" + unknownJob:        404,
		"/anvil/events/" + unknownJob:      404,
		"/anvil/jobs/nonsense":             400,
		"/anvil/events/nonsense":           400,
		"/anvil/jobs/%00":                  400,
		"/anvil/jobs?colour=red":           400,
		"/anvil/jobs?state=asleep":         400,
		"/anvil/jobs?cursor=!":             400,
		"/anvil/jobs?state=dead;queue=x":   400,
		"/anvil/jobs?state=%zz":            400,
		"/anvil/events?limit=501":          400,
	} {
		a.want(status, "GET", target, "")
	}
	a.want(404, "POST", "/anvil/jobs/"+unknownJob+"/cancel", "")
}

func TestAdminAPIShowsTheFinalStateOfAPrunedJob(t *testing.T) {
	a := newAdminAPI(t)
	id := a.dead().String()
	a.store.Advance(1)
	for more := true; more; {
		var err error
		if more, err = a.store.Prune(t.Context(), store.Retention{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.want(410, "GET", "/anvil/jobs/"+id, ""); got["state"] != "dead" {
		t.Errorf("the answer is %v", got)
	}
	if got := a.want(410, "POST", "/anvil/replay", `{"jobId":"`+id+`"}`); got["replayed"] != false || got["jobId"] != id {
		t.Errorf("the answer to a replay is %v", got)
	}
}

func TestAdminAPIShowsABodyAsItWasWritten(t *testing.T) {
	a := newAdminAPI(t)
	eventID, _ := a.accept(`{"n":1152921506151679042,"t":"a<b>&c"}`)
	w := a.call("GET", "/anvil/events/"+eventID.String(), "")
	if want := `"bodyText":"{\"n\":1152921506151679042,\"t\":\"a<b>&c\"}"`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("the answer %s has no %s", w.Body, want)
	}
}

func TestAdminAPIIs503WithTheReasonWhileAnvilDoesNotRun(t *testing.T) {
	a := &adminAPI{T: t, mux: adminMux(adminRoutes(func() (*admin.Service, error) { return nil, errors.New("has not started yet") }))}
	if got := a.want(503, "GET", "/anvil/stats", ""); got["error"] != "has not started yet" {
		t.Errorf("the answer is %v", got)
	}
	a = newAdminAPI(t)
	if err := a.store.Close(); err != nil {
		t.Fatal(err)
	}
	a.want(503, "GET", "/anvil/jobs", "")
}

func TestAdminAPIIs503WhenNoConfigurationHasAnvil(t *testing.T) {
	a := &adminAPI{T: t, mux: adminMux(AdminAPI{}.Routes())}
	if got := a.want(503, "POST", "/anvil/replay", `{"jobId":"`+unknownJob+`"}`); !strings.Contains(got["error"].(string), "does not run") {
		t.Errorf("the answer is %v", got)
	}
}
