package anvil

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-anvil/anvil/internal/store/sqlite"
	"github.com/caddy-anvil/anvil/internal/testport"
)

const testSecret = "0123456789abcdef0123456789abcdef"

// patience bounds every wait of a test; a test that reaches it has failed.
const patience = 30 * time.Second

// site is a running Caddy with one site and one store, in this process.
type site struct {
	testing.TB
	addr, store string
	global      string // further global options
	loaded      bool
}

// newSite chooses a port and a store. load runs a configuration on them.
func newSite(t testing.TB) *site {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &site{TB: t, addr: freeAddr(t), store: filepath.Join(t.TempDir(), "anvil.db")}
}

// load adapts and loads a site block's content, with further global options. Each configuration has a port of its own:
// Caddy does not wait until the server before has stopped listening, so that on the same port it may get the next request.
func (s *site) load(block, options string) error {
	s.Helper()
	addr := s.addr
	if s.loaded {
		addr = freeAddr(s)
	}
	file := fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	default_bind 127.0.0.1
	%s
	anvil {
		store sqlite %s {
			min_free 1MiB
		}
		%s
	}
}
http://%s {
	%s
}
`, s.global, s.store, options, addr, block)
	if err := s.run(file); err != nil {
		return err
	}
	s.addr, s.loaded = addr, true
	return nil
}

// run adapts and loads a whole Caddyfile.
func (s *site) run(file string) error {
	s.Helper()
	cfg, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(file), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// A process that is just being started holds copies of all sockets for a moment, closed ones too. Caddy does not
		// wrap the error.
		err = caddy.Load(cfg, true)
		if err == nil || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return err
		}
		select {
		case <-deadline:
			return err
		case <-tick.C:
		}
	}
}

// freeAddr returns a loopback address that nobody listens on and that this run has not used before.
func freeAddr(t testing.TB) string {
	t.Helper()
	port, err := testport.Plugin.Free()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func (s *site) mustLoad(block, options string) {
	s.Helper()
	if err := s.load(block, options); err != nil {
		s.Fatal(err)
	}
}

// running is the app of the configuration that runs.
func running(t testing.TB) *App {
	t.Helper()
	app, err := appOf(caddy.ActiveContext())
	if err != nil {
		t.Fatal(err)
	}
	return app
}

func sign(body string) string {
	mac := hmac.New(sha256.New, []byte(testSecret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request with an optional change to it.
func (s *site) do(method, path, body string, change func(*http.Request)) reply {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("X-Signature", sign(body))
	r.Close = true // a kept connection may be ended by a server that stops
	if change != nil {
		change(r)
	}
	return s.roundTrip(r)
}

func (s *site) roundTrip(r *http.Request) reply {
	s.Helper()
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(b)}
}

func (s *site) post(body string) reply { s.Helper(); return s.do(http.MethodPost, "/hook", body, nil) }

func (r reply) jobID(t testing.TB) string {
	t.Helper()
	var answer struct{ JobID string }
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || answer.JobID == "" {
		t.Fatalf("answer %d %q has no job id: %v", r.status, r.body, err)
	}
	return answer.JobID
}

// upstream hands over what it gets.
func upstream(t testing.TB) (url string, got <-chan *http.Request) {
	t.Helper()
	c := make(chan *http.Request, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		c <- r
	}))
	t.Cleanup(srv.Close)
	return srv.URL, c
}

func receive(t testing.TB, c <-chan *http.Request) *http.Request {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(patience):
		t.Fatal("nothing arrived at the upstream")
		return nil
	}
}

// await polls for what nothing tells of.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

func TestAVerifiedWebhookReachesTheUpstreamUnchanged(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	s.mustLoad("anvil /hook shop {\nverify hmac "+testSecret+"\ndeliver "+url+"\n}", "")
	body := "{ \"b\":1,\n \"ä\" : \xff}"
	answer := s.do(http.MethodPost, "/hook?x=1&y=%20", body, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-odd")
		r.Header.Set("Cookie", "s=1")
	})
	if answer.status != http.StatusAccepted || answer.header.Get("Anvil-Job-Id") != answer.jobID(t) {
		t.Fatalf("answered %d %v %s", answer.status, answer.header, answer.body)
	}
	r := receive(t, got)
	b, _ := io.ReadAll(r.Body)
	if string(b) != body {
		t.Errorf("body %q arrived as %q", body, b)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/x-odd", "X-Signature": sign(body), "Anvil-Job-Id": answer.jobID(t), "Anvil-Attempt": "1",
		"Anvil-Source": "shop", "Anvil-Verified": "true", "X-Forwarded-Host": s.addr, "X-Forwarded-For": "127.0.0.1", "Cookie": "",
	} {
		if have := r.Header.Get(name); have != want {
			t.Errorf("%s is %q, want %q", name, have, want)
		}
	}
	if r.RequestURI != "/hook?x=1&y=%20" {
		t.Errorf("uri %s", r.RequestURI)
	}
}

func TestRefusals(t *testing.T) {
	s := newSite(t)
	s.mustLoad(`anvil /hook shop {
		verify hmac `+testSecret+`
		max_body 64
	}`, "")
	long := strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		method, body string
		change       func(*http.Request)
		status       int
		code         string
		header       string
	}{
		"other method":        {method: http.MethodPut, status: 405, code: "method_not_allowed", header: "Allow"},
		"get":                 {method: http.MethodGet, status: 405, code: "method_not_allowed", header: "Allow"},
		"no signature":        {change: func(r *http.Request) { r.Header.Del("X-Signature") }, status: 401, code: "invalid_signature"},
		"empty signature":     {change: func(r *http.Request) { r.Header.Set("X-Signature", "") }, status: 401, code: "invalid_signature"},
		"other body's":        {body: "a", change: func(r *http.Request) { r.Header.Set("X-Signature", sign("b")) }, status: 401, code: "invalid_signature"},
		"declared too large":  {body: long, status: 413, code: "body_too_large"},
		"chunked, too large":  {body: long, change: func(r *http.Request) { r.ContentLength = -1 }, status: 413, code: "body_too_large"},
		"at the limit":        {body: long[:64], status: 202},
		"empty body is taken": {status: 202},
	} {
		t.Run(name, func(t *testing.T) {
			if c.method == "" {
				c.method = http.MethodPost
			}
			r := s.do(c.method, "/hook", c.body, c.change)
			if r.status != c.status {
				t.Fatalf("status %d %s, want %d", r.status, r.body, c.status)
			}
			if c.code != "" && r.body != `{"error":"`+c.code+"\"}\n" {
				t.Errorf("body %q", r.body)
			}
			if c.header != "" && r.header.Get(c.header) == "" {
				t.Errorf("no header %s in %v", c.header, r.header)
			}
		})
	}
}

