package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// publicKey is one key that a provider may sign with.
type publicKey struct {
	secret int    // the index of the secret that holds it
	id     string // its kid in a key set, else empty
	key    crypto.PublicKey
}

// publicKeys are the configured keys, or those at a URL.
type publicKeys struct {
	kind  publicKind
	fixed []publicKey
	url   string
	fetch Fetcher
}

// The age from which a fetched key set is fetched again, and the least age for a key that it lacks.
const (
	keySetMaxAge = time.Hour
	keySetMinAge = time.Minute
)

func newPublicKeys(c *compilation, kind publicKind, url string) (*publicKeys, error) {
	if u := c.options["jwks_url"]; u != "" {
		url = u
	}
	p := &publicKeys{kind: kind, fetch: c.fetch}
	for i, s := range c.secrets {
		keys, err := readPublicKeys(s, kind)
		if err != nil {
			return nil, fmt.Errorf("secret %d %w", i+1, err)
		}
		for _, k := range keys {
			k.secret = i
			p.fixed = append(p.fixed, k)
		}
	}
	if len(p.fixed) == 0 {
		if url == "" {
			return nil, errors.New("it needs a public key as its secret, or jwks_url")
		}
		p.url = url
	}
	return p, nil
}

// find returns the keys that may have signed: those with the id where both say it.
func (p *publicKeys) find(ctx context.Context, kid string) ([]publicKey, Reason) {
	if p.url == "" {
		return withID(p.fixed, kid), ""
	}
	for _, age := range []time.Duration{keySetMaxAge, keySetMinAge} {
		keys, err := p.load(ctx, age)
		if err != nil {
			return nil, ReasonKeyUnavailable
		}
		// A key that is not there may be new.
		if found := withID(keys, kid); len(found) > 0 {
			return found, ""
		}
	}
	return nil, ReasonNoMatch
}

func (p *publicKeys) load(ctx context.Context, age time.Duration) ([]publicKey, error) {
	if p.fetch == nil {
		return nil, errors.New("fetching keys: nothing to fetch with")
	}
	doc, err := p.fetch.Fetch(ctx, p.url, age)
	if err != nil {
		return nil, err
	}
	return readPublicKeys(string(doc), p.kind)
}

func withID(keys []publicKey, kid string) []publicKey {
	if kid == "" {
		return keys
	}
	var found []publicKey
	for _, k := range keys {
		if k.id == kid || k.id == "" {
			found = append(found, k)
		}
	}
	return found
}

var errNoPublicKey = errors.New("is not a public key; give it as PEM, base64 of DER, JWK, or for Ed25519 its 32 bytes in hex or base64")

// readPublicKeys reads every form in which providers hand out keys, and takes those of the kind, or of any for notPublic.
func readPublicKeys(s string, kind publicKind) ([]publicKey, error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "{") {
		return readKeySet(s, kind)
	}
	key, err := readPublicKey(s, kind)
	if err != nil {
		return nil, err
	}
	if !fits(key, kind) {
		return nil, fmt.Errorf("is a public key of another kind than this provider's, which is %s", kind)
	}
	return []publicKey{{key: key}}, nil
}

func readPublicKey(s string, kind publicKind) (crypto.PublicKey, error) {
	if strings.HasPrefix(s, "-----BEGIN") {
		return parsePublicPEM(s)
	}
	s = strings.TrimPrefix(s, "whpk_")
	if kind == ed25519Kind {
		if b, err := hex.DecodeString(s); err == nil && len(b) == ed25519.PublicKeySize {
			return ed25519.PublicKey(b), nil
		}
	}
	b, err := readBase64Key(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' {
			return -1
		}
		return r
	}, s))
	if err != nil {
		return nil, errNoPublicKey
	}
	if kind == ed25519Kind && len(b) == ed25519.PublicKeySize {
		return ed25519.PublicKey(b), nil
	}
	key, err := x509.ParsePKIXPublicKey(b)
	if err != nil {
		return nil, errNoPublicKey
	}
	return key, nil
}

// parsePublicPEM also reads armour whose line breaks a provider or a shell variable has lost.
func parsePublicPEM(s string) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(restorePEM(s)))
	if block == nil {
		return nil, errNoPublicKey
	}
	switch block.Type {
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errNoPublicKey
		}
		return cert.PublicKey, nil
	case "RSA PUBLIC KEY":
		key, err := x509.ParsePKCS1PublicKey(block.Bytes)
		if err != nil {
			return nil, errNoPublicKey
		}
		return key, nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errNoPublicKey
	}
	return key, nil
}

