package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// jwtScheme proves a request by a JWT in a header. What it covers of the request it says in its claims.
type jwtScheme struct {
	// header holds the JWT, after "Bearer " if bearer; "" means that the body is the JWT.
	header string
	bearer bool
	// algorithms are accepted, whatever the token says. Those of HMAC need a secret, the others a public key: neither is ever
	// used for the other, or a public key could be taken for a secret.
	algorithms []string
	keysURL    string
	// split is for secrets of several keys joined by commas.
	split bool

	issuer   []string // the iss claim must be one of these
	hash     string   // the claim with the body's SHA-256
	hashEnc  *encoding
	optional bool // it may be missing when the body is empty, and must be then
	absentOK bool // it may be missing with any body
	urlHash  string
	subject  bool // the sub claim is the URL
	maxAge   bool // the iat claim is the signed time
	expires  bool // the exp claim must be there
	leeway   time.Duration
	early    time.Duration // how long before its nbf a token is accepted, because clocks differ; a minute unless leeway is set
	chosen   bool          // options name algorithms, issuer, audience and the body's claim
	fixed    []fixedHeader
	// extra are further claims that must be there.
	extra []string
}

var (
	hmacJWT   = []string{"HS256", "HS384", "HS512"}
	publicJWT = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}
)

func checkJWTAlgorithms(value string) error {
	all := slices.Concat(hmacJWT, publicJWT)
	for name := range strings.FieldsSeq(value) {
		if !slices.Contains(all, name) {
			return errors.New(name + " is unknown; choose from " + strings.Join(all, ", "))
		}
	}
	if len(strings.Fields(value)) == 0 {
		return errors.New("it names none")
	}
	return nil
}

type jwtChecker struct {
	jwtScheme
	parser    *jwt.Parser
	audience  []string
	account   []string
	fixedAt   []field
	window    window
	secrets   int
	hmacKeyAt func(i int) (key []byte, secret int)
	hmacKeys  int
	public    *publicKeys
	anyTime   bool
}

func (s jwtScheme) compile(c *compilation) (checker, error) {
	if s.chosen {
		s.header = cmp.Or(c.options["header"], s.header)
		s.bearer = strings.EqualFold(s.header, "Authorization")
		if a := c.options["algorithms"]; a != "" {
			s.algorithms = strings.Fields(a)
		}
		s.issuer = strings.Fields(c.options["issuer"])
		s.hash = c.options["body_claim"]
	}
	if s.leeway == 0 {
		s.early = time.Minute
	}
	out := &jwtChecker{
		jwtScheme: s, audience: strings.Fields(c.options["audience"]), account: strings.Fields(c.options["service_account"]),
		window: c.window(window{}), secrets: len(c.secrets), anyTime: c.anyTime,
		parser: jwt.NewParser(jwt.WithValidMethods(s.algorithms), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding()),
	}
	for i := range s.fixed {
		out.fixedAt = append(out.fixedAt, mustField(s.fixed[i].name))
	}
	return out, out.setKeys(c)
}

// setKeys sorts the secrets into those that are public keys and those that are secret.
func (j *jwtChecker) setKeys(c *compilation) error {
	type key struct {
		bytes  []byte
		secret int
	}
	var keys []key
	var public []publicKey
	takesPublic := slices.ContainsFunc(j.algorithms, func(a string) bool { return slices.Contains(publicJWT, a) })
	takesHMAC := slices.ContainsFunc(j.algorithms, func(a string) bool { return slices.Contains(hmacJWT, a) })
	for i, s := range c.secrets {
		if found, err := readPublicKeys(s, notPublic); takesPublic && (err == nil || !takesHMAC) {
			if err != nil {
				return secretError(i, err.Error())
			}
			for _, k := range found {
				k.secret = i
				public = append(public, k)
			}
			continue
		}
		// The text of a public key, however broken, is known to others and must not become a secret.
		if looksPublic(s) {
			return secretError(i, "looks like a public key or certificate, but is none that this provider's tokens can be checked with")
		}
		parts := []string{s}
		if j.split {
			parts = strings.Split(s, ",")
		}
		for _, p := range parts {
			if p == "" {
				return secretError(i, "has an empty part; write the keys with one comma between them")
			}
			keys = append(keys, key{[]byte(p), i})
		}
	}
	j.hmacKeys = len(keys)
	j.hmacKeyAt = func(i int) ([]byte, int) { return keys[i].bytes, keys[i].secret }
	url := cmp.Or(c.options["jwks_url"], j.keysURL)
	switch {
	case len(public) > 0:
		j.public = &publicKeys{fixed: public}
	case takesPublic && url != "":
		j.public = &publicKeys{url: url, fetch: c.fetch}
	case len(keys) == 0:
		return errors.New("it needs a key as its secret, or jwks_url")
	}
	return nil
}

