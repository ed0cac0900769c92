package verify

import (
	"crypto"
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // HMAC-MD5 and keyed MD5 are all that a few providers have; their rows say so
	"crypto/sha1" //nolint:gosec // HMAC-SHA-1 is still unforgeable, and there are providers that have nothing else
	"crypto/sha256"
	"crypto/sha512"
	"hash"
)

// algorithm is how a message and a key become a signature.
type algorithm struct {
	name string
	// new makes the hash of a MAC or plain digest; nil for public-key algorithms.
	new  func() hash.Hash
	size int // of a digest, in bytes
	// plain digests have the secret in the message instead of a key.
	plain bool
	// public-key algorithms
	kind  publicKind
	hash  crypto.Hash
	twice bool // the message is hashed, and the hash signed as if it were the message
}

type publicKind int

const (
	notPublic publicKind = iota
	ed25519Kind
	ecdsaKind
	rsaKind
	rsaPSSKind
)

func (k publicKind) String() string {
	return [...]string{"none", "Ed25519", "ECDSA", "RSA", "RSA"}[k]
}

// maxDigest is the size of the largest digest, SHA-512's.
const maxDigest = sha512.Size

var (
	hmacSHA256 = &algorithm{name: "sha256", new: sha256.New, size: sha256.Size}
	hmacSHA1   = &algorithm{name: "sha1", new: sha1.New, size: sha1.Size}
	hmacSHA512 = &algorithm{name: "sha512", new: sha512.New, size: sha512.Size}
	hmacSHA384 = &algorithm{name: "sha384", new: sha512.New384, size: sha512.Size384}
	hmacMD5    = &algorithm{name: "md5", new: md5.New, size: md5.Size}

	plainSHA256 = &algorithm{name: "plain-sha256", new: sha256.New, size: sha256.Size, plain: true}
	plainSHA1   = &algorithm{name: "plain-sha1", new: sha1.New, size: sha1.Size, plain: true}
	plainSHA384 = &algorithm{name: "plain-sha384", new: sha512.New384, size: sha512.Size384, plain: true}
	plainSHA512 = &algorithm{name: "plain-sha512", new: sha512.New, size: sha512.Size, plain: true}
	plainMD5    = &algorithm{name: "plain-md5", new: md5.New, size: md5.Size, plain: true}

	ed25519Alg     = &algorithm{name: "ed25519", kind: ed25519Kind}
	ecdsaSHA256    = &algorithm{name: "ecdsa-sha256", kind: ecdsaKind, hash: crypto.SHA256}
	ecdsaSHA1      = &algorithm{name: "ecdsa-sha1", kind: ecdsaKind, hash: crypto.SHA1}
	rsaSHA1        = &algorithm{name: "rsa-sha1", kind: rsaKind, hash: crypto.SHA1}
	rsaSHA256      = &algorithm{name: "rsa-sha256", kind: rsaKind, hash: crypto.SHA256}
	rsaSHA256Twice = &algorithm{name: "rsa-sha256", kind: rsaKind, hash: crypto.SHA256, twice: true}
	rsaSHA512      = &algorithm{name: "rsa-sha512", kind: rsaKind, hash: crypto.SHA512}
	rsaPSSSHA512   = &algorithm{name: "rsa-pss-sha512", kind: rsaPSSKind, hash: crypto.SHA512}
	hmacAlgorithms = []*algorithm{hmacSHA256, hmacSHA1, hmacSHA384, hmacSHA512}
	hmacNames      = namesOf(hmacAlgorithms, func(a *algorithm) string { return a.name })
)

// keyed returns the hash of a message under a key.
func (a *algorithm) keyed(key []byte) hash.Hash {
	if a.plain {
		return a.new()
	}
	return hmac.New(a.new, key)
}

func hmacByName(name string) *algorithm {
	for _, a := range hmacAlgorithms {
		if a.name == name {
			return a
		}
	}
	return nil
}

func namesOf[T any](from []T, name func(T) string) []string {
	names := make([]string, 0, len(from))
	for _, t := range from {
		names = append(names, name(t))
	}
	return names
}
