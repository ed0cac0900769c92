package anvil

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sentAll is what send --json prints.
type sentAll struct {
	Provider       string
	Sent, Accepted int
	Requests       []sent
	Notes          []string
}

func (a *sentAll) outcomes() []string {
	var all []string
	for _, r := range a.Requests {
		all = append(all, r.Outcome)
	}
	return all
}

func TestSendIsAcceptedByTheDirective(t *testing.T) {
	const whsec = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	seed := make([]byte, ed25519.SeedSize)
	public := hex.EncodeToString(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	s := newSite(t)
	url, got := upstream(t)
	var site strings.Builder
	tests := []struct {
		provider, secret, eventType string
		send                        []string // instead of the secret
		words                       string
	}{
		{provider: "github", secret: testSecret, eventType: "push"},
		{provider: "stripe", secret: "whsec_made-up-for-tests", eventType: "invoice.paid"},
		{provider: "slack", secret: testSecret, eventType: "app_mention"},
		{provider: "svix", secret: whsec, eventType: "user.created"},
		{provider: "twilio", secret: testSecret, eventType: "delivered"},
		{provider: "square", secret: testSecret, eventType: "payment.updated"},
		{provider: "braintree", secret: "public:private-made-up-key"},
		{provider: "mailgun", secret: testSecret, eventType: "opened"},
		{provider: "telnyx", secret: public, eventType: "message.sent", send: []string{"--private-key", hex.EncodeToString(seed)}},
		{provider: "vonage", secret: testSecret, eventType: "delivered"},
		{provider: "postmark", secret: "user:password-made-up", eventType: "Bounce"},
		{provider: "telegram", secret: testSecret},
		{provider: "docker-hub"},
		{
			provider: "hmac", secret: testSecret, eventType: "made.up", words: "{\nsignature_header X-Sig\ntimestamp_header X-Time\ntemplate {sig.timestamp}.{sig.body}\nevent_type /type\n}",
			send: []string{"--secret", testSecret, "--option", "signature_header=X-Sig", "--option", "timestamp_header=X-Time", "--option", "template={sig.timestamp}.{sig.body}"},
		},
	}
	for _, c := range tests {
		secret := ""
		if c.secret != "" {
			secret = `"` + c.secret + `"`
		}
		fmt.Fprintf(&site, "anvil /%[1]s %[1]s {\nverify %[1]s %[2]s %[3]s\ndeliver %[4]s\n}\n", c.provider, secret, c.words, url)
	}
	s.mustLoad(site.String(), "")
	for _, c := range tests {
		t.Run(c.provider, func(t *testing.T) {
			args := []string{"send", "--json", "http://" + s.addr + "/" + c.provider, "--provider", c.provider, "--count", "2", "--duplicate", "1"}
			switch {
			case c.send != nil:
				args = append(args, c.send...)
			case c.secret != "":
				args = append(args, "--secret", c.secret)
			}
			if c.eventType != "" && c.provider != "hmac" {
				args = append(args, "--type", c.eventType)
			}
			r := runCommand(t, "", args...)
			var all sentAll
			r.json(t, &all)
			if r.exit != 0 || all.Sent != 4 || all.Accepted != 4 {
				t.Fatalf("exit %d: %s", r.exit, r.out)
			}
			if want := []string{"accepted", "duplicate", "accepted", "duplicate"}; !slices.Equal(all.outcomes(), want) {
				t.Errorf("%s", r.out)
			}
			if c.provider == "hmac" {
				c.eventType = ""
			}
			for range 2 {
				if have := receive(t, got).Header.Get("Anvil-Event-Type"); c.eventType != "" && have != c.eventType {
					t.Errorf("event type %q, want %q", have, c.eventType)
				}
			}
			if strings.Contains(r.out, testSecret) {
				t.Error("the secret is printed")
			}
		})
	}
}

func TestSendSendsTheUsersEventAsItIs(t *testing.T) {
	s := newSite(t)
	url, got := upstream(t)
	s.mustLoad("anvil /in shop {\nverify github "+testSecret+"\ndeliver "+url+"\n}", "")
	const body = "{ \"a\" : 1 }\r\n"
	args := []string{"send", "http://" + s.addr + "/in", "--provider", "github", "--secret", testSecret, "--type", "push", "--event"}
	r := runCommand(t, "", append(args, writeFile(t, "event.json", body))...)
	if r.exit != 0 || !strings.Contains(r.out, "1  accepted   status 202  Anvil-Job-Id ") || !strings.Contains(r.out, "replayed false") {
		t.Fatalf("exit %d: %s %s", r.exit, r.out, r.err)
	}
	arrived := receive(t, got)
	b := make([]byte, len(body)+1)
	n, _ := arrived.Body.Read(b)
	if string(b[:n]) != body || arrived.Header.Get("X-Github-Event") != "push" {
		t.Errorf("arrived as %q %v", b[:n], arrived.Header)
	}
	if r := runCommand(t, body, append(args, "-")...); r.exit != 0 || !strings.Contains(r.out, "1  duplicate") || !strings.Contains(r.out, "replayed true") {
		t.Errorf("again: exit %d: %s %s", r.exit, r.out, r.err)
	}
}

func TestSendSignsThePublicURL(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil /in shop {\nverify twilio "+testSecret+"\npublic_url https://hooks.example.test\n}", "")
	args := []string{"send", "http://" + s.addr + "/in?a=1", "--provider", "twilio", "--secret", testSecret}
	if r := runCommand(t, "", args...); r.exit != exitNo {
		t.Errorf("without the public URL: exit %d: %s", r.exit, r.out)
	}
	for _, event := range []string{"MessageSid=SM1", `{"id":1}`} { // the second is covered by a digest in the query
		r := runCommand(t, event, append(args, "--public-url", "https://hooks.example.test/in?a=1", "--event", "-")...)
		if r.exit != 0 {
			t.Errorf("%s: exit %d: %s %s", event, r.exit, r.out, r.err)
		}
	}
}

func TestSendSaysWhatWentWrong(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil /in shop {\nverify github "+testSecret+"\n}\nanvil /xero xero {\nverify xero "+testSecret+"\n}\n"+
		"respond /other 200\nredir /moved https://example.com/\nrespond /json `{\"error\":\"Not <b>found</b>\"}` 404", "")
	for _, c := range []struct {
		name, url, provider, secret string
		outcome, want               string
	}{
		{"another secret", "http://" + s.addr + "/in", "github", "another-secret-made-up", "refused", "invalid_signature (the reason is in Caddy's log)"},
		{"the provider's own refusal", "http://" + s.addr + "/xero", "xero", "another-secret-made-up", "refused", "status 401  invalid_signature"},
		{"another directive", "http://" + s.addr + "/other", "github", testSecret, "foreign", "something other than anvil answered"},
		{"a redirect", "http://" + s.addr + "/moved", "github", testSecret, "foreign", `status 302  no Anvil-Job-Id: something other than anvil answered`},
		{"an error of others", "http://" + s.addr + "/json", "github", testSecret, "foreign", "status 404"},
		{"nobody", "http://127.0.0.1:1/in", "github", testSecret, "failed", "connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runCommand(t, "", "send", c.url, "--provider", c.provider, "--secret", c.secret)
			if r.exit != exitNo || !strings.Contains(r.out, "1  "+c.outcome) || !strings.Contains(r.out, c.want) {
				t.Errorf("exit %d: %s %s", r.exit, r.out, r.err)
			}
			if strings.Contains(r.out, c.secret) || strings.Contains(r.out, "<b>") {
				t.Error("it says too much")
			}
		})
	}
}

