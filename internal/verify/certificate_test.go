package verify_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

const snsCert = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem"

// signedSNS makes a message of the fields, signed with the test's RSA key.
func signedSNS(t *testing.T, fields map[string]string) *verify.Request {
	t.Helper()
	m := map[string]string{
		"Type": "Notification", "MessageId": "m-1", "TopicArn": oddSecrets["aws-sns"][0], "Message": "hello", "Timestamp": "2026-01-01T00:00:00.000Z",
		"SignatureVersion": "2", "SigningCertURL": snsCert,
	}
	maps.Copy(m, fields)
	covered := []string{"Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	var text []byte
	for _, name := range slices.Sorted(slices.Values(covered)) {
		if value, ok := m[name]; ok {
			text = append(text, name+"\n"+value+"\n"...)
		}
	}
	sum := sha256.Sum256(text)
	sig, err := rsa.SignPKCS1v15(rand.Reader, parsePrivate(t, testKeys().private[2]).(*rsa.PrivateKey), crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	m["Signature"] = base64.StdEncoding.EncodeToString(sig)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return post(string(b))
}

func TestCertificatesAreFetchedFromTheProviderOnly(t *testing.T) {
	for _, c := range []struct {
		name, url string
		now       time.Time
		docs      map[string]string
		want      verify.Reason
		asked     int
	}{
		{"from AWS", snsCert, someTime, map[string]string{snsCert: testKeys().certificate}, "", 1},
		{"from AWS, which does not answer", snsCert, someTime, nil, verify.ReasonKeyUnavailable, 1},
		{"from AWS, no certificate", snsCert, someTime, map[string]string{snsCert: "<html>"}, verify.ReasonKeyUnavailable, 1},
		{"expired", snsCert, someTime.Add(2 * time.Hour), map[string]string{snsCert: testKeys().certificate}, verify.ReasonKeyUnavailable, 1},
		{"not valid yet", snsCert, someTime.Add(-2 * time.Hour), map[string]string{snsCert: testKeys().certificate}, verify.ReasonKeyUnavailable, 1},
		{"a chain to no root", snsCert, someTime, map[string]string{snsCert: testKeys().certificate + testKeys().certificate}, verify.ReasonKeyUnavailable, 1},
		{"one certificate by many names", snsCert + "?x=1", someTime, nil, verify.ReasonWrongClaim, 0},
		{"another host", "https://sns.us-east-1.amazonaws.com.evil.test/x.pem", someTime, nil, verify.ReasonWrongClaim, 0},
		{"a host with a prefix", "https://evil-sns.us-east-1.amazonaws.com/x.pem", someTime, nil, verify.ReasonWrongClaim, 0},
		{"a bucket", "https://s3.amazonaws.com/evil/x.pem", someTime, nil, verify.ReasonWrongClaim, 0},
		{"a user that looks like the host", "https://sns.us-east-1.amazonaws.com@evil.test/x.pem", someTime, nil, verify.ReasonWrongClaim, 0},
		{"no TLS", "http://sns.us-east-1.amazonaws.com/x.pem", someTime, nil, verify.ReasonWrongClaim, 0},
		{"another port", "https://sns.us-east-1.amazonaws.com:8443/x.pem", someTime, nil, verify.ReasonWrongClaim, 0},
		{"no certificate's name", "https://sns.us-east-1.amazonaws.com/?Action=x", someTime, nil, verify.ReasonWrongClaim, 0},
		{"a file", "file:///etc/passwd.pem", someTime, nil, verify.ReasonWrongClaim, 0},
		{"nothing", "", someTime, nil, verify.ReasonWrongClaim, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fetcher{docs: c.docs}
			v, err := verify.New("aws-sns", []string{oddSecrets["aws-sns"][0]}, nil, f)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Verify(t.Context(), signedSNS(t, map[string]string{"SigningCertURL": c.url}), c.now); got.Reason != c.want {
				t.Errorf("got %+v, want %q", got, c.want)
			}
			if len(f.asked) != c.asked {
				t.Errorf("fetched %q", f.asked)
			}
		})
	}
}

// certificateOf issues a certificate of AWS for a key.
func certificateOf(t *testing.T, key any, change func(c *x509.Certificate)) string {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"sns.amazonaws.com"}, NotBefore: someTime.Add(-time.Hour), NotAfter: someTime.Add(time.Hour),
	}
	change(c)
	der, err := x509.CreateCertificate(rand.Reader, c, c, key, parsePrivate(t, testKeys().private[2]))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestOnlyCertificatesForSigningAreTrusted(t *testing.T) {
	rsaKey, ecKey := parsePrivate(t, testKeys().private[2]).Public(), parsePrivate(t, testKeys().private[1]).Public()
	short, err := base64.StdEncoding.DecodeString(shortRSA)
	if err != nil {
		t.Fatal(err)
	}
	shortKey, err := x509.ParsePKIXPublicKey(short)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		want       verify.Reason
	}{
		{"AWS's own", certificateOf(t, rsaKey, func(*x509.Certificate) {}), ""},
		{"an authority's", certificateOf(t, rsaKey, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }), verify.ReasonKeyUnavailable},
		{"somebody else's", certificateOf(t, rsaKey, func(c *x509.Certificate) { c.DNSNames = []string{"amazonaws.com.evil.test"} }), verify.ReasonKeyUnavailable},
		{"one of a short key", certificateOf(t, shortKey, func(*x509.Certificate) {}), verify.ReasonWrongClaim},
		{"one of a key of another kind", certificateOf(t, ecKey, func(*x509.Certificate) {}), verify.ReasonWrongClaim},
	} {
		v, err := verify.New("aws-sns", []string{oddSecrets["aws-sns"][0]}, nil, &fetcher{docs: map[string]string{snsCert: c.text}})
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Verify(t.Context(), signedSNS(t, nil), someTime); got.Reason != c.want {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}

// Strangers must not make us fetch for what is no signature anyway.
func TestNothingIsFetchedForWhatCannotBeASignature(t *testing.T) {
	for length, want := range map[int]verify.Reason{255: verify.ReasonMalformed, 256: verify.ReasonKeyUnavailable} {
		sig := base64.StdEncoding.EncodeToString(make([]byte, length))
		var m map[string]string
		sns := signedSNS(t, nil)
		if err := json.Unmarshal(sns.Body, &m); err != nil {
			t.Fatal(err)
		}
		m["Signature"] = sig
		sns.Body, _ = json.Marshal(m)
		paypal := post(
			someBody, "Paypal-Transmission-Id", "id", "Paypal-Transmission-Time", "2026-01-01T00:00:00Z", "Paypal-Transmission-Sig", sig,
			"Paypal-Cert-Url", "https://api.paypal.com/v1/notifications/certs/CERT-1", "Paypal-Auth-Algo", "SHA256withRSA",
		)
		for provider, r := range map[string]*verify.Request{"aws-sns": sns, "paypal": paypal} {
			f := &fetcher{}
			v, err := verify.New(provider, []string{oddSecrets["aws-sns"][0]}, nil, f)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Verify(t.Context(), r, someTime); got.Reason != want || len(f.asked) > 0 != (want == verify.ReasonKeyUnavailable) {
				t.Errorf("%s, %d bytes: got %+v, having asked for %q", provider, length, got, f.asked)
			}
		}
	}
}

func TestSNSTopicsArePinned(t *testing.T) {
	v := newVerifier(t, "aws-sns", verify.Options{"certificate": testKeys().certificate}, oddSecrets["aws-sns"][1], oddSecrets["aws-sns"][0])
	if got := v.Verify(t.Context(), signedSNS(t, nil), someTime); !got.OK || got.Secret != 1 {
		t.Errorf("one of two topics: got %+v", got)
	}
	other := signedSNS(t, map[string]string{"TopicArn": "arn:aws:sns:us-east-1:999999999999:evil"})
	if got := v.Verify(t.Context(), other, someTime); got.Reason != verify.ReasonWrongClaim {
		t.Errorf("another topic: got %+v", got)
	}
	raw := post("hello", "X-Amz-Sns-Rawdelivery", "true")
	if got := v.Verify(t.Context(), raw, someTime); got.Reason != verify.ReasonMissing {
		t.Errorf("raw delivery: got %+v", got)
	}
	for _, name := range []string{"Message", "MessageId", "Timestamp", "TopicArn", "Type", "Subject"} {
		changed := signedSNS(t, map[string]string{"Subject": "s"})
		var m map[string]string
		if err := json.Unmarshal(changed.Body, &m); err != nil {
			t.Fatal(err)
		}
		m[name] += "x"
		changed.Body, _ = json.Marshal(m)
		if v.Verify(t.Context(), changed, someTime).OK {
			t.Errorf("a changed %s is accepted", name)
		}
	}
}

func TestKeysAreFetchedAndRefetched(t *testing.T) {
	const url = "https://rest.alpha.fal.ai/.well-known/jwks.json"
	private := testKeys().private[0]
	r := post(someBody)
	if err := verify.Sign("fal", verify.SignKeys{Private: private}, nil, r, someTime); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		docs map[string]string
		want verify.Reason
	}{
		{"the key is there", map[string]string{url: jwksOf(t, private)}, ""},
		{"another key is there", map[string]string{url: jwksOf(t, otherKeys()[0])}, verify.ReasonNoMatch},
		{"it cannot be fetched", nil, verify.ReasonKeyUnavailable},
		{"something else is there", map[string]string{url: "<html>"}, verify.ReasonKeyUnavailable},
		{"a symmetric key is there", map[string]string{url: `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`}, verify.ReasonKeyUnavailable},
	} {
		v, err := verify.New("fal", nil, nil, &fetcher{docs: c.docs})
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Verify(t.Context(), r, someTime); got.Reason != c.want {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
	none, _ := verify.New("fal", nil, nil, nil)
	if got := none.Verify(t.Context(), r, someTime); got.Reason != verify.ReasonKeyUnavailable {
		t.Errorf("nothing to fetch with: got %+v", got)
	}
	pinned := newVerifier(t, "fal", verify.Options{"user_id": "someone-else"}, jwksOf(t, private))
	if got := pinned.Verify(t.Context(), r, someTime); got.Reason != verify.ReasonWrongClaim {
		t.Errorf("another account: got %+v", got)
	}
}

// jwksOf is a key set with the public half of an Ed25519 key.
func jwksOf(t *testing.T, private string) string {
	t.Helper()
	pub := parsePrivate(t, private).Public().(ed25519.PublicKey)
	return `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","x":"` + base64.RawURLEncoding.EncodeToString(pub) + `"}]}`
}