func TestADuplicateGetsTheFirstIDs(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver "+url+" a\ndeliver "+url+" b\n}", "")
	first, second := s.post("x"), s.post("x")
	if want := strings.Replace(first.body, `"replayed":false`, `"replayed":true`, 1); second.body != want || second.status != 202 {
		t.Errorf("first %s, then %d %s", first.body, second.status, second.body)
	}
	ids := map[string]bool{}
	for range 2 {
		ids[receive(t, got).Header.Get("Anvil-Job-Id")] = true
	}
	if len(ids) != 2 || !strings.Contains(first.body, `"jobIds":["`+first.jobID(t)+`","`) {
		t.Errorf("jobs %v for %s", ids, first.body)
	}
	if len(got) != 0 {
		t.Error("delivered more than once to an endpoint")
	}
}

func TestOneBodyUnderTwoSignaturesIsTwoEvents(t *testing.T) {
	s := newSite(t)
	const other = "another-secret-0123456789"
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+" "+other+"\n}", "")
	mac := hmac.New(sha256.New, []byte(other))
	mac.Write([]byte("x"))
	resign := func(r *http.Request) { r.Header.Set("X-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil))) }
	first, second := s.post("x"), s.do(http.MethodPost, "/", "x", resign)
	if replayed(second) || first.jobID(t) == second.jobID(t) {
		t.Errorf("first %s, under another signature %s", first.body, second.body)
	}
	if again := s.do(http.MethodPost, "/", "x", resign); again.jobID(t) != second.jobID(t) {
		t.Errorf("the second again: %s", again.body)
	}
}

func TestRespondReplacesTheAnswerButNotTheID(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\nrespond 200 ok\n}", "")
	r := s.post("x")
	if r.status != 200 || r.body != "ok" || r.header.Get("Anvil-Job-Id") == "" {
		t.Errorf("answered %d %q %v", r.status, r.body, r.header)
	}
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\nrespond 200 \"\"\n}", "")
	if r := s.post("x"); r.status != 200 || r.body != "" || r.header.Get("Anvil-Job-Id") == "" {
		t.Errorf("answered %d %q %v, want no body", r.status, r.body, r.header)
	}
}

