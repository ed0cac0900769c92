package anvil

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

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
	useSecrets(c.Source, s.secrets())
	t.Cleanup(func() { forgetSecrets(c.Source) })
	started := make(chan struct{})
	close(started)
	return desk{&Handler{app: &App{started: started}, source: s}, logs}
}

// unhurried runs a test on a clock that stands still while anything has something to do: hints are looked for only so long,
// and lines of a log are counted in windows of time.
func unhurried(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		synctest.Test(t, test)
	}
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
		t.Run(c.name, unhurried(func(t *testing.T) {
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
		}))
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
	unhurried(func(t *testing.T) {
		github := as(t, "github", nil)
		newDesk(t, "recognised", VerifyConfig{Provider: "github", Secrets: []string{testSecret}})
		for range 2 { // a reload that changes nothing forgets nothing
			d := newDesk(t, "recognised", VerifyConfig{Provider: "github", Secrets: []string{"newer-secret-0123456789"}})
			if status := d.post(t, github, time.Now(), "{}", nil); status != 401 || !strings.Contains(fmt.Sprint(d.line(t)["hints"]), "previous secret") {
				t.Errorf("answered %d, logged %v", status, d.line(t))
			}
		}
	})(t)
}

func TestHintsAreLookedForOneAtATime(t *testing.T) {
	unhurried(func(t *testing.T) {
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
	})(t)
}
