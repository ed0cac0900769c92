package verify_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// FuzzVerify holds the verifier against a plain reading of its documentation: a value is accepted exactly if it is the
// prefix followed by the one spelling (either case for hex) of the body's digest.
func FuzzVerify(f *testing.F) {
	for scheme := range byte(6) {
		f.Add(scheme, "", body)
		f.Add(scheme, "sha256="+sigHex, body)
		f.Add(scheme, strings.ToUpper(sigHex), body)
		f.Add(scheme, "sha256= "+sigHex, "")
		f.Add(scheme, "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=", "what do ya want for nothing?")
		f.Add(scheme, strings.Repeat("é", 5_000), "\x00\xff")
	}
	algorithms := []struct {
		name string
		new  func() hash.Hash
	}{{"sha256", sha256.New}, {"sha1", sha1.New}, {"sha512", sha512.New}}

	f.Fuzz(func(t *testing.T, scheme byte, value, body string) {
		a := algorithms[scheme%3]
		o := verify.Options{Algorithm: a.name, Encoding: "hex"}
		prefix := a.name + "="
		mac := hmac.New(a.new, []byte(secret))
		mac.Write([]byte(body))
		digest := mac.Sum(nil)
		text := hex.EncodeToString(digest)
		same := strings.EqualFold
		if scheme%2 == 1 {
			o.Encoding, prefix = "base64", ""
			text = base64.StdEncoding.EncodeToString(digest)
			same = func(a, b string) bool { return a == b }
		}

		v := newVerifier(t, "hmac", o, secret)
		genuine := prefix + text
		// The engine cannot guess a digest, so what it makes is also tried as an edit of the genuine value.
		for _, try := range []string{value, genuine, genuine + value, value + genuine, prefix + value + text, cut(genuine, value)} {
			got := check(v, "X-Signature", try, body)
			want := strings.HasPrefix(try, prefix) && same(try[len(prefix):], text)
			if got.OK != want {
				t.Fatalf("%q: got %+v, want OK %v", try, got, want)
			}
			if got.OK && got.Signature != a.name+"="+hex.EncodeToString(digest) {
				t.Fatalf("%q: canonical is %q", try, got.Signature)
			}
		}
	})
}

// cut overwrites the end of s with t.
func cut(s, t string) string {
	if len(t) > len(s) {
		return t
	}
	return s[:len(s)-len(t)] + t
}
