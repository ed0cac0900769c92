package verify

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // HMAC-SHA-1 is still unforgeable, and there are providers that have nothing else
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
)

// hmacBody is the family of schemes that sign the raw body and put the digest in one header.
type hmacBody struct {
	header    string // canonical
	algorithm algorithm
	encoding  encoding
	prefix    string
}

type algorithm struct {
	name string
	new  func() hash.Hash
	size int // of a digest, in bytes
}

type encoding struct {
	name       string
	encodedLen func(n int) int
	decode     func(dst, src []byte) (int, error)
}

var (
	sha256Algorithm = algorithm{"sha256", sha256.New, sha256.Size}
	algorithms      = []algorithm{
		sha256Algorithm,
		{"sha1", sha1.New, sha1.Size},
		{"sha512", sha512.New, sha512.Size},
	}

	hexEncoding = encoding{"hex", hex.EncodedLen, hex.Decode}
	// Strict refuses set bits after the last digit: without it one digest would have several spellings.
	strictBase64 = base64.StdEncoding.Strict()
	encodings    = []encoding{
		hexEncoding,
		{"base64", strictBase64.EncodedLen, strictBase64.Decode},
	}
)

// The largest digest is SHA-512's; its longest text is hex with the algorithm's name before it.
const (
	maxDigest = sha512.Size
	maxText   = len("sha512=") + 2*maxDigest
	// maxDecoded leaves room for what base64 may write before its padding turns out to be wrong.
	maxDecoded = maxDigest + 2
)

// state is what one verification works on. It is pooled: keying an HMAC costs two blocks of hashing and seven
// allocations, resetting a keyed one costs neither.
type state struct {
	macs  []hash.Hash // one for each secret
	given []byte      // the digest that the request claims, a part of decoded
	text  [maxText]byte
	// decoded and sum are here, not on the stack, because everything given to an interface's method escapes.
	decoded [maxDecoded]byte
	sum     [maxDigest]byte
}

func (s *hmacBody) newState(secrets [][]byte) *state {
	st := &state{macs: make([]hash.Hash, len(secrets))}
	for i, secret := range secrets {
		st.macs[i] = hmac.New(s.algorithm.new, secret)
	}
	return st
}

func (st *state) digestOf(secret int, body []byte) []byte {
	mac := st.macs[secret]
	mac.Reset()
	mac.Write(body)
	return mac.Sum(st.sum[:0])
}

// decode reads the header's value into st.given, which has a digest's length even when the value is malformed.
func (s *hmacBody) decode(value string, st *state) (wellFormed bool) {
	size := s.algorithm.size
	st.given = st.decoded[:size]
	text, ok := strings.CutPrefix(value, s.prefix)
	// The exact length also refuses line breaks within base64, which its decoder would skip.
	if !ok || len(text) != s.encoding.encodedLen(size) {
		return false
	}
	n, err := s.encoding.decode(st.decoded[:], st.text[:copy(st.text[:], text)])
	return err == nil && n == size
}

func (s *hmacBody) canonical(st *state) string {
	text := append(st.text[:0], s.algorithm.name...)
	text = append(text, '=')
	return string(hex.AppendEncode(text, st.given))
}
