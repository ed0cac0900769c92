package verify

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
)

// certificates finds the certificate that a request names, or a pinned one.
type certificates struct {
	pinned []*x509.Certificate
	fetch  Fetcher
	// allowed reports whether the provider keeps certificates at the URL.
	allowed func(u *url.URL) bool
	// names are what the certificate may be issued for; a leading dot stands for any host below.
	names []string
}

// certificateMaxAge is the age from which a fetched certificate is fetched again. Providers give new ones new URLs.
const certificateMaxAge = 24 * time.Hour

// maxCertificateURL bounds what is kept in memory as the name of a certificate.
const maxCertificateURL = 512

func newCertificates(c *compilation, allowed func(u *url.URL) bool, names ...string) (*certificates, error) {
	out := &certificates{fetch: c.fetch, allowed: allowed, names: names}
	if text := c.options["certificate"]; text != "" {
		var err error
		if out.pinned, err = parseCertificates([]byte(restorePEM(text))); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func checkCertificate(value string) error {
	_, err := parseCertificates([]byte(restorePEM(value)))
	return err
}

func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("it cannot be read; give it as PEM")
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("it is not PEM text")
	}
	return certs, nil
}

// keyAt returns the RSA key of the certificate at the URL.
func (c *certificates) keyAt(ctx context.Context, rawURL string, now time.Time) (*rsa.PublicKey, Reason) {
	u, err := url.Parse(rawURL)
	// Anything but the provider's own host would let a sender bring his own certificate, and a query would give one
	// certificate ever new names, each of which is fetched.
	if err != nil || len(rawURL) > maxCertificateURL || u.RawQuery != "" || u.ForceQuery || u.Scheme != "https" || u.User != nil || u.Port() != "" || u.Fragment != "" || !c.allowed(u) {
		return nil, ReasonWrongClaim
	}
	certs := c.pinned
	if certs == nil {
		if c.fetch == nil {
			return nil, ReasonKeyUnavailable
		}
		text, err := c.fetch.Fetch(ctx, u.String(), certificateMaxAge)
		if err != nil {
			return nil, ReasonKeyUnavailable
		}
		if certs, err = parseCertificates(text); err != nil || !c.trusted(certs, now) {
			return nil, ReasonKeyUnavailable
		}
	}
	key, ok := certs[0].PublicKey.(*rsa.PublicKey)
	if !ok || !fits(key, rsaKind) {
		return nil, ReasonWrongClaim
	}
	return key, ""
}

// trusted checks a fetched certificate: its dates, whom it is for, and its chain as far as it came along. A lone one is
// trusted by the TLS connection to the provider's own host, over which it came: AWS publishes its own without the one
// that issued it, so that no chain to a root can be built, and whoever can put a file on that host can sign there too.
func (c *certificates) trusted(certs []*x509.Certificate, now time.Time) bool {
	leaf := certs[0]
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) || leaf.IsCA {
		return false
	}
	if !slices.ContainsFunc(append([]string{leaf.Subject.CommonName}, leaf.DNSNames...), c.named) {
		return false
	}
	if len(certs) == 1 {
		return true
	}
	pool := x509.NewCertPool()
	for _, cert := range certs[1:] {
		pool.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Intermediates: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

func (c *certificates) named(name string) bool {
	name = strings.ToLower(strings.TrimPrefix(name, "*."))
	for _, n := range c.names {
		if name == strings.TrimPrefix(n, ".") || n[0] == '.' && strings.HasSuffix(name, n) {
			return true
		}
	}
	return false
}