func TestADuplicateIsMarkedWhateverTheBody(t *testing.T) {
	for _, answer := range []string{"", "respond 200 \"\""} {
		s := newSite(t)
		s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\n"+answer+"\n}", "")
		first, again := s.post("x"), s.post("x")
		if first.header.Get("Anvil-Replayed") != "" || again.header.Get("Anvil-Replayed") != "true" {
			t.Errorf("%q: the first answer has %v, the second %v; want the second marked", answer, first.header, again.header)
		}
	}
}

func TestTenantsDoNotShareKeys(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ntenant {http.request.header.X-Tenant}\n}", "")
	as := func(tenant string) string {
		return s.do(http.MethodPost, "/", "x", func(r *http.Request) { r.Header.Set("X-Tenant", tenant) }).jobID(t)
	}
	if a, b, again := as("a"), as("b"), as("a"); a == b || a != again {
		t.Errorf("a %s, b %s, a again %s", a, b, again)
	}
}

func TestATenantByHostIsOneInWhateverCaseItIsWritten(t *testing.T) {
	s := newSite(t)
	s.addr = strings.Replace(s.addr, "127.0.0.1", "localhost", 1)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ntenant {host}\n}", "")
	as := func(host string) string {
		return s.do(http.MethodPost, "/", "x", func(r *http.Request) { r.Host = host }).jobID(t)
	}
	first := as(s.addr)
	for _, spelling := range []string{"LocalHost", "[localhost]"} {
		if as(strings.Replace(s.addr, "localhost", spelling, 1)) != first {
			t.Errorf("a captured webhook is a new one at %s", spelling)
		}
	}
}

func TestVerifyNoneNeedsNoProofAndSaysSoToTheUpstream(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	s.mustLoad("anvil shop {\nverify none\ndeliver "+url+"\n}", "")
	if r := s.do(http.MethodPost, "/", "x", func(r *http.Request) { r.Header.Del("X-Signature") }); r.status != 202 {
		t.Fatalf("answered %d %s", r.status, r.body)
	}
	if v := receive(t, got).Header.Get("Anvil-Verified"); v != "false" {
		t.Errorf("Anvil-Verified is %q", v)
	}
}

func TestAnyOfSeveralVerifiersIsEnough(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\nverify github another-secret-0123\n}", "")
	if r := s.post("x"); r.status != 202 {
		t.Errorf("hmac alone: %d %s", r.status, r.body)
	}
	mac := hmac.New(sha256.New, []byte("another-secret-0123"))
	mac.Write([]byte("y"))
	r := s.do(http.MethodPost, "/", "y", func(r *http.Request) {
		r.Header.Del("X-Signature")
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	})
	if r.status != 202 {
		t.Errorf("github alone: %d %s", r.status, r.body)
	}
	if r := s.do(http.MethodPost, "/", "z", func(r *http.Request) { r.Header.Del("X-Signature") }); r.status != 401 {
		t.Errorf("neither: %d %s", r.status, r.body)
	}
}

