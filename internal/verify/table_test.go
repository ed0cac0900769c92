package verify_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func TestProvidersAreSortedAndFoundByTheirIDs(t *testing.T) {
	all := verify.Providers()
	if len(all) < 240 {
		t.Errorf("%d providers", len(all))
	}
	if !slices.IsSortedFunc(all, func(a, b *verify.Provider) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("not sorted")
	}
	for _, p := range all {
		for _, id := range append([]string{p.ID, strings.ReplaceAll(p.ID, "-", "_")}, p.Aliases...) {
			if got, ok := verify.Lookup(id); !ok || got.ID != p.ID {
				t.Errorf("Lookup(%q) = %+v, %v", id, got, ok)
			}
		}
	}
	for _, id := range []string{"", "GitHub", "git-hub", "none", "github "} {
		if _, ok := verify.Lookup(id); ok {
			t.Errorf("%q is known", id)
		}
	}
}

// Everything that has a vector is in the table, so what is offered is proved; and the other way round for what is said to
// be confirmed is for the documentation to weigh.
func TestEveryVectorHasAProvider(t *testing.T) {
	ids := map[string]bool{}
	for _, v := range readVectors(t) {
		ids[v.Provider] = true
	}
	if len(ids) != 140 {
		t.Errorf("%d providers have vectors", len(ids))
	}
	for id := range ids {
		if _, ok := verify.Lookup(id); !ok {
			t.Errorf("%s is not in the table", id)
		}
	}
}

func TestTheTableIsConsistent(t *testing.T) {
	id := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, p := range verify.Providers() {
		problem := func(format string) { t.Helper(); t.Errorf("%s: %s", p.ID, format) }
		for _, name := range append([]string{p.ID}, p.Aliases...) {
			if !id.MatchString(name) {
				problem("its id is not lower-case words")
			}
		}
		if u, err := url.Parse(p.Docs); p.Docs != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
			problem("its documentation is no https link")
		}
		if p.Name == "" || p.Secret == "" || strings.HasSuffix(p.Traps, " ") || p.Traps != "" && !strings.HasSuffix(p.Traps, ".") {
			problem("it lacks a name, or its traps are no sentences")
		}
		if p.IDSigned && p.EventID == "" || p.IDStable && p.EventID == "" {
			problem("an id is said to be signed or stable that is nowhere")
		}
		if p.DedupeTTL < 168*time.Hour {
			problem("its dedupe key lives less than a week")
		}
		if p.Dedupe != "off" && (p.Dedupe == "event_id") != (p.IDSigned && p.IDStable) {
			problem("the default dedupe is by id, but for signed and stable ones only")
		}
		if p.TimestampIn != "" && (p.Past == 0 || p.Future == 0) {
			problem("a time is signed that never expires")
		}
		for _, a := range []verify.Answer{p.Accepted, p.Refused} {
			// These delete or stop subscriptions at one provider or another.
			if slices.Contains([]int{400, 404, 406, 410}, a.Status) || a.Body != "" && a.ContentType == "" {
				problem("its answer would harm")
			}
		}
		for _, need := range p.Needs {
			if !slices.Contains(p.Options, need) {
				problem("it needs an option that it does not take")
			}
		}
		if len(p.Methods) == 0 || !slices.Contains(p.Methods, http.MethodPost) {
			problem("it cannot POST")
		}
	}
}

