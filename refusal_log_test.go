package anvil

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// desk is a handler that has started, has no store, and of which the log can be read.
type desk struct {
	*Handler
	logs *observer.ObservedLogs
}

func newDesk(t *testing.T, source string, v ...VerifyConfig) desk {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	return newDeskOf(t, &SourceConfig{Source: source, Verify: v}, zap.New(core), logs)
}

func newDeskOf(t *testing.T, c *SourceConfig, log *zap.Logger, logs *observer.ObservedLogs) desk {
	t.Helper()
	s, err := newSource(c, 1, log)
	if err != nil {
		t.Fatal(err)
	}
	s.start(log, "no store")
	t.Cleanup(func() { forgetSecrets(c.Source) })
	started := make(chan struct{})
	close(started)
	return desk{&Handler{app: &App{started: started}, source: s}, logs}
}

// post signs an event and changes it before it is sent.
func (d desk) post(t *testing.T, p signer, at time.Time, body string, change func(*verify.Request)) int {
	t.Helper()
	v := &verify.Request{Method: http.MethodPost, URL: "http://hooks.example.test/in", Header: http.Header{}, Body: []byte(body)}
	if err := verify.Sign(p.ID, p.keys, p.options, v, at); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(v)
	}
	r := httptest.NewRequestWithContext(t.Context(), v.Method, v.URL, bytes.NewReader(v.Body))
	r.Header = v.Header
	w := httptest.NewRecorder()
	if err := d.ServeHTTP(w, r, nil); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

// line is the last line that tells of a refusal.
func (d desk) line(t *testing.T) map[string]any {
	t.Helper()
	lines := d.logs.FilterMessageSnippet("refused webhook").All()
	if len(lines) == 0 {
		t.Fatalf("no refusal is logged: %v", d.logs.All())
	}
	return lines[len(lines)-1].ContextMap()
}

func TestARefusalIsExplainedToTheOperator(t *testing.T) {
	configured := func(id, secret string) VerifyConfig { return VerifyConfig{Provider: id, Secrets: []string{secret}} }
	for _, c := range []struct {
		name   string
		verify VerifyConfig
		at     time.Duration
		body   string
		change func(*verify.Request)
		reason string
		hint   string
	}{
		{"another secret", configured("github", "another-secret-0123456789"), 0, "{}", nil, "no_match", ""},
		{"a secret in quotes", configured("github", `"`+testSecret+`"`), 0, "{}", nil, "no_match", "quotes"},
		{"white space around the secret", configured("github", testSecret+" "), 0, "{}", nil, "no_match", "white space"},
		{"a line break behind the body", configured("github", testSecret), 0, "{}", func(r *verify.Request) { r.Body = []byte("{}\n") }, "no_match", "line break"},
		{"base64 in place of hex", configured("github", testSecret), 0, "{}", func(r *verify.Request) {
			text, _ := strings.CutPrefix(sign("{}"), "sha256=")
			var sum []byte
			fmt.Sscanf(text, "%x", &sum)
			r.Header.Set("X-Hub-Signature-256", "sha256="+base64.StdEncoding.EncodeToString(sum))
		}, "malformed_signature", "base64"},
		{"a clock that is late", configured("stripe", testSecret), -time.Hour, "{}", nil, "too_old", "behind this machine's clock"},
		{"no signature", configured("github", testSecret), 0, "{}", func(r *verify.Request) { r.Header.Del("X-Hub-Signature-256") }, "missing_header", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, "explained", c.verify)
			sender := as(t, c.verify.Provider, nil)
			if status := d.post(t, sender, time.Now().Add(c.at), c.body, c.change); status != 401 {
				t.Fatalf("answered %d", status)
			}
			line := d.line(t)
			hints := fmt.Sprint(line["hints"])
			if line["reason"] != c.reason || !strings.Contains(hints, c.hint) || c.hint == "" && hints != "[]" {
				t.Errorf("logged %v", line)
			}
			if text := fmt.Sprint(d.logs.All()); strings.Contains(text, testSecret) || strings.Contains(text, "another-secret") {
				t.Errorf("the log shows a secret: %s", text)
			}
		})
	}
}

func TestAMissingHeaderIsNamedAndSoIsWhoeverSendsTheOther(t *testing.T) {
	d := newDesk(t, "missing", VerifyConfig{Provider: "stripe", Secrets: []string{testSecret}})
	d.post(t, as(t, "linear", nil), time.Now(), "{}", nil)
	if line := d.line(t); line["reason"] != "missing_header" || fmt.Sprint(line["expected"]) != "[Stripe-Signature]" || fmt.Sprint(line["resembles"]) != "[linear]" {
		t.Errorf("logged %v", line)
	}
}

