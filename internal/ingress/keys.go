package ingress

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"sync"
)

// KeyRule says by what two requests count as the same event.
type KeyRule struct {
	// Kind is one of
	//
	//	event_id   the provider's id of the event
	//	signature  the canonical signature and the body
	//	body       the body
	//	header     the values of headers
	//	json       the values at JSON pointers (RFC 6901) in the body
	//	form       the values of fields of an application/x-www-form-urlencoded body
	//	off        nothing: no request is a duplicate
	Kind string
	// Fields are the header names, JSON pointers or form fields, in an order that matters: at least one for header, json
	// and form, none for the others.
	Fields []string
	// Provider is for event_id: whose ids they are. Those of two providers may be equal by chance.
	Provider string
	// Otherwise is for event_id: the rule, signature or body, for requests without an id; body when empty.
	Otherwise string
}

// extract returns the values of a rule's fields, or false when any is missing or empty.
type extract func(h http.Header, body []byte) (values [][]byte, ok bool)

// fieldRules are the kinds that take fields.
var fieldRules = map[string]func(fields []string) (extract, error){
	"header": headerValues,
	"json":   jsonValues,
	"form":   formValues,
}

// Keys makes dedupe keys by one rule. It is safe for concurrent use.
type Keys struct {
	kind      string
	otherwise string
	extract   extract // for kinds with fields
	// label is the rule in the form in which it is hashed, so that equal values of different fields never meet.
	label   []byte
	hashers sync.Pool
}

// NewKeys checks a rule. Errors: an unknown kind, fields where none belong or none where some do, or a field that can
// not be one.
func NewKeys(rule KeyRule) (*Keys, error) {
	k := &Keys{kind: rule.Kind}
	newHash := sha256.New
	switch rule.Kind {
	case "signature", "body", "off":
		if len(rule.Fields) > 0 {
			return nil, fmt.Errorf("reading dedupe rule: %s takes no fields, but %q is given", rule.Kind, rule.Fields[0])
		}
	case "event_id":
		if len(rule.Fields) > 0 {
			return nil, fmt.Errorf("reading dedupe rule: event_id takes no fields, but %q is given", rule.Fields[0])
		}
		k.otherwise = rule.Otherwise
		k.label = appendString(appendString(nil, rule.Kind), rule.Provider)
		newHash = sha512.New512_256 // as below
	case "header", "json", "form":
		if len(rule.Fields) == 0 {
			return nil, fmt.Errorf("reading dedupe rule: %s needs at least one field", rule.Kind)
		}
		x, err := fieldRules[rule.Kind](rule.Fields)
		if err != nil {
			return nil, fmt.Errorf("reading dedupe rule: %w", err)
		}
		k.extract = x
		k.label = appendString(nil, rule.Kind)
		for _, f := range rule.Fields {
			if rule.Kind == "header" {
				f = http.CanonicalHeaderKey(f)
			}
			k.label = appendString(k.label, f)
		}
		// Another hash function than for bodies. With the same one, a sender who is free in his bodies could send the very
		// bytes that are hashed here, as a body without the fields, and so claim another event's key.
		newHash = sha512.New512_256
	default:
		return nil, fmt.Errorf("reading dedupe rule: unknown kind %q; choose from event_id, signature, body, header, json, form, off", rule.Kind)
	}
	k.hashers.New = func() any { return &hasher{fields: newHash(), body: sha256.New()} }
	return k, nil
}

// Of returns the key of a request: 64 lower-case hex digits, or nothing for the rule "off". sig is the canonical
// signature and id the provider's id of the event, each empty when there is none.
//
// fallback is true when the request lacks what the rule asks for. The key is then that of the rule "body", or Otherwise:
// an empty or absent id must not make different events one.
func (k *Keys) Of(sig, id string, h http.Header, body []byte) (key string, fallback bool) {
	if k.kind == "off" {
		return "", false
	}
	s := k.hashers.Get().(*hasher) //nolint:forcetypeassert // the pool holds nothing else
	defer k.hashers.Put(s)
	switch k.kind {
	case "signature":
		return s.ofBody(sig, body), sig == ""
	case "body":
		return s.ofBody("", body), false
	case "event_id":
		switch {
		case id != "":
			return s.ofText(k.label, id), false
		case k.otherwise == "signature":
			return s.ofBody(sig, body), true
		}
		return s.ofBody("", body), true
	}
	values, ok := k.extract(h, body)
	if !ok {
		return s.ofBody("", body), true
	}
	return s.ofFields(k.label, values), false
}

var signedLabel = appendString(nil, "signed")

// OfSigned returns the key of what a signature covers, by its hash. It is claimed beside an id that the signature does not
// cover, and never equals a key of Of.
func OfSigned(sum [sha256.Size]byte) string {
	h := sha512.New512_256()
	h.Write(signedLabel)
	h.Write(sum[:])
	return hex.EncodeToString(h.Sum(nil))
}

var urlLabel = appendString(nil, "url")

// OfURL returns the key of a webhook that is all in its URL. It never equals a key of Of.
func OfURL(method, url string) string {
	h := sha512.New512_256()
	h.Write(appendString(appendString(urlLabel[:len(urlLabel):len(urlLabel)], method), url))
	return hex.EncodeToString(h.Sum(nil))
}

// hasher is pooled, because what goes through hash.Hash escapes to the heap.
type hasher struct {
	body, fields hash.Hash
	text         [2 * sha256.Size]byte
	scratch      []byte
}

// ofBody hashes signature and body without anything between: the canonical signature has a fixed length.
func (s *hasher) ofBody(sig string, body []byte) string {
	s.body.Reset()
	s.scratch = append(s.scratch[:0], sig...)
	s.body.Write(s.scratch)
	s.body.Write(body)
	return s.hex(s.body)
}

// ofFields hashes each value with its length, so that ("ab","c") and ("a","bc") differ.
func (s *hasher) ofFields(label []byte, values [][]byte) string {
	s.fields.Reset()
	s.fields.Write(label)
	for _, v := range values {
		s.scratch = binary.AppendUvarint(s.scratch[:0], uint64(len(v)))
		s.fields.Write(s.scratch)
		s.fields.Write(v)
	}
	return s.hex(s.fields)
}

// ofText is ofFields for one text.
func (s *hasher) ofText(label []byte, text string) string {
	s.fields.Reset()
	s.fields.Write(label)
	s.scratch = appendString(s.scratch[:0], text)
	s.fields.Write(s.scratch)
	return s.hex(s.fields)
}

func (s *hasher) hex(h hash.Hash) string {
	s.scratch = h.Sum(s.scratch[:0])
	hex.Encode(s.text[:], s.scratch)
	return string(s.text[:])
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}