func TestWhatIsSaidAboutProviders(t *testing.T) {
	for id, want := range map[string]func(p *verify.Provider) bool{
		"github": func(p *verify.Provider) bool {
			return p.MaxBody == 25<<20 && p.Dedupe == "signature" && !p.IDSigned && p.CoversBody
		},
		"hmac": func(p *verify.Provider) bool {
			return p.Generic && p.Dedupe == "signature" && slices.Contains(p.Options, "template")
		},
		"stripe": func(p *verify.Provider) bool {
			return p.Dedupe == "event_id" && p.Past == 5*time.Minute && p.Future == 5*time.Minute && slices.Contains(p.Options, "tolerance")
		},
		"twilio": func(p *verify.Provider) bool {
			return p.Accepted.Status == 200 && strings.Contains(p.Accepted.Body, "<Response")
		},
		"slack": func(p *verify.Provider) bool {
			return p.Accepted.Status == 200 && p.Accepted.Body == "" && p.Interactive != ""
		},
		"adyen":        func(p *verify.Provider) bool { return p.Accepted.Body == "[accepted]" && !p.CoversBody },
		"dropbox-sign": func(p *verify.Provider) bool { return p.Accepted.Body == "Hello API Event Received" },
		"xero":         func(p *verify.Provider) bool { return p.Accepted.Status == 200 && p.Refused.Status == 401 },
		"discord": func(p *verify.Provider) bool {
			return p.Refused.Status == 401 && slices.Contains(p.HandshakeMethods, "POST")
		},
		"docusign":        func(p *verify.Provider) bool { return p.DedupeTTL > 15*24*time.Hour },
		"wise":            func(p *verify.Provider) bool { return p.DedupeTTL > 14*24*time.Hour && p.Dedupe == "body" },
		"google-pubsub":   func(p *verify.Provider) bool { return !p.CoversBody && p.Dedupe == "body" && p.Keyless },
		"docker-hub":      func(p *verify.Provider) bool { return !p.Proves && p.SecretOptional },
		"terraform-cloud": func(p *verify.Provider) bool { return p.Unconfirmed },
	} {
		if p, ok := verify.Lookup(id); !ok || !want(p) {
			t.Errorf("%s: %+v", id, p)
		}
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct {
		provider string
		options  verify.Options
		secrets  []string
		want     string
	}{
		{"github", nil, []string{"a", "b"}, "github (2 secrets)"},
		{"whatsapp", verify.Options{"verify_token": "vt"}, []string{"a"}, "meta verify_token (hidden) (1 secret)"},
		{"hmac", nil, []string{"a"}, "hmac (1 secret)"},
		{
			"hmac",
			verify.Options{"signature_header": "x-sig", "algorithm": "sha512", "prefix": ""},
			[]string{"a"},
			`hmac algorithm sha512 prefix "" signature_header x-sig (1 secret)`,
		},
		{"strava", nil, nil, "strava"},
	} {
		if got := newVerifier(t, c.provider, c.options, c.secrets...).String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestOptionWordsAreAllExplainedAndUsed(t *testing.T) {
	used := map[string]bool{}
	for _, p := range verify.Providers() {
		for _, word := range p.Options {
			used[word] = true
		}
	}
	for _, w := range verify.OptionWords() {
		if w.Says == "" || w.Value == "" || !used[w.Name] {
			t.Errorf("%+v: it is not explained, or nothing takes it", w)
		}
		delete(used, w.Name)
	}
	for word := range used {
		t.Errorf("%s is no option word", word)
	}
}

func TestDefaultDedupe(t *testing.T) {
	for _, c := range []struct {
		provider string
		options  verify.Options
		want     string
	}{
		{"github", nil, "signature"},
		{"stripe", nil, "event_id"},
		{"standard-webhooks", nil, "event_id"},
		{"telegram", nil, "body"},      // nothing is signed
		{"zoom", nil, "body"},          // a repeated delivery is signed anew
		{"paystack", nil, "signature"}, // one charge may fail twice
		// Different events have the same body.
		{"dropbox", nil, "off"},
		{"mollie-legacy", nil, "off"},
		{"sharepoint", nil, "off"},
		{"microsoft-graph", nil, "off"},
		{"hmac", nil, "signature"},
		{"hmac", verify.Options{"timestamp_header": "X-Time", "template": "{sig.timestamp}.{sig.body}"}, "body"},
		// One delivery may have several signatures, and lose some on its way.
		{"bridge-api", nil, "body"},
		{"upollo", nil, "body"},
		{"hmac", verify.Options{"separator": " "}, "body"},
		{"hmac", verify.Options{"signature_key": "v1"}, "body"},
	} {
		if got := newVerifier(t, c.provider, c.options, secretsOf(c.provider)...).Dedupe(); got != c.want {
			t.Errorf("%s %v: got %s, want %s", c.provider, c.options, got, c.want)
		}
	}
}

func secretsOf(provider string) []string {
	if p, ok := verify.Lookup(provider); !ok || !p.Proves {
		return nil
	}
	return []string{secret}
}

// What one signature fits in many spellings or readings, or beside many bodies, is accepted once.
func TestProvidersWhoseSignatureFitsManyRequests(t *testing.T) {
	var once []string
	for _, p := range verify.Providers() {
		if p.Once {
			once = append(once, p.ID)
		}
	}
	if got := strings.Join(once, " "); got != "alipay braintree coinbase-cdp contentful exact-online forgejo ghost gitea hook0 hubspot hubspot-v2 mailgun mandrill "+
		"messagebird-legacy nmi paypal plivo quoter solidgate square trello twilio twitch vonage" {
		t.Errorf("got %s", got)
	}
}

func TestToleranceIsAnOptionWhereASignedTimeIsCompared(t *testing.T) {
	for id, want := range map[string]bool{
		"stripe": true, "ghost": true, "grafana-ts": true, "cloudinary": true, "box": true, "mailgun": true, "paypal": true, "plaid": true,
		"github": false, "wix": false, "dropbox-sign": false,
	} {
		if p, _ := verify.Lookup(id); slices.Contains(p.Options, "tolerance") != want {
			t.Errorf("%s takes %v", id, p.Options)
		}
	}
	for _, id := range []string{"ghost", "grafana-ts", "cloudinary"} {
		p, _ := verify.Lookup(id)
		g, _ := makeGenuine(t, p)
		wide := newVerifier(t, id, verify.Options{"tolerance": "9h"}, g.secret)
		narrow := newVerifier(t, id, verify.Options{"tolerance": "10s"}, g.secret)
		if !wide.Verify(t.Context(), g.request, someTime.Add(8*time.Hour)).OK {
			t.Errorf("%s refuses what is within the tolerance", id)
		}
		if got := narrow.Verify(t.Context(), g.request, someTime.Add(20*time.Second)); got.Reason != verify.ReasonTooOld {
			t.Errorf("%s: got %+v", id, got)
		}
	}
}

// These rest on memory or on other people's receivers.
func TestUnconfirmedProvidersAreMarked(t *testing.T) {
	for _, id := range []string{
		"flutterwave", "terraform-cloud", "websub", "youtube", "chargify", "autodesk-aps", "mongodb-atlas", "modern-treasury", "patreon", "snyk",
		"sonarqube", "cal-com", "dwolla", "unit", "checkr", "veriff", "lob", "midtrans", "netlify", "flutterwave-v3", "strapi", "freshdesk",
		"datadog", "new-relic", "docker-hub", "kinde", "vapi", "nango",
	} {
		if p, ok := verify.Lookup(id); !ok || !p.Unconfirmed {
			t.Errorf("%s is not marked", id)
		}
	}
	for _, id := range []string{"github", "stripe", "slack", "shopify", "twilio", "standard-webhooks", "svix"} {
		if p, ok := verify.Lookup(id); !ok || p.Unconfirmed {
			t.Errorf("%s is marked", id)
		}
	}
}