func TestASenderWithTheOldSecretIsRecognised(t *testing.T) {
	github := as(t, "github", nil)
	newDesk(t, "recognised", VerifyConfig{Provider: "github", Secrets: []string{testSecret}})
	for range 2 { // a reload that changes nothing forgets nothing
		d := newDesk(t, "recognised", VerifyConfig{Provider: "github", Secrets: []string{"newer-secret-0123456789"}})
		if status := d.post(t, github, time.Now(), "{}", nil); status != 401 || !strings.Contains(fmt.Sprint(d.line(t)["hints"]), "previous secret") {
			t.Errorf("answered %d, logged %v", status, d.line(t))
		}
	}
}

func TestFormerSecretsGoWithTheirSource(t *testing.T) {
	useSecrets("gone", []string{"a", "b"})
	if before := useSecrets("gone", []string{"c", "b"})(); len(before) != 1 || before[0] != "a" {
		t.Errorf("before the change there was %q", before)
	}
	if before := useSecrets("gone", []string{"c", "b"})(); len(before) != 1 {
		t.Errorf("after a reload without a change: %q", before)
	}
	holdSeries([]string{"gone"})
	releaseSeries([]string{"gone"})
	if before := useSecrets("gone", []string{"c"})(); len(before) != 0 {
		t.Errorf("a source that came back remembers %q", before)
	}
	forgetSecrets("gone")
}

func TestATokenThatIsHandedOverIsLoggedOnce(t *testing.T) {
	d := newDesk(t, "handed", VerifyConfig{Provider: "asana"})
	shake := func(token string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
		r.Header.Set("X-Hook-Secret", token)
		w := httptest.NewRecorder()
		if err := d.ServeHTTP(w, r, nil); err != nil || w.Code != 200 || w.Header().Get("X-Hook-Secret") != token {
			t.Errorf("answered %d %v: %v", w.Code, w.Header(), err)
		}
	}
	for _, token := range []string{"token-1", "token-1", "token-2", "token-1", "token-2"} {
		shake(token)
	}
	lines := d.logs.FilterMessageSnippet("handed over a secret").All()
	if len(lines) != 2 || lines[0].Level != zapcore.WarnLevel || lines[0].ContextMap()["token"] != "token-1" || lines[1].ContextMap()["token"] != "token-2" {
		t.Errorf("logged %v", lines)
	}
}

func TestSecretOptionsStayOutOfLogsAndConfiguration(t *testing.T) {
	const canary = "canary-verify-token"
	t.Setenv("ANVIL_VERIFY_TOKEN", canary)
	v := VerifyConfig{Provider: "meta", Secrets: []string{testSecret}, Options: map[string]string{"verify_token": "{env.ANVIL_VERIFY_TOKEN}"}}
	d := newDesk(t, "hidden", v)
	d.post(t, as(t, "meta", nil), time.Now(), "{}", func(r *verify.Request) { r.Body = []byte("[]") })
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong", nil)
	if err := d.ServeHTTP(httptest.NewRecorder(), r, nil); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(&d.source.cfg)
	if err != nil || strings.Contains(string(config), canary) || !strings.Contains(string(config), "{env.ANVIL_VERIFY_TOKEN}") {
		t.Errorf("configuration %s: %v", config, err)
	}
	if text := fmt.Sprintf("%v %+v", d.logs.All(), d.source.proofs[0]); strings.Contains(text, canary) || d.logs.Len() < 4 {
		t.Errorf("logged %s", text)
	}
}

