package anvil

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
)

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
