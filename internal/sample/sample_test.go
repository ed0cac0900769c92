package sample_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/sample"
	"github.com/caddy-anvil/anvil/internal/verify"
)

const sentTo = "https://hooks.example.test/in"

// secrets of the forms that some providers insist on.
var secrets = map[string]string{
	"adyen": strings.Repeat("0a", 32), "adyen-platform": strings.Repeat("0a", 32), "airtable": "YWlydGFibGUtbWFjLXNlY3JldA==",
	"aws-sns": "arn:aws:sns:us-east-1:123456789012:orders", "box": "primary-key-made-up,secondary-key", "braintree": "public:private-made-up", "contentful": strings.Repeat("a", 64),
}

// withPrivateKey are the providers that sign with a private key of their own.
var withPrivateKey = map[string]string{
	"discord": "Ed25519", "ed25519": "Ed25519", "fal": "Ed25519", "neon": "Ed25519", "telnyx": "Ed25519",
	"tokenio": "Ed25519",
	"circle":  "ECDSA", "ebay": "ECDSA", "plaid": "ECDSA", "sendgrid": "ECDSA",
	"aws-sns": "certificate", "paypal": "certificate",
	"alipay": "RSA", "bitso": "RSA", "bridge-xyz": "RSA", "chip-in": "RSA", "constant-contact": "RSA",
	"dyte": "RSA", "fireblocks": "RSA", "fireblocks-v2": "RSA", "gemini-dynamic": "RSA", "google-pubsub": "RSA",
	"green-dot": "RSA", "kinde": "RSA", "lago": "RSA", "paddle-classic": "RSA", "saleor": "RSA",
	"shipengine": "RSA", "utila": "RSA", "wechat-pay": "RSA", "wise": "RSA", "wix": "RSA",
}

// keyPair is a private key with what verification is told of it.
type keyPair struct{ private, public string }