func TestOnlyVerifiedWebhooksUseUpTheSourcesRate(t *testing.T) {
	for _, reportOnly := range []bool{false, true} {
		s, options, forged := newSite(t), "", 401
		if reportOnly {
			options, forged = " {\nreport_only\n}", 202
		}
		s.mustLoad("anvil shop {\nverify hmac "+testSecret+options+"\nrate_limit source 1 1h\n}", "")
		for i := range 3 {
			r := s.do(http.MethodPost, "/", strconv.Itoa(i), func(r *http.Request) { r.Header.Set("X-Signature", sign("y")) })
			if r.status != forged {
				t.Fatalf("%q: forgery: %d, want %d", options, r.status, forged)
			}
		}
		if r := s.post("x"); r.status != 202 {
			t.Fatalf("%q: first genuine: %d %s", options, r.status, r.body)
		}
		r := s.post("y")
		if r.status != 429 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "rate_limited") {
			t.Errorf("%q: second genuine: %d %v %s", options, r.status, r.header, r.body)
		}
	}
}

func TestTheBacklogLimitRefusesNewWorkAndAnswersDuplicates(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver localhost:1\n}", "workers off\nqueue webhooks {\nmax_pending 1\n}")
	first := s.post("x")
	r := s.post("y")
	if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "backlog_full") {
		t.Errorf("new work: %d %v %s", r.status, r.header, r.body)
	}
	if again := s.post("x"); again.status != 202 || again.jobID(t) != first.jobID(t) {
		t.Errorf("duplicate: %d %s", again.status, again.body)
	}
	// What was refused has left no key behind.
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver localhost:1\n}", "workers off\nqueue webhooks {\nmax_pending 2\n}")
	if r := s.post("y"); r.status != 202 || !strings.Contains(r.body, `"replayed":false`) {
		t.Errorf("the refused one again: %d %s", r.status, r.body)
	}
}

func TestAReloadKeepsTheStoreAndAppliesNewSettings(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver localhost:1\n}", "workers off")
	id := s.post("x").jobID(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver "+url+"\n}", "")
	if r := receive(t, got); r.Header.Get("Anvil-Job-Id") != id {
		t.Errorf("delivered %s, want %s", r.Header.Get("Anvil-Job-Id"), id)
	}
	if again := s.post("x"); again.jobID(t) != id {
		t.Error("the key was forgotten")
	}
}

func TestARejectedReloadLeavesTheOldConfigurationAtWork(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver "+url+"\n}", "")
	for _, bad := range []string{
		"anvil shop {\nverify hmac short\n}",
		"anvil shop {\nverify hmac {env.ANVIL_NOT_SET}\n}",
		"anvil shop {\nverify hmac " + testSecret + "\nqueue other\n}",
	} {
		if err := s.load(bad, ""); err == nil {
			t.Fatalf("loaded %s", bad)
		}
		s.post(bad)
		receive(t, got)
	}
}

func TestAReloadChangesSecretsAndEndpoints(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\n}", "")
	s.post("before")
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver "+url+"\n}", "")
	if id := s.post("after").jobID(t); receive(t, got).Header.Get("Anvil-Job-Id") != id {
		t.Error("the new endpoint got something else than the first webhook after its coming")
	}
	s.mustLoad("anvil shop {\nverify hmac another-secret-0123456789\ndeliver "+url+"\n}", "")
	if r := s.post("x"); r.status != http.StatusUnauthorized {
		t.Errorf("signed with the removed secret: %d %s", r.status, r.body)
	}
}

func TestAStoreThatIsAwayGives503(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil_health /ready\nanvil shop {\nverify hmac "+testSecret+"\n}", "")
	if err := openEngines()[0].store.Close(); err != nil {
		t.Fatal(err)
	}
	before := requests("shop", "refused", "store_unavailable")
	r := s.post("x")
	if r.status != 503 || r.body != `{"error":"store_unavailable"}`+"\n" || r.header.Get("Retry-After") == "" {
		t.Errorf("webhook: %d %q %v", r.status, r.body, r.header)
	}
	if n := requests("shop", "refused", "store_unavailable") - before; n != 1 {
		t.Errorf("counted %v refusals, want 1", n)
	}
	if r := s.do(http.MethodGet, "/ready", "", nil); r.status != 503 || strings.Contains(r.body, s.store) {
		t.Errorf("readiness: %d %s", r.status, r.body)
	}
}

