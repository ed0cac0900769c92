package provdoc_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/provdoc"
	"github.com/caddy-anvil/anvil/internal/verify"
)

func document(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := provdoc.Write(&b, verify.Providers()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheDocumentIsWhatTheTableMakes(t *testing.T) {
	have, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := document(t); string(have) != want {
		t.Errorf("docs/providers.md is out of date: run make docs (-file +table)\n%s", cmp.Diff(string(have), want))
	}
}

func TestEveryProviderIsInTheIndexAndHasDetails(t *testing.T) {
	text := document(t)
	headings := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		// As GitHub makes anchors.
		headings[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")]++
	}
	for _, p := range verify.Providers() {
		if headings[p.ID] != 1 {
			t.Errorf("%d headings have the anchor #%s", headings[p.ID], p.ID)
		}
		if !strings.Contains(text, "[`"+p.ID+"`](#"+p.ID+")") {
			t.Errorf("%s is not in the index", p.ID)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		if headings[m[1]] == 0 {
			t.Errorf("nothing has the anchor #%s", m[1])
		}
	}
}

func TestRowsSayWhatIsSpecial(t *testing.T) {
	for _, c := range []struct{ provider, label, want string }{
		{"github", "Event", "id in `X-GitHub-Delivery`, not signed"},
		{"github", "Largest body", "25 MiB"},
		{"github", "Dedupe", "`signature`, 7 days"},
		{"stripe", "Signature", "time in `Stripe-Signature`, at most 5m off"},
		{"stripe", "Dedupe", "`event_id`"},
		{"slack", "Not to be queued", "Slash commands"},
		{"slack", "Answer", "200 without a body"},
		{"twilio", "Answer", "200, `<?xml"},
		{"xero", "Answer", "refused: 401"},
		{"meta", "Also called", "`facebook`, `instagram`"},
		{"meta", "Handshake", "GET hub.challenge"},
		{"contentful", "Secret", "at least 64 characters"},
		{"asana", "Secret", "without one only the handshake is answered"},
		{"docker-hub", "Secret", "whoever knows the URL can send"},
		{"postmark", "Signature", "does not cover the whole body"},
		{"zendesk", "Methods", "POST, PUT"},
		{"strapi", "Unconfirmed", "try it"},
		{"cursor", "Event", "`X-Webhook-Event` or `/event`"},
		{"linear", "Event", "`Linear-Event` and `/action`"},
	} {
		p, ok := verify.Lookup(c.provider)
		if !ok {
			t.Fatalf("no provider %s", c.provider)
		}
		found := ""
		for _, r := range provdoc.Rows(p) {
			if r.Label == c.label {
				found = r.Text
			}
		}
		if !strings.Contains(found, c.want) {
			t.Errorf("%s, %s: %q, want %q", c.provider, c.label, found, c.want)
		}
	}
}

func TestAnEntryHoldsWhatTheTableSays(t *testing.T) {
	p, _ := verify.Lookup("stripe")
	b, err := json.Marshal(provdoc.Describe(p))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"id": "stripe", "family": "hmac-timestamp", "past_seconds": 300.0, "future_seconds": 300.0, "dedupe": "event_id", "dedupe_ttl_seconds": 604800.0,
		"event_id": "/id", "event_id_signed": true, "caddyfile": "verify stripe {env.STRIPE_SECRET}",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for _, p := range verify.Providers() {
		if e := provdoc.Describe(p); p.Future < 0 && e.Future != -1 || p.Past > 0 && e.Past <= 0 {
			t.Errorf("%s: %d %d", p.ID, e.Past, e.Future)
		}
	}
}

func TestUnitsAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		168 * time.Hour: "7 days", 24 * time.Hour: "24h", time.Hour: "1h", 5 * time.Minute: "5m", 90 * time.Second: "1m30s", 30*time.Second - 1: "30s",
	} {
		if got := provdoc.Duration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{25 << 20: "25 MiB", 256 << 10: "256 KiB", 1000: "1000 bytes"} {
		if got := provdoc.Size(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}