func looksPublic(secret string) bool {
	secret = strings.TrimSpace(secret)
	if strings.HasPrefix(secret, "-----BEGIN") || strings.HasPrefix(secret, "{") && json.Valid([]byte(secret)) {
		return true
	}
	der, err := readBase64Key(strings.Join(strings.Fields(secret), ""))
	if err != nil {
		return false
	}
	if _, err := x509.ParsePKIXPublicKey(der); err == nil {
		return true
	}
	_, err = x509.ParseCertificate(der)
	return err == nil
}

func (s jwtScheme) describe(p *Provider) {
	p.SignatureIn = cmp.Or(s.header, "body")
	if s.maxAge || s.expires {
		w := window{}.or()
		p.TimestampIn, p.Past, p.Future = "claim:/iat | claim:/exp", w.past, w.future
	}
}

// text returns the JWT.
func (j *jwtChecker) text(r *Request) (string, Reason) {
	if j.header == "" {
		if len(r.Body) == 0 {
			return "", ReasonMissing
		}
		return string(r.Body), ""
	}
	f := field{kind: headerField, name: http.CanonicalHeaderKey(j.header)}
	value, reason := f.get(r)
	if reason != "" || !j.bearer {
		return value, reason
	}
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", ReasonMalformed
	}
	return strings.TrimLeft(rest, " "), ""
}

// maxJWT bounds the text that is parsed where it stands in a header.
const maxJWT = 16 << 10

func (j *jwtChecker) check(ctx context.Context, r *Request, now time.Time) Verdict {
	for i := range j.fixedAt {
		if value, reason := j.fixedAt[i].get(r); reason != ReasonMissing || j.fixed[i].required {
			if reason != "" {
				return Verdict{Reason: reason}
			}
			if value != j.fixed[i].value {
				return Verdict{Reason: ReasonUnsupported}
			}
		}
	}
	text, reason := j.text(r)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	// The decoder skips line breaks, which would give one token many spellings.
	if j.header != "" && len(text) > maxJWT || strings.ContainsAny(text, "\r\n") {
		return Verdict{Reason: ReasonMalformed}
	}
	parsed, parts, err := j.parser.ParseUnverified(text, &jwt.MapClaims{})
	if err != nil || len(parts) != 3 || len(parsed.Header) == 0 {
		return Verdict{Reason: ReasonMalformed}
	}
	alg := parsed.Method.Alg()
	if !slices.Contains(j.algorithms, alg) || parsed.Header["crit"] != nil {
		return Verdict{Reason: ReasonUnsupported}
	}
	sig, err := j.parser.DecodeSegment(parts[2])
	if err != nil {
		return Verdict{Reason: ReasonMalformed}
	}
	payload, err := j.parser.DecodeSegment(parts[1])
	if err != nil {
		return Verdict{Reason: ReasonMalformed}
	}
	covered := text[:len(parts[0])+1+len(parts[1])]
	kid, _ := parsed.Header["kid"].(string)
	secret, reason := j.prove(ctx, parsed.Method, covered, sig, kid)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	if reason := j.checkClaims(payload, r, now); reason != "" {
		return Verdict{Reason: reason}
	}
	sum := sha256.Sum256([]byte(covered))
	return Verdict{OK: true, Signature: "jwt=" + hex.EncodeToString(sum[:]), Secret: secret}
}

func (j *jwtChecker) prove(ctx context.Context, method jwt.SigningMethod, covered string, sig []byte, kid string) (int, Reason) {
	if slices.Contains(hmacJWT, method.Alg()) {
		match := -1
		// All keys are tried, so that the time does not tell which one came close.
		for i := j.hmacKeys - 1; i >= 0; i-- {
			if key, secret := j.hmacKeyAt(i); method.Verify(covered, sig, key) == nil {
				match = secret
			}
		}
		if match < 0 {
			return 0, ReasonNoMatch
		}
		return match, ""
	}
	if j.public == nil {
		return 0, ReasonUnsupported
	}
	keys, reason := j.public.find(ctx, kid)
	if reason != "" {
		return 0, reason
	}
	for _, k := range keys {
		if method.Verify(covered, sig, k.key) == nil {
			return k.secret, ""
		}
	}
	return 0, ReasonNoMatch
}

func (j *jwtChecker) requires() []string {
	if j.header == "" {
		return nil
	}
	return []string{http.CanonicalHeaderKey(j.header)}
}

// carried implements carrying: a bearer token could be used again, so it is not kept.
func (j *jwtChecker) carried() Carried {
	if j.bearer {
		return Carried{Headers: []string{http.CanonicalHeaderKey(j.header)}}
	}
	return Carried{}
}

func (j *jwtChecker) claims(r *Request) []byte {
	text, reason := j.text(r)
	if reason != "" {
		return nil
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	return payload
}

func (j *jwtChecker) signedHash(r *Request, _ Verdict, _ time.Time) ([sha256.Size]byte, bool) {
	text, reason := j.text(r)
	if i := strings.LastIndexByte(text, '.'); reason == "" && i > 0 {
		return sha256.Sum256([]byte(text[:i])), true
	}
	return [sha256.Size]byte{}, false
}
