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

// Looking at ever more signatures would take ever more time.
func TestOnlySoManySignaturesAreLookedAt(t *testing.T) {
	publicKey := publicOf(t, testKeys().private[0])
	for _, c := range []struct {
		provider string
		options  verify.Options
		private  string
		secret   string
		wrong    string
		most     int
	}{
		{"hmac", verify.Options{"separator": ","}, "", secret, strings.Repeat("0", 64), 256},
		{"hmac", verify.Options{"signature_key": "v1"}, "", secret, "v1=" + strings.Repeat("0", 64), 256},
		{"ed25519", verify.Options{"separator": ","}, testKeys().private[0], publicKey, strings.Repeat("0", 128), 16},
		{"ed25519", verify.Options{"signature_key": "v1"}, testKeys().private[0], publicKey, "v1=" + strings.Repeat("0", 128), 16},
	} {
		r := post(someBody)
		if err := verify.Sign(c.provider, verify.SignKeys{Secret: c.secret, Private: c.private}, c.options, r, someTime); err != nil {
			t.Fatal(err)
		}
		v := newVerifier(t, c.provider, c.options, c.secret)
		for before, want := range map[int]bool{c.most - 1: true, c.most: false} {
			many := with(r, strings.Repeat(c.wrong+",", before)+r.Header.Get("X-Signature"), "X-Signature")
			if got := v.Verify(t.Context(), many, someTime); got.OK != want {
				t.Errorf("%s %v: %d before it: got %+v", c.provider, c.options, before, got)
			}
		}
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

// The time and what is signed are those of the pair that matched, wherever it stands.
func TestOfTwoPairsTheOneThatMatchedCounts(t *testing.T) {
	p, _ := verify.Lookup("persona")
	g, _ := makeGenuine(t, p)
	good, bad := g.request.Header.Get("Persona-Signature"), "t=1767225601,v1="+strings.Repeat("0", 64)
	hash := func(r *verify.Request) [32]byte {
		return g.verifier.SignedHash(r, g.verifier.Verify(t.Context(), r, someTime), someTime)
	}
	for _, value := range []string{bad + " " + good, good + " " + bad, bad + " " + bad + " " + good} {
		r := g.clone()
		r.Header.Set("Persona-Signature", value)
		if hash(r) != hash(g.request) {
			t.Errorf("%s: another signed hash", value)
		}
		hints := g.verifier.Explain(t.Context(), r, someTime.Add(time.Hour), nil)
		if len(hints) == 0 || !strings.Contains(hints[0].Text, "3600 s behind") {
			t.Errorf("%s: %+v", value, hints)
		}
	}
}

func TestFourPairsAreLookedAt(t *testing.T) {
	p, _ := verify.Lookup("persona")
	g, _ := makeGenuine(t, p)
	bad := "t=1767225600,v1=" + strings.Repeat("0", 64) + " "
	for before, want := range map[int]bool{3: true, 4: false} {
		r := g.clone()
		r.Header.Set("Persona-Signature", strings.Repeat(bad, before)+g.request.Header.Get("Persona-Signature"))
		if got := g.verifier.Verify(t.Context(), r, someTime); got.OK != want {
			t.Errorf("%d before it: got %+v", before, got)
		}
	}
}

// Anyone can leave one of several signatures out, so where a repeat is known by its signature there must be one only.
func TestTheDefaultRuleDoesNotBuildOnOneOfSeveralSignatures(t *testing.T) {
	const first, second = "a-secret-made-up-for-tests-32-bytes", "another-secret-made-up-for-tests-32"
	for _, c := range []struct {
		provider, header, separator string
		options                     verify.Options
	}{
		{"hmac", "X-Signature", ",", verify.Options{"separator": ","}},
		{"hmac", "X-Signature", ",", verify.Options{"signature_key": "v1"}},
		{"bridge-api", "BridgeApi-Signature", ",", nil},
		{"upollo", "Upollo-Signature", ",", nil},
	} {
		one, other := post(someBody), post(someBody)
		for secret, r := range map[string]*verify.Request{first: one, second: other} {
			if err := verify.Sign(c.provider, verify.SignKeys{Secret: secret}, c.options, r, someTime); err != nil {
				t.Fatal(err)
			}
		}
		both := with(one, one.Header.Get(c.header)+c.separator+other.Header.Get(c.header), c.header)
		v := newVerifier(t, c.provider, c.options, first, second)
		all, some := v.Verify(t.Context(), both, someTime), v.Verify(t.Context(), other, someTime)
		if !all.OK || !some.OK || all.Signature == some.Signature {
			t.Fatalf("%s: got %+v and %+v: nothing is proved by this", c.provider, all, some)
		}
		if v.Dedupe() == "signature" || v.DedupeOtherwise() == "signature" {
			t.Errorf("%s %v: a repeat is known by its signature", c.provider, c.options)
		}
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
