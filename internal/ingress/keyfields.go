package ingress

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// headerValues takes headers that came exactly once. A repeated header has no one value that we and the application
// are sure to agree on.
func headerValues(fields []string) (extract, error) {
	names := make([]string, len(fields))
	for i, f := range fields {
		if !httpguts.ValidHeaderFieldName(f) {
			return nil, fmt.Errorf("%q is not a header name", f)
		}
		names[i] = http.CanonicalHeaderKey(f)
	}
	return func(h http.Header, _ []byte) ([][]byte, bool) {
		values := make([][]byte, len(names))
		for i, name := range names {
			lines := h[name]
			if len(lines) != 1 || lines[0] == "" {
				return nil, false
			}
			values[i] = []byte(lines[0])
		}
		return values, true
	}, nil
}

// formValues takes the first value of each field of a form body, by the rules of url.ParseQuery: pairs with a bad escape
// or a semicolon are passed over. The content type is not looked at. It does not use url.ParseQuery itself because that
// copies the whole body into a map.
func formValues(fields []string) (extract, error) {
	for _, f := range fields {
		if f == "" {
			return nil, errors.New("a form field needs a name")
		}
	}
	return func(_ http.Header, body []byte) ([][]byte, bool) {
		values := make([][]byte, len(fields))
		for i, f := range fields {
			if values[i] = formValue(f, body); len(values[i]) == 0 {
				return nil, false
			}
		}
		return values, true
	}, nil
}

func formValue(field string, body []byte) []byte {
	for len(body) > 0 {
		var pair []byte
		pair, body, _ = bytes.Cut(body, []byte("&"))
		if bytes.IndexByte(pair, ';') >= 0 {
			continue
		}
		name, value, _ := bytes.Cut(pair, []byte("="))
		if !formNameIs(name, field) {
			continue
		}
		if text, err := url.QueryUnescape(string(value)); err == nil {
			return []byte(text)
		}
	}
	return nil
}

// formNameIs compares without unescaping where it can: a name is never shorter than what it stands for, and without
// an escape it stands for itself.
func formNameIs(name []byte, field string) bool {
	if len(name) < len(field) {
		return false
	}
	if !bytes.ContainsAny(name, "%+") {
		return string(name) == field
	}
	if len(name) > 3*len(field) {
		return false
	}
	text, err := url.QueryUnescape(string(name))
	return err == nil && text == field
}

// jsonValues takes the scalars at JSON pointers. The whole body must be one valid JSON text, after an optional byte
// order mark; numbers keep their literal text, whatever their size; names match exactly; of members with the same name
// the last one counts, as it does for most applications. Null, objects and arrays count as missing.
func jsonValues(fields []string) (extract, error) {
	pointers := make([]jsonptr.Pointer, len(fields))
	for i, f := range fields {
		p, err := jsonptr.Parse(f)
		if err != nil {
			return nil, err
		}
		pointers[i] = p
	}
	return func(_ http.Header, body []byte) ([][]byte, bool) {
		doc, ok := jsonptr.Document(body)
		if !ok {
			return nil, false
		}
		values := make([][]byte, len(pointers))
		for i, p := range pointers {
			raw, ok := p.Find(doc)
			if !ok {
				return nil, false
			}
			if values[i], ok = jsonptr.Scalar(raw); !ok {
				return nil, false
			}
		}
		return values, true
	}, nil
}
