package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"time"
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
