package anvil

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

const (
	someEvent = `{"id":"evt_1","type":"invoice.paid","data":{"amount":1999,"note":"ç 😀"}}`
	// tokenSecret has the form of Standard Webhooks.
	tokenSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

// keyPairs are a private key of each kind with its public one, and a certificate of the last, as PEM.
type keyPairs struct {
	private, public []string
	certificate     string
}

func makeKeys(t *testing.T) keyPairs {
	t.Helper()
	_, ed, err1 := ed25519.GenerateKey(rand.Reader)
	ec, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, err3 := rsa.GenerateKey(rand.Reader, 2048)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	var k keyPairs
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	for _, key := range []crypto.Signer{ed, ec, rs} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		k.private = append(k.private, encode("PRIVATE KEY", der, err))
		der, err = x509.MarshalPKIXPublicKey(key.Public())
		k.public = append(k.public, encode("PUBLIC KEY", der, err))
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sns.amazonaws.com"}, DNSNames: []string{"sns.amazonaws.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, rs.Public(), rs)
	k.certificate = encode("CERTIFICATE", der, err)
	return k
}

// someSecrets are of all forms that providers have; one of them fits each.
func someSecrets(k keyPairs) []verify.SignKeys {
	all := []verify.SignKeys{}
	for _, text := range []string{
		"a-secret-made-up-for-tests-32-bytes", tokenSecret, "v1," + tokenSecret, strings.Repeat("0A", 32), "c2VjcmV0LW1hZGUtdXAtZm9yLXRlc3Rz",
		"user:password-made-up", "primary-key-made-up,secondary-key", "arn:aws:sns:us-east-1:123456789012:a",
	} {
		all = append(all, verify.SignKeys{Secret: text})
	}
	for _, private := range k.private {
		all = append(all, verify.SignKeys{Private: private})
	}
	return all
}

// signer is a provider as a test knows it.
type signer struct {
	*verify.Provider
	line    string // of the Caddyfile
	keys    verify.SignKeys
	options verify.Options
}

var neededOptions = map[string]string{
	"audience": "https://hooks.example.test/in", "service_account": "push@p.iam.gserviceaccount.com", "app_key": "key-made-up", "header": "X-Jws",
}

// newSigner finds a secret of the provider's form and writes a line with nothing but what the provider needs.
func newSigner(t *testing.T, p *verify.Provider, k keyPairs, dir string) signer {
	t.Helper()
	s := signer{Provider: p, options: verify.Options{}}
	block := ""
	for _, word := range p.Needs {
		s.options[word] = neededOptions[word]
		block += word + " " + neededOptions[word] + "\n"
	}
	if p.Family == verify.FamilyCertificate {
		path := filepath.Join(dir, "certificate.pem")
		if err := os.WriteFile(path, []byte(k.certificate), 0o600); err != nil {
			t.Fatal(err)
		}
		s.options["certificate"] = k.certificate
		block += "certificate {file." + path + "}\n"
	}
	if block != "" {
		block = " {\n" + block + "}"
	}
	if !p.Proves {
		s.line = "verify " + p.ID + block
		return s
	}
	for _, keys := range someSecrets(k) {
		secret := keys.Secret
		if i := slices.Index(k.private, keys.Private); i >= 0 {
			secret = k.public[i]
		}
		if p.Family == verify.FamilyCertificate {
			keys.Private = k.private[2]
		}
		r := &verify.Request{Method: http.MethodPost, URL: "https://hooks.example.test/in", Header: http.Header{}, Body: []byte(someEvent)}
		if verify.Sign(p.ID, keys, s.options, r, time.Now()) != nil {
			continue
		}
		if v, err := verify.New(p.ID, []string{secret}, s.options, nil); err != nil || !v.Verify(t.Context(), r, time.Now()).OK {
			continue
		}
		path := filepath.Join(dir, p.ID)
		if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		s.keys, s.line = keys, "verify "+p.ID+" {file."+path+"}"+block
		return s
	}
	t.Fatalf("%s: no secret of the test fits", p.ID)
	return s
}

// sendAs posts an event as the provider would.
func (s *site) sendAs(p signer, path, event string, change func(*http.Request)) reply {
	s.Helper()
	v := &verify.Request{
		Method: http.MethodPost, URL: "http://" + s.addr + path, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(event),
	}
	if p.Proves {
		if err := verify.Sign(p.ID, p.keys, p.options, v, time.Now()); err != nil {
			s.Fatal(err)
		}
	}
	return s.send(v, change)
}

// send sends a request as it is.
func (s *site) send(v *verify.Request, change func(*http.Request)) reply {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), v.Method, v.URL, bytes.NewReader(v.Body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header, r.Close = v.Header.Clone(), true
	if change != nil {
		change(r)
	}
	return s.roundTrip(r)
}

// Each provider is configured with a line of its own, sent to as it signs, and answered as it wants.
func TestEveryProvider(t *testing.T) {
	keys, dir := makeKeys(t), t.TempDir()
	var all []signer
	var blocks strings.Builder
	for _, p := range verify.Providers() {
		all = append(all, newSigner(t, p, keys, dir))
		fmt.Fprintf(&blocks, "anvil /%s p-%s {\n%s\n}\n", p.ID, p.ID, all[len(all)-1].line)
	}
	at := newSite(t)
	at.global = "servers {\nexpected_underscore_headers WM_SEC.SIGNATURE WM_SEC.TIMESTAMP\nexpected_dot_headers WM_SEC.SIGNATURE WM_SEC.TIMESTAMP\n}"
	at.mustLoad(blocks.String(), "workers off")
	for _, p := range all {
		t.Run(p.ID, func(t *testing.T) {
			s := &site{TB: t, addr: at.addr}
			r := s.sendAs(p, "/"+p.ID, someEvent, nil)
			want := cmp.Or(p.Accepted.Status, http.StatusAccepted)
			if r.status != want || p.Accepted.Status != 0 && r.body != p.Accepted.Body || r.header.Get("Anvil-Job-Id") == "" {
				t.Fatalf("answered %d %q %v, want %d", r.status, r.body, r.header, want)
			}
			for name, value := range p.Accepted.Headers {
				if r.header.Get(name) != value {
					t.Errorf("header %s is %q", name, r.header.Get(name))
				}
			}
			if !p.Proves {
				return
			}
			// 404 and 410 end subscriptions, and so do 400 and 406 at some.
			r = s.send(&verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + "/" + p.ID, Header: http.Header{}, Body: []byte(someEvent)}, nil)
			if r.status != cmp.Or(p.Refused.Status, http.StatusUnauthorized) || r.header.Get("Anvil-Job-Id") != "" {
				t.Errorf("without proof: %d %q", r.status, r.body)
			}
		})
	}
}
