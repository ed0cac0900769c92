package verify_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// While secrets rotate, a header holds several signatures; and senders invent new versions.
func TestAnyOfSeveralSignaturesMayMatch(t *testing.T) {
	p, _ := verify.Lookup("standard-webhooks")
	g, _ := makeGenuine(t, p)
	good := g.request.Header.Get("Webhook-Signature")
	bad := "v1," + strings.Repeat("A", 43) + "="
	for _, c := range []struct {
		name, value string
		want        verify.Reason
	}{
		{"bad, then good", bad + " " + good, ""},
		{"good, then bad", good + " " + bad, ""},
		{"unknown versions before it", "v2,AAAA v1a,BBBB " + bad + " " + good, ""},
		{"200 wrong ones before it", strings.Repeat(bad+" ", 200) + good, ""},
		{"more than are looked at before it", strings.Repeat(bad+" ", 300) + good, verify.ReasonNoMatch},
		{"only unknown versions", "v2,AAAA v9,BBBB", verify.ReasonUnsupported},
		{"the right digest as another version", "v2" + strings.TrimPrefix(good, "v1"), verify.ReasonUnsupported},
		{"only wrong ones", bad + " " + bad, verify.ReasonNoMatch},
		{"blanks", " ", verify.ReasonMalformed},
	} {
		r := g.clone()
		r.Header.Set("Webhook-Signature", c.value)
		if got := g.verifier.Verify(t.Context(), r, someTime); got.Reason != c.want {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
	p, _ = verify.Lookup("stripe")
	g, _ = makeGenuine(t, p)
	ts, sig, _ := strings.Cut(g.request.Header.Get("Stripe-Signature"), ",")
	zeros := strings.Repeat("0", 64)
	for value, want := range map[string]verify.Reason{
		ts + ",v0=x,v1=bad,v1=" + zeros + "," + sig: "",
		sig + "," + ts: "",
		ts + ",v0=" + strings.TrimPrefix(sig, "v1="): verify.ReasonUnsupported,
		ts + "," + ts + "," + sig:                    verify.ReasonMalformed, // which of two times is the signed one?
		sig:                                          verify.ReasonMalformed,
		ts:                                           verify.ReasonMalformed,
	} {
		r := g.clone()
		r.Header.Set("Stripe-Signature", value)
		if got := g.verifier.Verify(t.Context(), r, someTime); got.Reason != want {
			t.Errorf("%s: got %+v, want %q", value, got, want)
		}
	}
}

func TestManySignaturesTakeBoundedTime(t *testing.T) {
	p, _ := verify.Lookup("standard-webhooks")
	g, _ := makeGenuine(t, p)
	r := g.clone()
	r.Header.Set("Webhook-Signature", strings.Repeat("v1,"+strings.Repeat("A", 43)+"= ", 20_000))
	start := time.Now()
	g.verifier.Verify(t.Context(), r, someTime)
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("a header of a megabyte takes %v", took)
	}
}

func TestMollieMaySendOneHeaderLineForEachSecret(t *testing.T) {
	p, _ := verify.Lookup("mollie")
	g, _ := makeGenuine(t, p)
	good := g.request.Header.Get("X-Mollie-Signature")
	for _, lines := range [][]string{{"sha256=" + strings.Repeat("0", 64), good}, {good, "sha256=" + strings.Repeat("0", 64)}} {
		r := g.clone()
		r.Header["X-Mollie-Signature"] = lines
		if got := g.verifier.Verify(t.Context(), r, someTime); !got.OK {
			t.Errorf("%q: got %+v", lines, got)
		}
	}
}

func TestDocuSignMaySendOneHeaderForEachKey(t *testing.T) {
	p, _ := verify.Lookup("docusign")
	g, _ := makeGenuine(t, p)
	r := g.clone()
	r.Header.Set("X-DocuSign-Signature-2", r.Header.Get("X-DocuSign-Signature-1"))
	r.Header.Set("X-DocuSign-Signature-1", "KMEa5Rn77AgHPA35yaxgWt2Fhe6LCyaC0LdUFDdQmlk=")
	if got := g.verifier.Verify(t.Context(), r, someTime); !got.OK {
		t.Errorf("the second header: got %+v", got)
	}
}

func TestPersonaMaySendTwoPairs(t *testing.T) {
	p, _ := verify.Lookup("persona")
	g, _ := makeGenuine(t, p)
	r := g.clone()
	r.Header.Set("Persona-Signature", "t=1767225600,v1="+strings.Repeat("0", 64)+" "+g.request.Header.Get("Persona-Signature"))
	if got := g.verifier.Verify(t.Context(), r, someTime); !got.OK {
		t.Errorf("the second pair: got %+v", got)
	}
}

// A sender must not be able to choose the weaker of two proofs.
func TestNoDowngrade(t *testing.T) {
	signed := func(provider, secret string) *verify.Request {
		r := &verify.Request{Method: http.MethodPost, URL: someURL, Header: http.Header{}, Body: []byte(body)}
		if err := verify.Sign(provider, verify.SignKeys{Secret: secret}, nil, r, someTime); err != nil {
			t.Fatal(err)
		}
		return r
	}
	const whsec = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	token := http.Header{"X-Gitlab-Token": {"the-token-made-up"}}
	both := signed("gitlab", whsec)
	both.Header.Set("X-Gitlab-Token", "the-token-made-up")
	bad := signed("gitlab", whsec)
	bad.Header.Set("X-Gitlab-Token", "the-token-made-up")
	bad.Body = []byte("changed")
	for _, c := range []struct {
		name    string
		secrets []string
		request *verify.Request
		ok      bool
	}{
		{"a token where a token is configured", []string{"the-token-made-up"}, &verify.Request{Header: token}, true},
		{"a token where a signing token is configured", []string{whsec}, &verify.Request{Header: token}, false},
		{"a token where both are configured", []string{whsec, "the-token-made-up"}, &verify.Request{Header: token}, false},
		{"a signature and a token", []string{whsec}, both, true},
		{"a wrong signature and the right token", []string{"the-token-made-up"}, bad, false},
		{"a wrong signature and the right token, both configured", []string{whsec, "the-token-made-up"}, bad, false},
	} {
		if got := newVerifier(t, "gitlab", nil, c.secrets...).Verify(t.Context(), c.request, someTime); got.OK != c.ok {
			t.Errorf("%s: got %+v, want OK %v", c.name, got, c.ok)
		}
	}

	forgejo := signed("forgejo", secret)
	forgejo.Header.Set("X-Gitea-Signature", forgejo.Header.Get("X-Forgejo-Signature"))
	forgejo.Header["X-Forgejo-Signature"] = []string{""}
	if got := newVerifier(t, "forgejo", nil, secret).Verify(t.Context(), forgejo, someTime); got.OK {
		t.Error("forgejo: an empty header of its own lets the other one decide")
	}
}

func TestAHeaderOfAnotherProviderProvesNothing(t *testing.T) {
	v := newVerifier(t, "github", nil, secret)
	for name, h := range map[string]http.Header{
		"no headers at all":           nil,
		"another provider's header":   {"X-Signature": {"sha256=" + sigHex}},
		"only the weaker SHA-1 one":   {"X-Hub-Signature": {"sha1=0000000000000000000000000000000000000000"}},
		"the right header, no values": {"X-Hub-Signature-256": nil},
		"a lower-case name":           {"x-hub-signature-256": {"sha256=" + sigHex}},
	} {
		if got, want := v.Verify(t.Context(), &verify.Request{Header: h, Body: []byte(body)}, someTime), (verify.Verdict{Reason: verify.ReasonMissing}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
