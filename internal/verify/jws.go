package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// detachedJWS is a JWS whose payload is not in it: header, nothing, signature. payload makes it from the request.
type detachedJWS struct {
	header     string
	algorithms []string
	kind       publicKind
	keysURL    string
	ts         string
	unit       *timeUnit
	headTime   string // the parameter of the JOSE header with the time in unit; ts is empty then
	payload    func(r *Request, ts string) []byte
}

type jwsChecker struct {
	detachedJWS
	field, ts field
	window    window
	public    *publicKeys
}

func rawPayload(r *Request, _ string) []byte { return r.Body }

func neonPayload(r *Request, ts string) []byte {
	return []byte(ts + "." + base64.RawURLEncoding.EncodeToString(r.Body))
}

func (d detachedJWS) compile(c *compilation) (checker, error) {
	public, err := newPublicKeys(c, d.kind, d.keysURL)
	if err != nil {
		return nil, err
	}
	return &jwsChecker{detachedJWS: d, field: mustField(d.header), ts: mustField(d.ts), window: c.window(window{}), public: public}, nil
}

func (d detachedJWS) describe(p *Provider) {
	p.SignatureIn, p.TimestampIn = d.header, cmp.Or(d.ts, d.headTime)
	if d.ts != "" || d.headTime != "" {
		w := window{}.or()
		p.Past, p.Future = w.past, w.future
	}
}

func (d *jwsChecker) check(ctx context.Context, r *Request, now time.Time) Verdict {
	value, reason := d.field.get(r)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	text := ""
	if d.ts.kind != noField {
		if text, reason = d.ts.get(r); reason != "" {
			return Verdict{Reason: reason}
		}
		if reason := d.checkTime(text, now); reason != "" {
			return Verdict{Reason: reason}
		}
	}
	parts := strings.SplitN(value, ".", 4)
	if len(parts) != 3 || parts[1] != "" {
		return Verdict{Reason: ReasonMalformed}
	}
	head, ok := decodeBase64(strictRawURL, nil, parts[0])
	sig, ok2 := decodeBase64(strictRawURL, nil, parts[2])
	doc, ok3 := jsonptr.Document(head)
	if !ok || !ok2 || !ok3 {
		return Verdict{Reason: ReasonMalformed}
	}
	headers := claims{doc}
	if d.headTime != "" {
		if reason := d.checkTime(headers.text(d.headTime), now); reason != "" {
			return Verdict{Reason: reason}
		}
	}
	alg := headers.text("alg")
	payload := d.payload(r, text)
	covered := parts[0] + "."
	switch {
	case !slices.Contains(d.algorithms, alg), !critIs(headers):
		return Verdict{Reason: ReasonUnsupported}
	case headers.text("b64") == "false":
		covered += string(payload)
	default:
		covered += base64.RawURLEncoding.EncodeToString(payload)
	}
	keys, reason := d.public.find(ctx, headers.text("kid"))
	if reason != "" {
		return Verdict{Reason: reason}
	}
	method := jwt.GetSigningMethod(alg)
	for _, k := range keys {
		if method.Verify(covered, sig, k.key) == nil {
			sum := sha256.Sum256([]byte(covered))
			return Verdict{OK: true, Signature: "jws=" + hex.EncodeToString(sum[:]), Secret: k.secret}
		}
	}
	return Verdict{Reason: ReasonNoMatch}
}

func (d *jwsChecker) checkTime(text string, now time.Time) Reason {
	t, ok := d.unit.parse(text)
	if !ok {
		return ReasonBadTimestamp
	}
	return d.window.check(t, now)
}

// timeOf returns the time that the request says.
func (d *jwsChecker) timeOf(r *Request) (time.Time, bool) {
	if d.unit == nil {
		return time.Time{}, false
	}
	text, _ := d.ts.lookup(r)
	if d.headTime != "" {
		value, _ := d.field.lookup(r)
		head, _, _ := strings.Cut(value, ".")
		plain, _ := decodeBase64(strictRawURL, nil, head)
		doc, ok := jsonptr.Document(plain)
		if !ok {
			return time.Time{}, false
		}
		text = claims{doc}.text(d.headTime)
	}
	return d.unit.parse(text)
}

// critIs reports whether the header demands nothing that is not understood. b64, if there, must be demanded.
func critIs(headers claims) bool {
	for _, name := range headers.list("crit") {
		if name != "" && name != "b64" {
			return false
		}
	}
	return headers.text("b64") != "false" || slices.Contains(headers.list("crit"), "b64")
}

func (d *jwsChecker) requires() []string {
	if d.ts.kind == headerField {
		return []string{d.field.name, d.ts.name}
	}
	return []string{d.field.name}
}