func TestARequestBeforeTheStartGives503(t *testing.T) {
	app := &App{started: make(chan struct{})}
	src, err := newSource(&SourceConfig{Source: "shop", Verify: []VerifyConfig{{Provider: "none"}}}, 1, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	w := httptest.NewRecorder()
	h := &Handler{app: app, source: src}
	if err := h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), nil); err != nil {
		t.Fatal(err)
	}
	if w.Code != 503 || w.Body.String() != `{"error":"not_ready"}`+"\n" || w.Header().Get("Retry-After") == "" {
		t.Errorf("answered %d %q %v", w.Code, w.Body, w.Header())
	}
}

func TestARequestBeforeTheStartWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "anvil.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		app := &App{started: make(chan struct{})}
		src, err := newSource(&SourceConfig{Source: "early", Verify: []VerifyConfig{{Provider: "none"}}}, 1, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		src.start(zap.NewNop(), db.Describe())
		w := httptest.NewRecorder()
		done := make(chan error, 1)
		go func() {
			h := &Handler{app: app, source: src}
			done <- h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("x")), nil)
		}()
		<-time.After(time.Second) // of the bubble's clock: what Caddy's other apps may take until they have started
		synctest.Wait()
		if len(done) != 0 {
			t.Fatalf("answered %d %s before the start", w.Code, w.Body)
		}
		app.engine.Store(&engine{store: db})
		close(app.started)
		if err := <-done; err != nil || w.Code != http.StatusAccepted || w.Header().Get("Anvil-Job-Id") == "" {
			t.Errorf("answered %d %s %v", w.Code, w.Body, err)
		}
	})
}

func TestBodiesInFlightAreBoundedInBytes(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\nmax_body 60B\nmax_in_flight 10 100B\nread_timeout 1h\n}", "")
	slow, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "POST / HTTP/1.1\r\nHost: %s\r\nX-Signature: %s\r\nContent-Length: 60\r\nExpect: 100-continue\r\n\r\n", s.addr, sign("x"))
	// The server asks for the body once it has reserved room for it.
	if line, err := bufio.NewReader(slow).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	if r := s.post(strings.Repeat("y", 60)); r.status != 429 || !strings.Contains(r.body, "too_busy") || r.header.Get("Retry-After") == "" {
		t.Errorf("answered %d %s %v", r.status, r.body, r.header)
	}
	// Nor is there room for a body that the head of its request has refused already.
	if r := s.do(http.MethodPost, "/", strings.Repeat("y", 60), func(r *http.Request) { r.Header.Del("X-Signature") }); r.status != 401 {
		t.Errorf("without a signature: %d %s, want 401", r.status, r.body)
	}
}

// begin sends the head of a webhook, and a part of its body, over a connection of its own.
func (s *site) begin(body string, header ...string) net.Conn {
	s.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /hook HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n%s", s.addr, strings.Join(header, "\r\n"), body)
	return conn
}

// answer is the first line of what the server says, an interim answer for one that wants the body.
func answer(t testing.TB, conn net.Conn) string {
	t.Helper()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Errorf("no answer: %v", err)
	}
	return strings.TrimSpace(line)
}

