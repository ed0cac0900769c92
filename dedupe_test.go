package anvil

import (
	"cmp"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func TestThePlanOfASourcesKeys(t *testing.T) {
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
}

// A provider that repeats an event after its key has gone would have it delivered a second time.
func TestTheDefaultTTLCoversTheProvidersRetries(t *testing.T) {
	const day = 24 * time.Hour
	secrets := map[string]string{"wise": makeKeys(t).public[2]}
	for provider, span := range map[string]time.Duration{
		"docusign":   15 * day,
		"wise":       14 * day,
		"meta":       7 * day,
		"customerio": 7 * day,
		"stripe":     3 * day,
		"paddle":     3 * day,
		"svix":       27*time.Hour + 35*time.Minute,
		"shopify":    4 * time.Hour,
	} {
		s, err := newSource(&SourceConfig{Source: "shop", Verify: []VerifyConfig{{
			Provider: provider, Secrets: []string{cmp.Or(secrets[provider], testSecret)},
		}}}, 1, zap.NewNop())
		if err != nil {
			t.Fatalf("%s: %v", provider, err)
		}
		if plan := s.proofs[0].keys; plan.keys == nil || plan.ttl <= span {
			t.Errorf("%s retries for %s, the plan is %s", provider, span, plan.String())
		}
	}
	for _, p := range verify.Providers() {
		if p.DedupeTTL < 7*day {
			t.Errorf("%s: keys live %s, less than somebody may need to send events again by hand", p.ID, p.DedupeTTL)
		}
	}
}
