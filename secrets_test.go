package anvil

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func TestFormerSecretsGoWithTheirSource(t *testing.T) {
	begin := func(secrets ...string) []string {
		before := secretsBefore("gone", secrets)()
		useSecrets("gone", secrets)
		return before
	}
	begin("a", "b")
	secretsBefore("gone", []string{"of a configuration that was rejected"})
	if before := begin("c", "b"); len(before) != 1 || before[0] != "a" {
		t.Errorf("before the change there was %q", before)
	}
	if before := begin("c", "b"); len(before) != 1 {
		t.Errorf("after a reload without a change: %q", before)
	}
	holdSeries([]string{"gone"})
	releaseSeries([]string{"gone"})
	if before := begin("c"); len(before) != 0 {
		t.Errorf("a source that came back remembers %q", before)
	}
	forgetSecrets("gone")
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