func TestTheBytesOfABodyAreFreeAgainAfterItsAnswer(t *testing.T) {
	const size = 60
	body := func(of string) string { return strings.Repeat(of, size) }
	forged := func(r *http.Request) { r.Header.Set("X-Signature", sign("another")) }
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	status := func(want int) func(*testing.T, reply) {
		return func(t *testing.T, r reply) {
			t.Helper()
			if r.status != want {
				t.Errorf("answered %d %s, want %d", r.status, r.body, want)
			}
		}
	}
	signature := "X-Signature: " + sign(body("b"))
	for name, send := range map[string]func(t *testing.T, s *site){
		"accepted":           func(t *testing.T, s *site) { status(202)(t, s.post(body("a"))) },
		"accepted, chunked":  func(t *testing.T, s *site) { status(202)(t, s.do(http.MethodPost, "/hook", body("a"), chunked)) },
		"duplicate":          func(t *testing.T, s *site) { status(202)(t, s.post(body("a"))); status(202)(t, s.post(body("a"))) },
		"forged":             func(t *testing.T, s *site) { status(401)(t, s.do(http.MethodPost, "/hook", body("a"), forged)) },
		"too large, chunked": func(t *testing.T, s *site) { status(413)(t, s.do(http.MethodPost, "/hook", body("ab"), chunked)) },
		"stalled": func(t *testing.T, s *site) {
			if line := answer(t, s.begin("b", signature, "Content-Length: 60")); !strings.HasPrefix(line, "HTTP/1.1 408 ") {
				t.Errorf("answered %q, want 408", line)
			}
		},
		"cut off": func(t *testing.T, s *site) {
			conn := s.begin("b", signature, "Content-Length: 60")
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if line := answer(t, conn); !strings.HasPrefix(line, "HTTP/1.1 400 ") {
				t.Errorf("answered %q, want 400", line)
			}
		},
		"without a place in the store": func(t *testing.T, s *site) {
			status(202)(t, s.post("x"))
			status(202)(t, s.post("y"))
			status(503)(t, s.post(body("a")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			timeout := "1h"
			if name == "stalled" {
				timeout = "100ms"
			}
			s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\nmax_body 60B\nmax_in_flight 10 60B\nread_timeout "+timeout+"\ndeliver localhost:1\n}",
				"workers off\nqueue webhooks {\nmax_pending 2\n}")
			send(t, s)
			if used := size - bytesThatFit(running(t).sources["shop"]); used != 0 {
				t.Errorf("%d bytes are held after the answer", used)
			}
		})
	}
}

func TestAWebhookWithoutASignatureIsRefusedBeforeItsBody(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\nread_timeout 1h\n}", "")
	// Nothing of the body is sent, so that whoever wants it asks for it.
	head := []string{"Content-Length: 60", "Expect: 100-continue"}
	for name, c := range map[string]struct {
		header []string
		want   string
	}{
		"no signature": {head, "HTTP/1.1 401 Unauthorized"},
		"a signature":  {append(head, "X-Signature: "+sign("x")), "HTTP/1.1 100 Continue"},
	} {
		t.Run(name, func(t *testing.T) {
			if line := answer(t, s.begin("", c.header...)); line != c.want {
				t.Errorf("answered %q, want %q", line, c.want)
			}
		})
	}
}

func TestTheRateOfASourceIsOneForAllItsSenders(t *testing.T) {
	s := newSite(t)
	s.global = "servers {\ntrusted_proxies static 127.0.0.1/32\n}"
	s.mustLoad("header >X-Log \"{http.anvil.reason}\"\nanvil shop {\nverify hmac "+testSecret+"\nrate_limit ip 1 1h\nrate_limit source 1 1h\n}", "")
	from := func(ip, body string) (status int, reason string) {
		r := s.do(http.MethodPost, "/", body, func(r *http.Request) { r.Header.Set("X-Forwarded-For", ip) })
		return r.status, r.header.Get("X-Log")
	}
	for _, c := range []struct {
		ip, body, reason string
		status           int
	}{
		{"198.51.100.1", "x", "", 202},
		{"198.51.100.1", "y", "rate_limit_ip", 429},
		{"198.51.100.2", "y", "rate_limit_source", 429}, // another address, else it would be refused for that
		{"2001:db8::1", "y", "rate_limit_source", 429},
	} {
		if status, reason := from(c.ip, c.body); status != c.status || reason != c.reason {
			t.Errorf("%s from %s: %d %q, want %d %q", c.body, c.ip, status, reason, c.status, c.reason)
		}
	}
}

func TestOutcomesAreThereForLogs(t *testing.T) {
	s := newSite(t)
	s.mustLoad("header >X-Log \"{http.anvil.outcome} {http.anvil.reason} {http.anvil.job_id}\"\nanvil shop {\nverify hmac "+testSecret+"\n}", "")
	first := s.post("x")
	for want, r := range map[string]reply{
		"accepted  " + first.jobID(t):  first,
		"duplicate  " + first.jobID(t): s.post("x"),
		"refused missing_header ":      s.do(http.MethodPost, "/", "x", func(r *http.Request) { r.Header.Del("X-Signature") }),
		"refused no_match ":            s.do(http.MethodPost, "/", "x", func(r *http.Request) { r.Header.Set("X-Signature", sign("y")) }),
	} {
		if have := r.header.Get("X-Log"); strings.TrimSpace(have) != strings.TrimSpace(want) {
			t.Errorf("logged %q, want %q", have, want)
		}
	}
}

