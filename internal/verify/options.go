package verify

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Options are the words of a generic scheme. A zero field keeps the provider's own value. Providers that are not generic
// take none, because nothing about their scheme is the user's choice.
type Options struct {
	// SignatureHeader is the header that holds the signature, in any case; X-Signature by default.
	SignatureHeader string
	// Prefix stands before the encoded digest, matched exactly. By default it is "<algorithm>=" for hex and nothing for
	// base64. PrefixSet with an empty Prefix means no prefix.
	Prefix    string
	PrefixSet bool
	// Algorithm of the HMAC: sha256 (the default), sha1 or sha512.
	Algorithm string
	// Encoding of the digest: hex (the default; either case is accepted) or base64 (standard alphabet, padded).
	Encoding string
}

// given names the first option that is set, empty when none is.
func (o *Options) given() string {
	switch {
	case o.SignatureHeader != "":
		return "signature_header"
	case o.Prefix != "" || o.PrefixSet:
		return "prefix"
	case o.Algorithm != "":
		return "algorithm"
	case o.Encoding != "":
		return "encoding"
	}
	return ""
}

// with returns the row as the options change it.
func (r row) with(o Options) (row, error) {
	word := o.given()
	if word == "" {
		return r, nil
	}
	if !r.generic {
		return r, fmt.Errorf("it takes no %s, its scheme is fixed; use hmac for a scheme of your own", word)
	}
	s := &r.scheme
	if o.SignatureHeader != "" {
		if !httpguts.ValidHeaderFieldName(o.SignatureHeader) {
			return r, fmt.Errorf("signature_header %q is not a header name", o.SignatureHeader)
		}
		s.header = http.CanonicalHeaderKey(o.SignatureHeader)
	}
	if o.Algorithm != "" {
		a, err := choose("algorithm", o.Algorithm, algorithms, func(a algorithm) string { return a.name })
		if err != nil {
			return r, err
		}
		s.algorithm = a
	}
	if o.Encoding != "" {
		e, err := choose("encoding", o.Encoding, encodings, func(e encoding) string { return e.name })
		if err != nil {
			return r, err
		}
		s.encoding = e
	}
	switch {
	case o.Prefix != "" || o.PrefixSet:
		if err := checkPrefix(o.Prefix); err != nil {
			return r, err
		}
		s.prefix = o.Prefix
	case s.encoding.name == hexEncoding.name:
		s.prefix = s.algorithm.name + "="
	default:
		s.prefix = ""
	}
	return r, nil
}

// checkPrefix refuses what can never stand at the start of a header value, where every request would be refused.
func checkPrefix(p string) error {
	if !httpguts.ValidHeaderFieldValue(p) {
		return fmt.Errorf("prefix %q cannot stand in a header", p)
	}
	if p != "" && strings.TrimLeft(p, " \t") != p {
		return errors.New("prefix begins with a blank, which HTTP takes off header values")
	}
	return nil
}

func choose[T any](option, word string, from []T, name func(T) string) (T, error) {
	names := make([]string, 0, len(from))
	for _, t := range from {
		if name(t) == word {
			return t, nil
		}
		names = append(names, name(t))
	}
	var none T
	return none, fmt.Errorf("unknown %s %q; choose from %s", option, word, strings.Join(names, ", "))
}
