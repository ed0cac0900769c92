package verify

import (
	"bytes"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// field is a place in a request where one text stands. Its written form is a header's name, or one of
//
//	query:NAME   a query parameter, unescaped
//	form:NAME    a field of a form body
//	/a/b         the scalar at a JSON pointer in the body
//	raw:/a/b     the raw JSON text at a pointer
//	claim:/a     the scalar at a pointer in the payload of the JWT that the scheme reads
type field struct {
	kind fieldKind
	name string
	path jsonptr.Pointer
}

type fieldKind int

const (
	noField fieldKind = iota
	headerField
	queryField
	formField
	jsonField
	rawField
	claimField
)

var fieldPrefixes = []struct {
	prefix string
	kind   fieldKind
}{{"query:", queryField}, {"form:", formField}, {"raw:", rawField}, {"claim:", claimField}}

// parseField reads the written form; the empty one is no field.
func parseField(s string) (field, error) {
	if s == "" {
		return field{}, nil
	}
	f := field{kind: headerField, name: s}
	for _, p := range fieldPrefixes {
		if rest, ok := strings.CutPrefix(s, p.prefix); ok {
			f = field{kind: p.kind, name: rest}
		}
	}
	if s[0] == '/' {
		f.kind = jsonField
	}
	switch f.kind {
	case jsonField, rawField, claimField:
		var err error
		f.path, err = jsonptr.Parse(f.name)
		return f, err
	case headerField:
		if !httpguts.ValidHeaderFieldName(s) {
			return f, fmt.Errorf("%q is not a header name", s)
		}
		f.name = http.CanonicalHeaderKey(s)
	}
	return f, nil
}

// mustField reads the written form that stands in the table.
func mustField(s string) field {
	f, err := parseField(s)
	if err != nil {
		panic("provider table: " + err.Error())
	}
	return f
}

// get returns the text, or why there is none. An empty one counts as missing.
func (f *field) get(r *Request) (string, Reason) {
	text, n := f.lookup(r)
	switch {
	case n > 1:
		return "", ReasonRepeated
	case text == "":
		return "", ReasonMissing
	}
	return text, ""
}

// lookup returns the text and how often it is there. What is there more than once has no one value that we and the
// application behind us are sure to agree on.
func (f *field) lookup(r *Request) (text string, n int) {
	switch f.kind {
	case headerField:
		return first(r.Header[f.name])
	case queryField:
		return first(queryValues(r.URL, f.name))
	case formField:
		return first(formValues(r.Body, f.name))
	case jsonField, rawField:
		doc, ok := r.document()
		if !ok {
			return "", 0
		}
		raw, ok := f.path.Find(doc)
		if !ok {
			return "", 0
		}
		if f.kind == rawField {
			return string(raw), 1
		}
		if text, ok := jsonptr.Text(raw); ok {
			return string(text), 1
		}
	}
	return "", 0
}

// document returns the body as JSON.
func (r *Request) document() ([]byte, bool) {
	if r.json != nil {
		return r.json.of(r.Body)
	}
	return jsonptr.Document(r.Body)
}

func first(values []string) (string, int) {
	if len(values) == 0 {
		return "", 0
	}
	return values[0], len(values)
}

func one(values []string) (string, Reason) {
	switch {
	case len(values) > 1:
		return "", ReasonRepeated
	case len(values) == 0 || values[0] == "":
		return "", ReasonMissing
	}
	return values[0], ""
}

// present reports whether the header is there at all, empty or not.
func (f *field) present(r *Request) bool { return len(r.Header[f.name]) > 0 }

// headersNamed returns the headers that a request itself says are signed. One named again is refused: the message would be
// many times as large as the request, and a stranger can ask for that before anything is proved.
func headersNamed(names iter.Seq[string], h http.Header) ([]pair, Reason) {
	var headers []pair
	seen := map[string]bool{}
	for name := range names {
		canonical := http.CanonicalHeaderKey(name)
		value, n := first(h[canonical])
		switch {
		case n == 0:
			return nil, ReasonMissing
		case n > 1:
			return nil, ReasonRepeated
		case seen[canonical]:
			return nil, ReasonMalformed
		}
		seen[canonical] = true
		headers = append(headers, pair{name, value})
	}
	return headers, ""
}

// queryOf returns what stands between the first ? and the fragment.
func queryOf(rawURL string) string {
	rawURL, _, _ = strings.Cut(rawURL, "#")
	_, query, _ := strings.Cut(rawURL, "?")
	return query
}

func queryValues(rawURL, name string) []string { return pairValues(queryOf(rawURL), name) }

func formValues(body []byte, name string) []string {
	if !bytes.Contains(body, []byte("=")) {
		return nil
	}
	return pairValues(string(body), name)
}

// pairValues returns the values of a name in query or form text. Pairs with a bad escape are passed over; a semicolon is
// a character like others, as it is for the senders.
func pairValues(text, name string) []string {
	var values []string
	for text != "" {
		var pair string
		pair, text, _ = strings.Cut(text, "&")
		key, value, _ := strings.Cut(pair, "=")
		if len(key) > 3*len(name) {
			continue
		}
		if k, err := url.QueryUnescape(key); err != nil || k != name {
			continue
		}
		if v, err := url.QueryUnescape(value); err == nil {
			values = append(values, v)
		}
	}
	return values
}

// pair is a field of a form.
type pair struct{ key, value string }

// maxPairs bounds the fields of a form or query, because schemes sort them. Real forms have dozens.
const maxPairs = 10_000

// formPairs returns all fields of a form body in order, or false when one has a bad escape: what cannot be read as the
// sender wrote it must not be guessed at.
func formPairs(body []byte) ([]pair, bool) {
	var pairs []pair
	text := string(body)
	for text != "" {
		if len(pairs) == maxPairs {
			return nil, false
		}
		var item string
		item, text, _ = strings.Cut(text, "&")
		if item == "" {
			continue
		}
		key, value, _ := strings.Cut(item, "=")
		k, err := url.QueryUnescape(key)
		if err != nil {
			return nil, false
		}
		v, err := url.QueryUnescape(value)
		if err != nil {
			return nil, false
		}
		pairs = append(pairs, pair{k, v})
	}
	return pairs, true
}