func TestATenantThatCannotBeResolvedIsRefused(t *testing.T) {
	s := newSite(t)
	for _, unknown := range []string{"{hots}", "{http.request.headers.X-Tenant}"} {
		if err := s.load("anvil shop {\nverify none\ntenant "+unknown+"\n}", ""); err == nil || !strings.Contains(err.Error(), "unknown placeholder") {
			t.Errorf("tenant %s: %v", unknown, err)
		}
	}
	s.mustLoad("anvil shop {\nverify none\ntenant {some.plugin.name}\n}", "")
	if r := s.post("x"); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("answered %d %s", r.status, r.body)
	}
	// It goes into every list, and a sender may choose it.
	s.mustLoad("anvil shop {\nverify none\ntenant {http.request.header.X-Tenant}\n}", "")
	for length, want := range map[int]int{tenantMax: http.StatusAccepted, tenantMax + 1: http.StatusServiceUnavailable} {
		r := s.do(http.MethodPost, "/", "x", func(r *http.Request) { r.Header.Set("X-Tenant", strings.Repeat("t", length)) })
		if r.status != want {
			t.Errorf("a tenant of %d bytes is answered %d %s, want %d", length, r.status, r.body, want)
		}
	}
}

func TestSeriesOfARemovedEndpointGo(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	attemptsTotal.Reset() // of what other tests left
	deadTotal.Reset()
	series := func() int { return testutil.CollectAndCount(attemptsTotal) }
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver "+url+" a\ndeliver "+url+" b\n}", "")
	s.post("x")
	receive(t, got)
	receive(t, got)
	await(t, "both attempts are counted", func() bool { return series() == 2 })
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver "+url+" a\n}", "")
	if n := series(); n != 1 {
		t.Errorf("%d series after one endpoint went", n)
	}
	workerMetrics{}.Dead("shop", "shop/b", "no_endpoint")
	if n := testutil.ToFloat64(deadTotal.WithLabelValues("unconfigured", "unconfigured", "no_endpoint")); n != 1 {
		t.Errorf("%v deaths of unconfigured endpoints, want 1", n)
	}
}

func TestHealth(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil_health /live live\nanvil_health /ready\nanvil shop {\nverify none\n}", "")
	// While the disk takes longer than a check may take, a store is not ready.
	ask := func(method, path string) (r reply) {
		await(t, path+" is well", func() bool { r = s.do(method, path, "", nil); return r.status == 200 })
		return r
	}
	for path, want := range map[string]string{
		"/live":  `{"status":"live"}`,
		"/ready": `{"status":"ready","stores":[{"store":"sqlite","status":"ok"}],"workers":"on","unrouted":0}`,
	} {
		r := ask(http.MethodGet, path)
		if strings.TrimSpace(r.body) != want || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
	}
	if r := s.do(http.MethodPost, "/ready", "", nil); r.status != 405 || r.header.Get("Allow") == "" {
		t.Errorf("post: %d %v", r.status, r.header)
	}
	if r := ask(http.MethodHead, "/ready"); r.body != "" {
		t.Errorf("head: %q", r.body)
	}
}

func TestSecretsFromAFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"none": testSecret, "lf": testSecret + "\n", "crlf": testSecret + "\r\n", "two": "newer-secret-0123456789\n" + testSecret + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newSite(t)
			s.mustLoad("anvil shop {\nverify hmac {file."+path+"}\n}", "")
			if r := s.post("x"); r.status != 202 {
				t.Errorf("answered %d %s", r.status, r.body)
			}
		})
	}
}

func TestTheSameSourceTwiceHasToBeEqual(t *testing.T) {
	s := newSite(t)
	block := "anvil /%s shop {\nverify hmac " + testSecret + "\nmax_body %s\n}\n"
	if err := s.load(fmt.Sprintf(block+block, "a", "1KiB", "b", "1KiB"), ""); err != nil {
		t.Error(err)
	}
	err := s.load(fmt.Sprintf(block+block, "a", "1KiB", "b", "2KiB"), "")
	if err == nil || !strings.Contains(err.Error(), "shop") {
		t.Errorf("different settings: %v", err)
	}
}