func restorePEM(s string) string {
	s = strings.ReplaceAll(s, `\n`, "\n")
	if strings.Contains(strings.TrimSpace(s), "\n") {
		return s
	}
	head, rest, ok := strings.Cut(strings.TrimPrefix(s, "-----"), "-----")
	body, tail, ok2 := strings.Cut(rest, "-----")
	if !ok || !ok2 {
		return s
	}
	return "-----" + head + "-----\n" + strings.ReplaceAll(strings.TrimSpace(body), " ", "\n") + "\n-----" + tail
}

func readKeySet(s string, kind publicKind) ([]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal([]byte(s), &set); err != nil || len(set.Keys) == 0 {
		set.Keys = []json.RawMessage{json.RawMessage(s)}
	}
	var keys []publicKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		// One unknown kind of key among others is no reason to refuse them all.
		if err := json.Unmarshal(raw, &k); err != nil || retired(raw) {
			continue
		}
		// A private key is no use here, and a symmetric one must never be taken for a public one.
		if pub := k.Public(); pub.Key != nil && pub.Valid() && fits(pub.Key, kind) {
			keys = append(keys, publicKey{id: k.KeyID, key: pub.Key})
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no public key of this provider's kind")
	}
	return keys, nil
}

// retired reports whether the provider marks a key as no longer in use.
func retired(jwk []byte) bool {
	raw, ok := jsonptr.Pointer{"expired_at"}.Find(jwk)
	return ok && raw[0] != 'n'
}

// minRSA is the least RSA modulus in bits; shorter ones can be factored.
const minRSA = 2048

func fits(key crypto.PublicKey, kind publicKind) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return len(k) == ed25519.PublicKeySize && (kind == ed25519Kind || kind == notPublic)
	case *ecdsa.PublicKey:
		return kind == ecdsaKind || kind == notPublic
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSA && (kind == rsaKind || kind == rsaPSSKind || kind == notPublic)
	}
	return false
}

// verify reports whether the signature is the key's.
func (a *algorithm) verify(key crypto.PublicKey, message, sig []byte) bool {
	if a.kind == ed25519Kind {
		k, ok := key.(ed25519.PublicKey)
		return ok && len(k) == ed25519.PublicKeySize && len(sig) == ed25519.SignatureSize && ed25519.Verify(k, message, sig)
	}
	digest := a.digestOf(message)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return a.kind == ecdsaKind && ecdsa.VerifyASN1(k, digest, sig)
	case *rsa.PublicKey:
		switch a.kind {
		case rsaKind:
			return rsa.VerifyPKCS1v15(k, a.hash, digest, sig) == nil
		case rsaPSSKind:
			return rsa.VerifyPSS(k, a.hash, digest, sig, nil) == nil
		}
	}
	return false
}

func (a *algorithm) digestOf(message []byte) []byte {
	h := a.hash.New()
	h.Write(message)
	digest := h.Sum(nil)
	if a.twice {
		h.Reset()
		h.Write(digest)
		digest = h.Sum(nil)
	}
	return digest
}

// proveByPublicKey may stop at the first match: there is no secret that its time could tell about.
func (c *signedChecker) proveByPublicKey(ctx context.Context, st *state) Verdict {
	alg := c.spec.alg
	var sigs [][]byte
	for _, text := range st.in.sigs {
		if len(text) > maxEncoded {
			continue
		}
		if sig, ok := c.spec.enc.decode(nil, text); ok && len(sig) > 0 {
			sigs = append(sigs, sig)
		}
	}
	if len(sigs) == 0 {
		return Verdict{Reason: ReasonMalformed}
	}
	keys, reason := c.public.find(ctx, st.in.kid)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	verdict := Verdict{Reason: ReasonMissing}
	c.variants(&st.in, func(n int, t template) bool {
		st.msg.b = st.msg.b[:0]
		if !t.write(&st.in, "", &st.msg) {
			return true
		}
		verdict.Reason = ReasonNoMatch
		for _, k := range keys {
			for _, sig := range sigs {
				if alg.verify(k.key, st.msg.b, sig) {
					verdict = Verdict{OK: true, Signature: covered(alg.name, st.msg.b), Secret: k.secret, variant: n}
					return false
				}
			}
		}
		return true
	})
	return verdict
}

// covered stands for a public-key signature in dedupe keys: it is the hash of what is signed. Signatures themselves will
// not do, as anyone can turn one ECDSA signature into another that is valid for the same message.
func covered(name string, message []byte) string {
	sum := sha256.Sum256(message)
	return name + "=" + hex.EncodeToString(sum[:])
}
