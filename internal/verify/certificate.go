package verify

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"hash/crc32"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
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

// snsScheme signs fields of the JSON body.
type snsScheme struct{}

type snsChecker struct {
	topics func() []string
	certs  *certificates
}

var snsHost = regexp.MustCompile(`^sns\.[a-zA-Z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)

func (snsScheme) compile(c *compilation) (checker, error) {
	for i, topic := range c.secrets {
		if !strings.HasPrefix(topic, "arn:") {
			return nil, secretError(i, "is not the ARN of a topic, as in arn:aws:sns:us-east-1:123456789012:name")
		}
	}
	certs, err := newCertificates(c, func(u *url.URL) bool {
		return snsHost.MatchString(u.Host) && strings.HasSuffix(u.Path, ".pem")
	}, ".amazonaws.com", ".amazonaws.com.cn")
	return &snsChecker{topics: func() []string { return c.secrets }, certs: certs}, err
}

func (snsScheme) describe(p *Provider) { p.SignatureIn = "/Signature" }

// The fields that are signed, by the message's type.
var (
	snsNotification = []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	snsSubscription = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
)

func (s *snsChecker) check(ctx context.Context, r *Request, now time.Time) Verdict {
	doc, ok := jsonptr.Document(r.Body)
	if !ok || doc[0] != '{' && textAt(jsonptr.Pointer{"Signature"}, doc) == "" {
		return Verdict{Reason: ReasonMissing}
	}
	m := claims{doc}
	topic := slices.Index(s.topics(), m.text("TopicArn"))
	message, reason := snsMessage(m)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	var alg *algorithm
	switch m.text("SignatureVersion") {
	case "1":
		alg = rsaSHA1
	case "2":
		alg = rsaSHA256
	default:
		return Verdict{Reason: ReasonUnsupported}
	}
	given := m.text("Signature")
	if given == "" {
		return Verdict{Reason: ReasonMissing}
	}
	// What cannot be a signature is not worth fetching a certificate for.
	sig, ok := base64Encoding.decode(nil, given)
	if !ok || len(sig) < minRSA/8 {
		return Verdict{Reason: ReasonMalformed}
	}
	if topic < 0 {
		return Verdict{Reason: ReasonWrongClaim}
	}
	at := m.text("SigningCertURL")
	if at == "" {
		at = m.text("SigningCertUrl") // as Lambda spells it
	}
	key, reason := s.certs.keyAt(ctx, at, now)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	if !alg.verify(key, message, sig) {
		return Verdict{Reason: ReasonNoMatch}
	}
	return Verdict{OK: true, Signature: covered(alg.name, message), Secret: topic}
}

func snsMessage(m claims) ([]byte, Reason) {
	names := snsNotification
	switch m.text("Type") {
	case "Notification":
	case "SubscriptionConfirmation", "UnsubscribeConfirmation":
		names = snsSubscription
	case "":
		return nil, ReasonMissing
	default:
		return nil, ReasonUnsupported
	}
	var message []byte
	for _, name := range names {
		raw, ok := jsonptr.Pointer{name}.Find(m.doc)
		if !ok || raw[0] == 'n' {
			if name == "Subject" {
				continue
			}
			return nil, ReasonMissing
		}
		text, ok := jsonptr.Decoded(raw)
		if !ok {
			return nil, ReasonMalformed
		}
		message = append(append(append(append(message, name...), '\n'), text...), '\n')
	}
	return message, ""
}

// paypalScheme signs ids, a time and a checksum of the body.
type paypalScheme struct{}

type paypalChecker struct {
	ids    func() []string
	certs  *certificates
	window window
}

var paypalHeaders = []string{"Paypal-Transmission-Id", "Paypal-Transmission-Time", "Paypal-Transmission-Sig", "Paypal-Cert-Url", "Paypal-Auth-Algo"}

func (paypalScheme) compile(c *compilation) (checker, error) {
	certs, err := newCertificates(c, func(u *url.URL) bool {
		return u.Host == "paypal.com" || strings.HasSuffix(u.Host, ".paypal.com")
	}, ".paypal.com")
	// A retry after days may carry the time of the first attempt.
	return &paypalChecker{ids: func() []string { return c.secrets }, certs: certs, window: c.window(paypalWindow)}, err
}

var paypalWindow = window{past: 72 * time.Hour}

func (paypalScheme) describe(p *Provider) {
	p.SignatureIn, p.TimestampIn = "PAYPAL-TRANSMISSION-SIG", "PAYPAL-TRANSMISSION-TIME"
	p.Past, p.Future = paypalWindow.past, paypalWindow.or().future
}

func (p *paypalChecker) requires() []string { return paypalHeaders }

func paypalMessage(r *Request, webhook string) string {
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(r.Body)), 10)
	return r.Header.Get(paypalHeaders[0]) + "|" + r.Header.Get(paypalHeaders[1]) + "|" + webhook + "|" + sum
}

// signedHash is of what is signed alone: another body with the same checksum has the same one.
func (p *paypalChecker) signedHash(r *Request, v Verdict, _ time.Time) ([sha256.Size]byte, bool) {
	ids := p.ids()
	if v.Secret >= len(ids) {
		return [sha256.Size]byte{}, false
	}
	return sha256.Sum256([]byte(paypalMessage(r, ids[v.Secret]))), true
}

func (p *paypalChecker) check(ctx context.Context, r *Request, now time.Time) Verdict {
	values := make([]string, len(paypalHeaders))
	for i, name := range paypalHeaders {
		var reason Reason
		if values[i], reason = one(r.Header[name]); reason != "" {
			return Verdict{Reason: reason}
		}
	}
	sent, certURL, algo := values[1], values[3], values[4]
	t, ok := rfc3339.parse(sent)
	if !ok {
		return Verdict{Reason: ReasonBadTimestamp}
	}
	if reason := p.window.check(t, now); reason != "" {
		return Verdict{Reason: reason}
	}
	if algo != "SHA256withRSA" {
		return Verdict{Reason: ReasonUnsupported}
	}
	sig, ok := base64Encoding.decode(nil, values[2])
	if !ok || len(sig) < minRSA/8 {
		return Verdict{Reason: ReasonMalformed}
	}
	key, reason := p.certs.keyAt(ctx, certURL, now)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	for i, webhook := range p.ids() {
		message := paypalMessage(r, webhook)
		if rsaSHA256.verify(key, []byte(message), sig) {
			// The body is only held by a checksum, so the hash of all of it stands beside what is signed.
			all := sha256.Sum256(append([]byte(message), r.Body...))
			return Verdict{OK: true, Signature: "paypal=" + hex.EncodeToString(all[:]), Secret: i}
		}
	}
	return Verdict{Reason: ReasonNoMatch}
}
