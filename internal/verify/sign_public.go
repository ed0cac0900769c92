package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

var errNoPrivateKey = errors.New("it needs a private key: PEM, JWK, or for Ed25519 its 32-byte seed in hex or base64")

// key reads the private key.
func (w *signWith) key() (crypto.Signer, error) {
	s := strings.TrimSpace(w.private)
	if strings.HasPrefix(s, "{") {
		var k jose.JSONWebKey
		if err := json.Unmarshal([]byte(s), &k); err == nil {
			if signer, ok := k.Key.(crypto.Signer); ok {
				return signer, nil
			}
		}
		return nil, errNoPrivateKey
	}
	if strings.HasPrefix(s, "-----BEGIN") {
		block, _ := pem.Decode([]byte(restorePEM(s)))
		if block == nil {
			return nil, errNoPrivateKey
		}
		if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if signer, ok := k.(crypto.Signer); ok {
				return signer, nil
			}
		}
		if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return k, nil
		}
		if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return k, nil
		}
		return nil, errNoPrivateKey
	}
	seed, err := hex.DecodeString(s)
	if err != nil {
		seed, err = readBase64Key(strings.TrimPrefix(s, "whsk_"))
	}
	// Standard Webhooks' form has the public key behind the seed.
	if err != nil || len(seed) != ed25519.SeedSize && len(seed) != ed25519.PrivateKeySize {
		return nil, errNoPrivateKey
	}
	return ed25519.NewKeyFromSeed(seed[:ed25519.SeedSize]), nil
}

// public returns the public key in the form in which it is configured.
func (w *signWith) public() (string, error) {
	k, err := w.key()
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(strings.TrimSpace(w.private), "whsk_") {
		if pub, ok := k.Public().(ed25519.PublicKey); ok {
			return "whpk_" + base64.StdEncoding.EncodeToString(pub), nil
		}
	}
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		return "", errNoPrivateKey
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

// signPublic signs a message.
func (w *signWith) signPublic(alg *algorithm, message []byte) ([]byte, error) {
	k, err := w.key()
	if err != nil {
		return nil, err
	}
	if !fits(k.Public(), alg.kind) {
		return nil, errors.New("the private key is of another kind than the provider's")
	}
	switch key := k.(type) {
	case ed25519.PrivateKey:
		return ed25519.Sign(key, message), nil
	case *ecdsa.PrivateKey:
		return ecdsa.SignASN1(rand.Reader, key, alg.digestOf(message))
	case *rsa.PrivateKey:
		if alg.kind == rsaPSSKind {
			return rsa.SignPSS(rand.Reader, key, alg.hash, alg.digestOf(message), nil)
		}
		return rsa.SignPKCS1v15(rand.Reader, key, alg.hash, alg.digestOf(message))
	}
	return nil, errNoPrivateKey
}

// method returns an algorithm of the scheme for which there is a key, and the key.
func (w *signWith) method(algorithms []string) (jwt.SigningMethod, any, error) {
	if w.private == "" {
		for _, name := range algorithms {
			if slices.Contains(hmacJWT, name) {
				return jwt.GetSigningMethod(name), []byte(w.secret), nil
			}
		}
		return nil, nil, errNoPrivateKey
	}
	k, err := w.key()
	if err != nil {
		return nil, nil, err
	}
	prefix := "none"
	switch key := k.(type) {
	case ed25519.PrivateKey:
		prefix = "EdDSA"
	case *ecdsa.PrivateKey:
		prefix = map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Curve.Params().BitSize]
	case *rsa.PrivateKey:
		prefix = "RS"
	}
	for _, name := range algorithms {
		if strings.HasPrefix(name, prefix) {
			return jwt.GetSigningMethod(name), k, nil
		}
	}
	return nil, nil, errors.New("the private key is of another kind than the provider's")
}

// sign implements signing.
func (j *jwtChecker) sign(r *Request, w *signWith) error {
	method, key, err := w.method(j.algorithms)
	if err != nil {
		return err
	}
	if b, ok := key.([]byte); ok && j.split {
		first, _, _ := strings.Cut(string(b), ",")
		key = []byte(first)
	}
	text, err := jwt.NewWithClaims(method, j.claimsFor(r, w)).SignedString(key)
	if err != nil {
		return errors.New("the token cannot be signed with this key")
	}
	for i := range j.fixed {
		r.Header.Set(j.fixed[i].name, j.fixed[i].value)
	}
	switch {
	case j.header == "":
		r.Body = []byte(text)
	case j.bearer:
		r.Header.Set(j.header, "Bearer "+text)
	default:
		r.Header.Set(j.header, text)
	}
	return nil
}

func (j *jwtChecker) claimsFor(r *Request, w *signWith) jwt.MapClaims {
	c := jwt.MapClaims{"iat": w.now.Unix(), "nbf": w.now.Unix(), "jti": randomHex(12)}
	if j.header == "" {
		c["data"] = string(r.Body)
	}
	if j.expires {
		c["exp"] = w.now.Unix() + 60
	}
	if len(j.issuer) > 0 {
		c["iss"] = j.issuer[0]
	}
	if len(j.audience) > 0 {
		c["aud"] = j.audience[0]
	}
	if len(j.account) > 0 {
		c["email"], c["email_verified"] = j.account[0], true
	}
	if j.subject {
		c["sub"] = r.URL
	}
	if sum := sha256.Sum256([]byte(r.URL)); j.urlHash != "" {
		c[j.urlHash] = hex.EncodeToString(sum[:])
	}
	if sum := sha256.Sum256(r.Body); j.hash != "" && (!j.optional || len(r.Body) > 0) {
		enc := j.hashEnc
		if enc == nil {
			enc = hexEncoding
		}
		c[j.hash] = enc.encode(sum[:])
	}
	return c
}

func (l *lagoChecker) sign(r *Request, w *signWith) error {
	method, key, err := w.method(l.algorithms)
	if err != nil {
		return err
	}
	if !utf8.Valid(r.Body) {
		return errors.New("the signature holds the body as JSON, so it has to be UTF-8")
	}
	text, err := jwt.NewWithClaims(method, jwt.MapClaims{"data": string(r.Body), "iss": "lago"}).SignedString(key)
	if err != nil {
		return errors.New("the token cannot be signed with this key")
	}
	r.Header.Set(l.header, text)
	r.Header.Set("X-Lago-Signature-Algorithm", "jwt")
	return nil
}

func (d *jwsChecker) sign(r *Request, w *signWith) error {
	method, key, err := w.method(d.algorithms)
	if err != nil {
		return err
	}
	ts := ""
	if d.ts.kind != noField {
		ts = d.unit.write(w.now)
		r.Header.Set(d.ts.name, ts)
	}
	headers := `{"alg":"` + method.Alg() + `"`
	if d.headTime != "" {
		headers += `,"` + d.headTime + `":` + d.unit.write(w.now)
	}
	head := base64.RawURLEncoding.EncodeToString([]byte(headers + `}`))
	sig, err := method.Sign(head+"."+base64.RawURLEncoding.EncodeToString(d.payload(r, ts)), key)
	if err != nil {
		return errors.New("the signature cannot be made with this key")
	}
	r.Header.Set(d.field.name, head+".."+base64.RawURLEncoding.EncodeToString(sig))
	return nil
}
