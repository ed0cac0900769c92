package anvil

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func startSource(t *testing.T, v ...VerifyConfig) (lines []string, err error) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	s, err := newSource(&SourceConfig{Source: "shop", Verify: v, Endpoints: []EndpointConfig{{Upstream: "localhost:1"}}}, 1, zap.New(core))
	if err != nil {
		return nil, err
	}
	s.start(zap.New(core), "sqlite /x/anvil.db")
	for _, e := range logs.All() {
		lines = append(lines, e.Level.String()+": "+e.Message)
	}
	return lines, nil
}

func TestSecretLengths(t *testing.T) {
	t.Setenv("ANVIL_15", strings.Repeat("x", 15))
	t.Setenv("ANVIL_16", strings.Repeat("x", 16))
	t.Setenv("ANVIL_15_UMLAUTS", strings.Repeat("ä", 15))
	for name, c := range map[string]struct {
		provider, secret string
		refused, warned  bool
	}{
		"hmac, 15":                        {"hmac", "{env.ANVIL_15}", true, false},
		"hmac, 15 characters in 30 bytes": {"hmac", "{env.ANVIL_15_UMLAUTS}", true, false},
		"hmac, 16":                        {"hmac", "{env.ANVIL_16}", false, false},
		"github, 15":                      {"github", "{env.ANVIL_15}", false, true},
		"github, 16":                      {"github", "{env.ANVIL_16}", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := startSource(t, VerifyConfig{Provider: c.provider, Secrets: []string{c.secret}})
			if refused := err != nil; refused != c.refused {
				t.Fatalf("refused: %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), "openssl") || strings.Contains(err.Error(), "xxx")) {
				t.Error(err)
			}
			if warned := strings.Contains(strings.Join(lines, "\n"), "warn: a secret has fewer than 16 characters"); warned != c.warned {
				t.Errorf("logged %q", lines)
			}
		})
	}
}

func TestTheStartLineSaysWhatASourceDoes(t *testing.T) {
	t.Setenv("ANVIL_A", "0123456789abcdef-a")
	t.Setenv("ANVIL_B", "0123456789abcdef-b")
	lines, err := startSource(t, VerifyConfig{Provider: "github", Secrets: []string{"{env.ANVIL_A}", "{env.ANVIL_B}"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "info: source shop: verify github (2 secrets), dedupe signature 168h, 1 endpoint, store sqlite /x/anvil.db"
	if len(lines) != 1 || lines[0] != want {
		t.Errorf("logged %q, want %q", lines, want)
	}
}

func TestRiskySourcesWarnAtEveryLoad(t *testing.T) {
	for want, v := range map[string]VerifyConfig{
		"accepts webhooks from anybody":                {Provider: "none"},
		"because this provider does not sign":          {Provider: "strava"},
		"(report_only)":                                {Provider: "github", Secrets: []string{"0123456789abcdef"}, ReportOnly: true},
		"every delivery gets 503":                      {Provider: "notion"},
		"a secret is written out in the configuration": {Provider: "hmac", Secrets: []string{"0123456789abcdef"}},
		"begins or ends with white space":              {Provider: "hmac", Secrets: []string{" 0123456789abcdef"}},
		"drops request headers with an underscore":     {Provider: "hmac", Secrets: []string{"0123456789abcdef"}, Options: map[string]string{"signature_header": "X_Signature"}},
	} {
		lines, err := startSource(t, v)
		if err != nil || !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("no warning with %q: %v %q", want, err, lines)
		}
	}
}

func TestSecretsThatCannotBeResolvedAreNotShown(t *testing.T) {
	for _, secret := range []string{"{env.ANVIL_NOT_SET}", "{file./no/such/file}", "canary{canary}canary-0123456789", ""} {
		_, err := startSource(t, VerifyConfig{Provider: "hmac", Secrets: []string{secret}})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Fatalf("secret %q: %v", secret, err)
		}
		if strings.HasPrefix(secret, "{env.") && !strings.Contains(err.Error(), secret) {
			t.Errorf("the variable is not named: %v", err)
		}
	}
}

func TestTheEnginesLogFollowsTheRulingConfiguration(t *testing.T) {
	first, firstLogs := observer.New(zapcore.InfoLevel)
	second, secondLogs := observer.New(zapcore.WarnLevel)
	log, use := newLogSwap(zap.New(first).Named("anvil"))
	log = log.Named("worker").With(zap.String("k", "v"))
	log.Info("one")
	use(zap.New(second))
	log.Info("below the new level")
	log.Warn("two")
	if firstLogs.Len() != 1 || secondLogs.Len() != 1 {
		t.Fatalf("%d lines in the first log, %d in the second", firstLogs.Len(), secondLogs.Len())
	}
	if e := secondLogs.All()[0]; e.Message != "two" || e.LoggerName != "anvil.worker" || e.ContextMap()["k"] != "v" {
		t.Errorf("line %+v", e)
	}
}
