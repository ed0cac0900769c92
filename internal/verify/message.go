package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// template is the parts of a signed message in order. Its written form is text with placeholders
//
//	{sig.body}             the raw body
//	{sig.timestamp}        the text of the signed time, as it was sent
//	{sig.id}               the text of the message id
//	{sig.url}              the URL as the sender saw it
//	{sig.method} {sig.host} {sig.path} {sig.query} {sig.path_query}   the method, and parts of that URL
//	{sig.header.NAME}      a header
//	{sig.query.NAME} {sig.form.NAME} {sig.json./a/b} {sig.raw./a/b}   a query parameter, form field or JSON value
//	{sig.body_sha256} {sig.body_sha256_base64} {sig.body_sha256_raw}  a digest of the body: hex, base64, or its 32 bytes
//	{sig.secret}           the secret, for schemes with a plain digest
//	{sig.option.NAME}      an option of the provider
//	{sig.built}            a message that the scheme's own code makes
//
// They are not called {body} and the like because a Caddyfile replaces some of those before we see them.
type template []part

type part struct {
	kind  partKind
	text  string // literals and options
	field field
}

type partKind int

const (
	literalPart partKind = iota
	bodyPart
	timestampPart
	idPart
	urlPart
	methodPart
	hostPart
	pathPart
	queryPart
	pathQueryPart
	fieldPart
	bodySHA256Part
	bodySHA256Base64Part
	bodySHA256RawPart
	secretPart
	optionPart
	builtPart
)

var partNames = map[string]partKind{
	"body": bodyPart, "timestamp": timestampPart, "id": idPart, "url": urlPart, "method": methodPart, "host": hostPart,
	"path": pathPart, "query": queryPart, "path_query": pathQueryPart, "body_sha256": bodySHA256Part,
	"body_sha256_base64": bodySHA256Base64Part, "body_sha256_raw": bodySHA256RawPart, "secret": secretPart, "built": builtPart,
}

var partFields = []struct{ prefix, field string }{
	{"header.", ""}, {"query.", "query:"}, {"form.", "form:"}, {"json.", ""}, {"raw.", "raw:"},
}

// parseTemplate reads the written form. options are the values for {sig.option.…}.
func parseTemplate(s string, options Options) (template, error) {
	var t template
	rest := s
	for {
		literal, after, found := strings.Cut(rest, "{sig.")
		if literal != "" {
			t = append(t, part{text: literal})
		}
		if !found {
			return t, nil
		}
		name, tail, ok := strings.Cut(after, "}")
		if !ok {
			return nil, fmt.Errorf("%q has a {sig. without a }", s)
		}
		p, err := parsePart(name, options)
		if err != nil {
			return nil, err
		}
		t = append(t, p)
		rest = tail
	}
}

func parsePart(name string, options Options) (part, error) {
	if kind, ok := partNames[name]; ok {
		return part{kind: kind}, nil
	}
	if option, ok := strings.CutPrefix(name, "option."); ok {
		return part{kind: optionPart, text: options[option]}, nil
	}
	for _, f := range partFields {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok {
			parsed, err := parseField(f.field + rest)
			if err == nil && parsed.kind == noField {
				err = fmt.Errorf("{sig.%s} names nothing", name)
			}
			return part{kind: fieldPart, field: parsed}, err
		}
	}
	known := make([]string, 0, len(partNames))
	for n := range partNames {
		// Options cannot have these.
		if n != "built" && n != "secret" {
			known = append(known, n)
		}
	}
	slices.Sort(known)
	return part{}, fmt.Errorf("unknown placeholder {sig.%s}; known are %s, header.NAME, query.NAME, form.NAME, json./POINTER, raw./POINTER",
		name, strings.Join(known, ", "))
}

func (t template) has(kind partKind) bool {
	return slices.ContainsFunc(t, func(p part) bool { return p.kind == kind })
}

// sink takes the parts of a message: a hash, or a buffer.
type sink interface {
	bytes(b []byte)
	text(s string)
}

// write gives the message to the sink. It is false when the request lacks a part that the message has.
func (t template) write(in *input, secret string, to sink) bool {
	for i := range t {
		p := &t[i]
		switch p.kind {
		case literalPart, optionPart:
			to.text(p.text)
		case bodyPart:
			to.bytes(in.r.Body)
		case timestampPart:
			to.text(in.ts)
		case idPart:
			to.text(in.id)
		case urlPart:
			to.text(in.url)
		case methodPart:
			to.text(in.r.Method)
		case hostPart:
			host, _ := splitURL(in.url)
			to.text(host)
		case pathPart:
			_, uri := splitURL(in.url)
			path, _, _ := strings.Cut(uri, "?")
			to.text(path)
		case queryPart:
			to.text(queryOf(in.url))
		case pathQueryPart:
			_, uri := splitURL(in.url)
			to.text(uri)
		case fieldPart:
			value, n := p.field.lookup(in.r)
			if n != 1 {
				return false
			}
			to.text(value)
		case bodySHA256Part:
			sum := sha256.Sum256(in.r.Body)
			to.text(hex.EncodeToString(sum[:]))
		case bodySHA256Base64Part:
			sum := sha256.Sum256(in.r.Body)
			to.text(base64.StdEncoding.EncodeToString(sum[:]))
		case bodySHA256RawPart:
			sum := sha256.Sum256(in.r.Body)
			to.bytes(sum[:])
		case secretPart:
			to.text(secret)
		case builtPart:
			if in.built == nil {
				return false
			}
			to.bytes(in.built)
		}
	}
	return true
}

// splitURL returns the host, and the path and query, of an absolute URL without changing a character of them.
func splitURL(rawURL string) (host, uri string) {
	if _, rest, ok := strings.Cut(rawURL, "://"); ok {
		rawURL = rest
	}
	rawURL, _, _ = strings.Cut(rawURL, "#")
	i := strings.IndexAny(rawURL, "/?")
	if i < 0 {
		return rawURL, "/"
	}
	host, uri = rawURL[:i], rawURL[i:]
	if uri[0] == '?' {
		uri = "/" + uri
	}
	return host, uri
}
