package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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
