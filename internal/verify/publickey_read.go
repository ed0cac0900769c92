package verify

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

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
