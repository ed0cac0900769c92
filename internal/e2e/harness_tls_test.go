package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// tlsHost is the name that senders know a TLS site by. They find it without DNS.
const tlsHost = "hooks.example.com"

// startTLS is startCaddy with a site that is served by TLS.
func startTLS(t testing.TB, site string) (c *instance, senders []*sender) {
	t.Helper()
	c = newInstance(t)
	c.site = fmt.Sprintf("https://%s:%d", tlsHost, c.ports.site)
	certificate, key := selfSigned(t)
	c.start(fmt.Sprintf("%s\n%s {\n\ttls %s %s\n%s\n}\n",
		c.options(""), c.site, c.write("cert.pem", certificate), c.write("key.pem", key), site))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	return c, newSenders(t, c, roots)
}

// selfSigned makes a certificate for tlsHost.
func selfSigned(t testing.TB) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: tlsHost}, DNSNames: []string{tlsHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8)
}

// sender speaks one version of HTTP to a TLS site.
type sender struct {
	proto  string
	client *http.Client
	conns  *atomic.Int32 // connections opened so far
}

// newSenders makes one sender for each version of HTTP.
func newSenders(t testing.TB, c *instance, roots *x509.CertPool) []*sender {
	addr := fmt.Sprintf("127.0.0.1:%d", c.ports.site)
	config := func() *tls.Config { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} }
	overTCP := func(proto string, choose func(*http.Protocols)) *sender {
		conns := new(atomic.Int32)
		transport := &http.Transport{
			TLSClientConfig: config(), Protocols: new(http.Protocols), DisableCompression: true,
			ExpectContinueTimeout: time.Minute, // no body before the server asks for it
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conns.Add(1)
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			},
		}
		choose(transport.Protocols)
		t.Cleanup(transport.CloseIdleConnections)
		return &sender{proto, &http.Client{Timeout: time.Minute, Transport: transport}, conns}
	}
	conns := new(atomic.Int32)
	transport := &http3.Transport{
		TLSClientConfig: config(), DisableCompression: true,
		Dial: func(ctx context.Context, _ string, tlsConfig *tls.Config, quicConfig *quic.Config) (*quic.Conn, error) {
			conns.Add(1)
			return quic.DialAddrEarly(ctx, addr, tlsConfig, quicConfig)
		},
	}
	t.Cleanup(func() { transport.Close() })
	return []*sender{
		overTCP("HTTP/1.1", func(p *http.Protocols) { p.SetHTTP1(true) }),
		overTCP("HTTP/2.0", func(p *http.Protocols) { p.SetHTTP2(true) }),
		{"HTTP/3.0", &http.Client{Timeout: time.Minute, Transport: transport}, conns},
	}
}

// send posts a body of the length that is told, -1 for an unknown one.
func (s *sender) send(ctx context.Context, url string, body io.Reader, length int64, header ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return response{}, err
	}
	req.ContentLength = length
	r, err := do(s.client, req, header...)
	if err == nil && r.proto != s.proto {
		err = fmt.Errorf("answered by %s instead of %s", r.proto, s.proto)
	}
	return r, err
}

// post sends a signed body, with the test failing when there is no answer.
func (s *sender) post(t testing.TB, url string, body []byte) response {
	t.Helper()
	r, err := s.send(t.Context(), url, bytes.NewReader(body), int64(len(body)), "X-Signature", sign(secret, body))
	if err != nil {
		t.Fatalf("posting by %s: %v", s.proto, err)
	}
	return r
}

// accepted is post with the test failing when the answer is not a first 202.
func (s *sender) accepted(t testing.TB, url string, body []byte) string {
	t.Helper()
	r := s.post(t, url, body)
	if r.status != http.StatusAccepted || r.JobID == "" || r.Replayed {
		t.Fatalf("%s: got %d %s, want a fresh 202 with a job id", s.proto, r.status, r.body)
	}
	return r.JobID
}

// sameConnection fails the test when streams of a connection have ended it. HTTP/1.1 has none.
func (s *sender) sameConnection(t testing.TB) {
	t.Helper()
	if n := s.conns.Load(); n != 1 && s.proto != "HTTP/1.1" {
		t.Errorf("%s: %d connections, want one", s.proto, n)
	}
}