// A Caddyfile names lines instead, see testdata/adapt.
func TestASourceWithTwoSettingsNamesBothPlaces(t *testing.T) {
	s := newSite(t)
	other := freeAddr(t)
	settings := func(most string) string {
		return `"source":"shop","verify":[{"provider":"hmac","secrets":["` + testSecret + `"]}],"max_body":` + most
	}
	server := func(addr, most string) string {
		return `"` + addr + `":{"listen":["` + addr + `"],"automatic_https":{"disable":true},"routes":[{"handle":[{"handler":"anvil",` + settings(most) + `}]}]}`
	}
	for name, c := range map[string]struct {
		servers, global string
		places          []string
	}{
		"two sites":                    {server(s.addr, "1024") + "," + server(other, "2048"), "", []string{"the site that listens on " + s.addr, "the site that listens on " + other}},
		"a site and the global option": {server(s.addr, "1024"), "{" + settings("2048") + "}", []string{"the site that listens on " + s.addr, "the global option"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := `{"admin":{"disabled":true,"config":{"persist":false}},"apps":{"http":{"servers":{` + c.servers + `}},"anvil":{"sources":[` + c.global + `]}}}`
			err := caddy.Load([]byte(config), true)
			if err == nil {
				t.Fatal("loaded")
			}
			for _, want := range append(c.places, "source 'shop'", "has other settings") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error: %v", want, err)
				}
			}
		})
	}
}

func TestAReloadThatLeavesAStoreSaysHowMuchIsStillInIt(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "log")
	s.global = "log {\noutput file " + file + "\nformat json\n}"
	// lines are those about a store that is left.
	lines := func() (found []map[string]any) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var fields map[string]any
			if strings.Contains(line, "unfinished jobs") && json.Unmarshal([]byte(line), &fields) == nil {
				found = append(found, fields)
			}
		}
		return found
	}
	move := func() (from string) {
		from = openEngines()[0].store.Describe()
		s.store = filepath.Join(t.TempDir(), "another.db")
		s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver localhost:1\n}", "workers off")
		if left := openEngines(); len(left) != 1 || left[0].store.Describe() == from {
			t.Fatalf("%d stores open after the reload", len(left))
		}
		return from
	}
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndeliver localhost:1 a\ndeliver localhost:1 b\n}", "workers off")
	s.post("x")
	s.post("y")
	left := move()
	if found := lines(); len(found) != 1 || found[0]["jobs"] != 4.0 || found[0]["store"] != left || found[0]["level"] != "info" {
		t.Fatalf("logged %v, want the 4 jobs of %s", found, left)
	}
	move() // away from one with nothing in it
	if found := lines(); len(found) != 1 {
		t.Errorf("logged %v of a store that is empty", found[1:])
	}
}

func TestACleanupThatComesTwiceLeavesTheNextConfigurationItsStore(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify none\n}", "")
	app, err := caddy.ActiveContext().AppIfConfigured("anvil")
	if err != nil {
		t.Fatal(err)
	}
	s.mustLoad("anvil shop {\nverify none\n}", "") // which has cleaned up the first
	if err := app.(*App).Cleanup(); err != nil {
		t.Fatal(err)
	}
	if r := s.post("x"); r.status != 202 {
		t.Errorf("answered %d %s", r.status, r.body)
	}
}

func TestASecondStoreIsClosedWhenNoConfigurationUsesIt(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify none\n}", "")
	if n := len(openEngines()); n != 1 {
		t.Fatalf("%d stores open", n)
	}
	s.store = filepath.Join(t.TempDir(), "other.db")
	s.mustLoad("anvil shop {\nverify none\n}", "")
	if n := len(openEngines()); n != 1 {
		t.Errorf("%d stores open after a change of the path", n)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(openEngines()); n != 0 {
		t.Errorf("%d stores open after the stop", n)
	}
}