func TestOptionsThatCannotBeResolvedAreNotShown(t *testing.T) {
	for _, value := range []string{"{env.ANVIL_NOT_SET}", "{file./no/such/file}", "canary{canary}canary"} {
		_, err := startSource(t, VerifyConfig{Provider: "meta", Secrets: []string{testSecret}, Options: map[string]string{"verify_token": value}})
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "verify_token") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestKeysWithSeveralLinesAreOneSecret(t *testing.T) {
	k := makeKeys(t)
	const jwk = "{\n  \"kty\": \"oct\",\n  \"k\": \"AA\"\n}"
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"lines":          {"a\nb\r\n\n", []string{"a", "b"}},
		"PEM":            {k.public[0], []string{strings.TrimSpace(k.public[0])}},
		"two PEM blocks": {"# ours\n" + k.public[0] + "\n" + k.public[2], []string{strings.TrimSpace(k.public[0]), strings.TrimSpace(k.public[2])}},
		"JSON":           {jwk + "\n", []string{jwk}},
		"a brace":        {"{not JSON\n", []string{"{not JSON"}},
		"damaged PEM":    {"-----BEGIN PUBLIC KEY-----\n", nil},
	} {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := resolveSecrets(&VerifyConfig{Provider: "ed25519", Secrets: []string{"{file." + path + "}"}})
		if fmt.Sprint(got) != fmt.Sprint(c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestTheDefaultTTLCoversTheProvidersRetries(t *testing.T) {
	second := caddy.Duration(time.Second)
	for _, c := range []struct {
		provider string
		dedupe   *DedupeConfig
		says     string
		signed   time.Duration
	}{
		{"github", nil, "signature 168h", 0},
		{"stripe", nil, "event_id 168h", 0},
		{"zoom", nil, "body 168h", 0},
		{"github", &DedupeConfig{Key: "event_id"}, "event_id 168h", 168 * time.Hour},
		{"github", &DedupeConfig{Key: "event_id", TTL: second}, "event_id 1s", time.Second},
		{"stripe", &DedupeConfig{Key: "event_id", TTL: second}, "event_id 1s", 0},
		{"linear", &DedupeConfig{Key: "event_id", TTL: second}, "event_id 1s", 2 * time.Minute},
		{"stripe", &DedupeConfig{TTL: second}, "event_id 1s", 0},
		{"stripe", &DedupeConfig{Key: "json", Fields: []string{"/a"}}, "json /a 168h", 0},
		{"stripe", &DedupeConfig{Key: "off"}, "off", 0},
		{"mailgun", nil, "body 168h", 10 * time.Minute},
		{"mailgun", &DedupeConfig{Key: "off"}, "off", 10 * time.Minute},
		{"gitea", nil, "signature 168h", 168 * time.Hour},
		{"gitea", &DedupeConfig{Key: "off"}, "off", 0},
		{"dropbox", nil, "off", 0},
		{"dropbox", &DedupeConfig{TTL: second}, "signature 1s", 0},
	} {
		s, err := newSource(&SourceConfig{Source: "shop", Verify: []VerifyConfig{{Provider: c.provider, Secrets: []string{testSecret}}}, Dedupe: c.dedupe}, 1, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if plan := s.proofs[0].keys; plan.String() != c.says || plan.signed != c.signed {
			t.Errorf("%s %+v: %s, what is signed %s", c.provider, c.dedupe, plan.String(), plan.signed)
		}
	}
	for _, p := range verify.Providers() {
		if p.DedupeTTL < 168*time.Hour {
			t.Errorf("%s: keys live %s", p.ID, p.DedupeTTL)
		}
	}
}

func TestATokenIsNotLoggedWhereASecretIsConfigured(t *testing.T) {
	d := newDesk(t, "settled", VerifyConfig{Provider: "asana", Secrets: []string{testSecret}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("X-Hook-Secret", "token-1")
	w := httptest.NewRecorder()
	if err := d.ServeHTTP(w, r, nil); err != nil || w.Code != 200 {
		t.Errorf("answered %d: %v", w.Code, err)
	}
	if text := fmt.Sprint(d.logs.All()); strings.Contains(text, "token-1") {
		t.Errorf("logged %s", text)
	}
}

func TestAProvedMessageAboutTheRegistrationIsLogged(t *testing.T) {
	d := newDesk(t, "registered", VerifyConfig{Provider: "slack", Secrets: []string{testSecret}})
	if status := d.post(t, as(t, "slack", nil), time.Now(), `{"type":"url_verification","challenge":"c"}`, nil); status != 200 {
		t.Errorf("answered %d", status)
	}
	lines := d.logs.FilterMessageSnippet("about the registration").All()
	if len(lines) != 1 || lines[0].ContextMap()["type"] != "url_verification" {
		t.Errorf("logged %v", lines)
	}
}

func TestAVerifyTokenThatIsMissingIsWarnedOf(t *testing.T) {
	for _, provider := range []string{"meta", "oura", "strava"} {
		for _, token := range []string{"", "a-token-for-tests"} {
			v := VerifyConfig{Provider: provider}
			if provider != "strava" {
				v.Secrets = []string{testSecret}
			}
			if token != "" {
				v.Options = map[string]string{"verify_token": token}
			}
			if n := newDesk(t, "warned", v).logs.FilterMessageSnippet("verify_token is not set").Len(); (n == 1) != (token == "") {
				t.Errorf("%s with %q: %d warnings", provider, token, n)
			}
		}
	}
}

func TestHintsAreLookedForOneAtATime(t *testing.T) {
	d := newDesk(t, "busy", VerifyConfig{Provider: "github", Secrets: []string{testSecret + " "}})
	d.source.explaining.Lock()
	d.post(t, as(t, "github", nil), time.Now(), "{}", nil)
	if hints := fmt.Sprint(d.line(t)["hints"]); hints != "[]" {
		t.Errorf("while another search is on: %s", hints)
	}
	d.source.explaining.Unlock()
	d.post(t, as(t, "github", nil), time.Now(), "{}", nil)
	if hints := fmt.Sprint(d.line(t)["hints"]); !strings.Contains(hints, "white space") {
		t.Errorf("afterwards: %s", hints)
	}
}
