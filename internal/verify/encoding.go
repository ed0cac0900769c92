package verify

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
)

// encoding is the text form of a signature.
type encoding struct {
	name string
	// decode appends the bytes to dst. It accepts one spelling of them only, except for the case of hex digits and, where a
	// provider is known to vary it, padding: the spelling must not become a second signature.
	decode func(dst []byte, text string) ([]byte, bool)
	encode func(b []byte) string
}

var (
	strictBase64 = base64.StdEncoding.Strict()
	strictRawURL = base64.RawURLEncoding.Strict()

	hexEncoding    = &encoding{"hex", decodeHex, hex.EncodeToString}
	upperHex       = &encoding{"hex", decodeHex, func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }}
	base64Encoding = &encoding{"base64", func(dst []byte, text string) ([]byte, bool) {
		return decodeBase64(strictBase64, dst, text)
	}, base64.StdEncoding.EncodeToString}
	base64URL = &encoding{"base64url", func(dst []byte, text string) ([]byte, bool) {
		return decodeBase64(strictRawURL, dst, strings.TrimRight(text, "="))
	}, base64.RawURLEncoding.EncodeToString}
	// base64OfHex is the base64 form of the hex text, a quirk of a provider's own libraries.
	base64OfHex = &encoding{"base64 of hex", func(dst []byte, text string) ([]byte, bool) {
		inner, ok := decodeBase64(strictBase64, nil, text)
		if !ok {
			return nil, false
		}
		return decodeHex(dst, string(inner))
	}, func(b []byte) string { return base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(b))) }}
	// base64Loose is percent-encoded or not, of either alphabet, padded or not.
	base64Loose = &encoding{"base64url", func(dst []byte, text string) ([]byte, bool) {
		if strings.Contains(text, "%") {
			plain, err := url.PathUnescape(text)
			if err != nil {
				return nil, false
			}
			text = plain
		}
		text = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
		return decodeBase64(strictRawURL, dst, text)
	}, func(b []byte) string { return url.QueryEscape(base64.URLEncoding.EncodeToString(b)) }}

	encodings     = []*encoding{hexEncoding, base64Encoding, base64URL}
	encodingNames = namesOf(encodings, func(e *encoding) string { return e.name })
)

func encodingByName(name string) *encoding {
	for _, e := range encodings {
		if e.name == name {
			return e
		}
	}
	return nil
}

func decodeHex(dst []byte, text string) ([]byte, bool) {
	if len(text)%2 != 0 {
		return nil, false
	}
	for i := 0; i < len(text); i += 2 {
		hi, lo := hexDigit(text[i]), hexDigit(text[i+1])
		if hi > 15 || lo > 15 {
			return nil, false
		}
		dst = append(dst, hi<<4|lo)
	}
	return dst, true
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// maxEncoded bounds the text of a signature; that of an RSA key of 8192 bits in hex is the longest there is.
const maxEncoded = 2048

func decodeBase64(e *base64.Encoding, dst []byte, text string) ([]byte, bool) {
	// The decoder skips line breaks, which would give one signature many spellings.
	if len(text) > maxEncoded || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	var buf [maxEncoded]byte
	dst, err := e.AppendDecode(dst, buf[:copy(buf[:], text)])
	return dst, err == nil
}
