package verify_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

const (
	someBody = `{"id":"evt_1","type":"invoice.paid","data":{"amount":1999,"note":"ç 😀"}}`
	someURL  = "https://hooks.example.test/in?x=1"
)

var someTime = time.Unix(1767225600, 0)

// oddSecrets are the secrets of providers that do not take any text. The second is another one of the same form.
var oddSecrets = map[string][2]string{
	"adyen":          {strings.Repeat("0A", 32), strings.Repeat("0B", 32)},
	"adyen-platform": {strings.Repeat("0A", 32), strings.Repeat("0B", 32)},
	"airtable":       {"YWlydGFibGUtbWFjLXNlY3JldA==", "YWlydGFibGUtbWFjLXNlY3JldDI="},
	"contentful":     {strings.Repeat("a", 64), strings.Repeat("b", 64)},
	"box":            {"primary-key-made-up,secondary-key", "other-key-made-up,another-key"},
	"braintree":      {"public:private-made-up", "public:another-made-up"},
	"aws-sns":        {"arn:aws:sns:us-east-1:123456789012:a", "arn:aws:sns:us-east-1:123456789012:b"},
	"gitlab":         {"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "whsec_YTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
	"supabase":       {"v1,whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "v1,whsec_YTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
}

var neededOptions = verify.Options{
	"audience": "https://hooks.example.test/in", "service_account": "push@p.iam.gserviceaccount.com", "app_key": "key-made-up", "header": "X-Jws",
}

// pemOf makes a private key once for all tests: making RSA keys is slow.
var testKeys = sync.OnceValue(func() (k struct {
	private     [3]string
	certificate string
},
) {
	_, ed, err1 := ed25519.GenerateKey(rand.Reader)
	ec, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, err3 := rsa.GenerateKey(rand.Reader, 2048)
	if err1 != nil || err2 != nil || err3 != nil {
		panic("making keys")
	}
	for i, key := range []crypto.PrivateKey{ed, ec, rs} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			panic(err)
		}
		k.private[i] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sns.amazonaws.com"}, DNSNames: []string{"sns.amazonaws.com"},
		NotBefore: someTime.Add(-time.Hour), NotAfter: someTime.Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, rs.Public(), rs)
	if err != nil {
		panic(err)
	}
	k.certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return k
})

// genuine is one provider with a request that it could have sent.
type genuine struct {
	provider *verify.Provider
	verifier *verify.Verifier
	options  verify.Options
	secret   string // as configured
	other    string // another secret of the same form
	request  *verify.Request
	added    []string // the headers that signing added
}

// makeGenuine signs a request as the provider. It is false for providers that prove nothing.
func makeGenuine(t testing.TB, p *verify.Provider) (*genuine, bool) {
	t.Helper()
	if !p.Proves {
		return nil, false
	}
	g := &genuine{provider: p, options: verify.Options{}, secret: "a-secret-made-up-for-tests-32-bytes", other: "another-secret-made-up-for-tests-32"}
	for _, word := range p.Needs {
		g.options[word] = neededOptions[word]
	}
	switch odd, ok := oddSecrets[p.ID]; {
	case ok:
		g.secret, g.other = odd[0], odd[1]
	case p.Family == verify.FamilyStandard && p.Secret == "the signing secret, whsec_…" || p.ID == "standard-webhooks" || p.ID == "openai":
		g.secret, g.other = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "whsec_YTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	case strings.HasPrefix(p.Secret, "user:password") || p.ID == "basic":
		g.secret, g.other = "user:pa:ss-made-up", "user:pa:ss-different"
	}
	keys := []verify.SignKeys{{Secret: g.secret}}
	if p.Family == verify.FamilyCertificate {
		g.options["certificate"] = testKeys().certificate
		keys = []verify.SignKeys{{Secret: g.secret, Private: testKeys().private[2]}}
	}
	if p.Family == verify.FamilyPublicKey || p.Family == verify.FamilyJWT || p.ID == "paddle-classic" {
		for _, private := range testKeys().private {
			keys = append(keys, verify.SignKeys{Private: private})
		}
	}
	var err error
	for _, k := range keys {
		r := &verify.Request{Method: http.MethodPost, URL: someURL, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(someBody)}
		if err = verify.Sign(p.ID, k, g.options, r, someTime); err != nil {
			continue
		}
		g.request = r
		if k.Private != "" && p.Family != verify.FamilyCertificate {
			g.secret, g.other = publicOf(t, k.Private), publicOf(t, anotherPrivate(t, k.Private))
		}
		break
	}
	if g.request == nil {
		t.Fatalf("signing: %v", err)
	}
	for name := range g.request.Header {
		if name != "Content-Type" && name != "X-Amz-Sns-Message-Type" {
			g.added = append(g.added, name)
		}
	}
	if g.verifier, err = verify.New(p.ID, []string{g.secret}, g.options, nil); err != nil {
		t.Fatal(err)
	}
	return g, true
}

func parsePrivate(t testing.TB, text string) crypto.Signer {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(crypto.Signer)
}

func publicOf(t testing.TB, private string) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(parsePrivate(t, private).Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// others are other keys of each kind, also made once.
var otherKeys = sync.OnceValue(func() [3]string {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	var out [3]string
	for i, key := range []crypto.PrivateKey{ed, ec, rs} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			panic(err)
		}
		out[i] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	return out
})

func anotherPrivate(t testing.TB, private string) string {
	t.Helper()
	for i, k := range testKeys().private {
		if k == private {
			return otherKeys()[i]
		}
	}
	t.Fatal("not one of the test's keys")
	return ""
}

func (g *genuine) clone() *verify.Request {
	r := *g.request
	r.Header = g.request.Header.Clone()
	r.Body = append([]byte(nil), g.request.Body...)
	return &r
}