func TestSendNeedsUsableInput(t *testing.T) {
	const url = "http://127.0.0.1:1/in"
	ready := []string{"send", url, "--provider", "github", "--secret", testSecret}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no url", []string{"send", "--provider", "github", "--secret", testSecret}, "one URL"},
		{"a path", []string{"send", "/in", "--provider", "github", "--secret", testSecret}, "write it whole"},
		{"no secret", []string{"send", url, "--provider", "github"}, "--secret is missing"},
		{"no private key", []string{"send", url, "--provider", "telnyx", "--secret", base64.StdEncoding.EncodeToString(make([]byte, 32))}, "needs a private key"},
		{"private key of another kind", []string{"send", url, "--provider", "wise", "--private-key", strings.Repeat("0", 64)}, "another kind"},
		{"private key in no file", []string{"send", url, "--provider", "telnyx", "--private-key", "@/not/there"}, "--private-key"},
		{"no event", append(ready, "--event", "/not/there"), "/not/there"},
		{"type in the body", []string{"send", url, "--provider", "stripe", "--secret", testSecret, "--type", "a", "--event", writeFile(t, "e", "{}")}, "write it there"},
		{"type of none", []string{"send", url, "--provider", "hmac", "--secret", testSecret, "--type", "a"}, "says nowhere"},
		{"body that cannot be signed", []string{"send", url, "--provider", "treezor", "--secret", testSecret, "--event", writeFile(t, "e", "no JSON")}, "JSON"},
		{"no requests", append(ready, "--count", "0"), "--count must be"},
		{"too many", append(ready, "--count", "5000", "--duplicate", "5000"), "no more than"},
		{"no number", append(ready, "--count", "x"), "--count"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runCommand(t, "", c.args...)
			if r.exit != exitUnusable || r.out != "" || !strings.Contains(r.err, c.want) || strings.Contains(r.err, testSecret) {
				t.Errorf("exit %d, %q, %q, want %q", r.exit, r.out, r.err, c.want)
			}
		})
	}
}