// keyPairs makes one key of each kind.
func keyPairs(t *testing.T) map[string]keyPair {
	t.Helper()
	_, ed, err1 := ed25519.GenerateKey(rand.Reader)
	ec, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, err3 := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	pairs := map[string]keyPair{}
	for kind, key := range map[string]crypto.Signer{"Ed25519": ed, "ECDSA": ec, "RSA": rs} {
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		public, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		pairs[kind] = keyPair{pemOf("PRIVATE KEY", private), pemOf("PUBLIC KEY", public)}
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, rs.Public(), rs)
	if err != nil {
		t.Fatal(err)
	}
	pairs["certificate"] = keyPair{pairs["RSA"].private, pemOf("CERTIFICATE", der)}
	return pairs
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// signed signs the request as the provider and returns what verifies it.
func signed(t *testing.T, p *verify.Provider, r *verify.Request, pairs map[string]keyPair) *verify.Verifier {
	t.Helper()
	v, err := trySign(t, p, r, pairs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func trySign(t *testing.T, p *verify.Provider, r *verify.Request, pairs map[string]keyPair) (*verify.Verifier, error) {
	t.Helper()
	secret := "a-secret-made-up-for-tests-32-bytes"
	switch {
	case secrets[p.ID] != "":
		secret = secrets[p.ID]
	case p.Family == verify.FamilyStandard:
		secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	case strings.HasPrefix(p.Secret, "user:password"):
		secret = "user:password-made-up"
	}
	options := verify.Options{}
	for _, word := range p.Needs {
		options[word] = map[string]string{"audience": sentTo, "service_account": "a@b.test", "app_key": "key", "header": "X-Jws"}[word]
	}
	keys := verify.SignKeys{Secret: secret}
	switch kind := withPrivateKey[p.ID]; kind {
	case "":
	case "certificate":
		keys.Private, options["certificate"] = pairs[kind].private, pairs[kind].public
	default:
		keys, secret = verify.SignKeys{Private: pairs[kind].private}, pairs[kind].public
	}
	if err := verify.Sign(p.ID, keys, options, r, time.Now()); err != nil {
		return nil, err
	}
	return verify.New(p.ID, []string{secret}, options, nil)
}

func TestAnyBodyIsSignedOrRefused(t *testing.T) {
	pairs := keyPairs(t)
	for _, p := range verify.Providers() {
		for _, body := range []string{"", "{", "[1]", "\xff\x00", "a=1&b", `{"event":"x"}`} {
			if !p.Proves {
				continue
			}
			r, err := sample.WithBody(p, sentTo, "", []byte(body))
			if err != nil {
				continue
			}
			if v, err := trySign(t, p, r, pairs); err == nil && !v.Verify(t.Context(), r, time.Now()).OK {
				t.Errorf("%s: signing %q gave no genuine request", p.ID, body)
			}
		}
	}
}

func TestASampleOfEveryProviderIsGenuineOnceSignedAndHasTheTypeAskedFor(t *testing.T) {
	pairs := keyPairs(t)
	for _, p := range verify.Providers() {
		if !p.Proves {
			continue
		}
		t.Run(p.ID, func(t *testing.T) {
			want := "made.up"
			if place, _, _ := strings.Cut(p.EventType, " | "); strings.Contains(place, " + ") {
				want = "made.up:created"
			}
			r, err := sample.Event(p, sentTo, want)
			chosen := err == nil
			if err != nil {
				want = ""
				if r, err = sample.Event(p, sentTo, ""); err != nil {
					t.Fatal(err)
				}
			}
			v := signed(t, p, r, pairs)
			if got := v.Verify(t.Context(), r, time.Now()); !got.OK {
				t.Fatalf("%s: %s %v %s", got.Reason, r.URL, r.Header, r.Body)
			}
			eventType, id := v.EventFacts(r)
			if chosen && eventType != want {
				t.Errorf("type %q, want %q: %v %s", eventType, want, r.Header, r.Body)
			}
			if p.Dedupe == "event_id" && id == "" && p.ID != "kinde" {
				t.Errorf("no event id: %v %s", r.Header, r.Body)
			}
		})
	}
}

func TestNoTwoSamplesAreTheSameEvent(t *testing.T) {
	for _, p := range verify.Providers() {
		a, errA := sample.Event(p, sentTo, "")
		b, errB := sample.Event(p, sentTo, "")
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if string(a.Body) == string(b.Body) {
			t.Errorf("%s: twice %s", p.ID, a.Body)
		}
	}
}

func TestAnEventOfTheUsersStaysAsItIs(t *testing.T) {
	github := lookup(t, "github")
	for body, contentType := range map[string]string{
		"{\"a\" : 1}\n": "application/json", "a=b&c=%20": "application/x-www-form-urlencoded", "\xff\x00": "application/octet-stream",
		"plain words": "application/octet-stream", "": "application/octet-stream",
	} {
		r, err := sample.WithBody(github, sentTo, "push", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Body) != body || r.Header.Get("Content-Type") != contentType || r.Header.Get("X-Github-Event") != "push" || r.Header.Get("X-Github-Delivery") == "" {
			t.Errorf("%q became %q with %v", body, r.Body, r.Header)
		}
	}
}

func TestATypeThatCannotBeGivenIsAnError(t *testing.T) {
	for _, c := range []struct{ provider, want string }{
		{"hmac", "says nowhere"},
		{"kinde", "cannot be chosen"},
		{"aws-sns", "cannot be chosen"},
		{"heroku", "2 parts"},
	} {
		if _, err := sample.Event(lookup(t, c.provider), sentTo, "x"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.provider, err, c.want)
		}
	}
	for _, provider := range []string{"stripe", "chargify"} {
		if _, err := sample.WithBody(lookup(t, provider), sentTo, "x", []byte("{}")); err == nil || !strings.Contains(err.Error(), "write it there") {
			t.Errorf("%s: %v", provider, err)
		}
	}
}

func TestASampleCanBeSignedWithAPrivateKey(t *testing.T) {
	seed := make([]byte, ed25519.SeedSize)
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	p := lookup(t, "telnyx")
	r, err := sample.Event(p, sentTo, "message.received")
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Sign(p.ID, verify.SignKeys{Private: hex.EncodeToString(seed)}, nil, r, time.Now()); err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(p.ID, []string{base64.StdEncoding.EncodeToString(public)}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	typ, _ := v.EventFacts(r)
	if got := v.Verify(t.Context(), r, time.Now()); !got.OK || typ != "message.received" {
		t.Errorf("%+v %s", got, typ)
	}
}

func lookup(t *testing.T, id string) *verify.Provider {
	t.Helper()
	p, ok := verify.Lookup(id)
	if !ok {
		t.Fatalf("no provider %s", id)
	}
	return p
}
