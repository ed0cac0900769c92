package ingress_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-anvil/anvil/internal/ingress"
)

// FuzzKeys holds the readers of JSON and forms against those of the standard library, which build the whole body in
// memory: both must find a field in the same bodies, and equal values must have one key however they are written.
func FuzzKeys(f *testing.F) {
	for _, c := range fieldCases {
		for _, r := range []request{c.a, c.b} {
			f.Add([]byte(r.body), strings.TrimPrefix(c.fields[0], "/"))
		}
	}
	for _, body := range []string{
		"", " ", "{", "null", `"text"`, "[]", `{"id":"\ud800\udc00"}`, `{"a":[[],{},[{"":0}]],"id":[]}`, `{"id":""}`, "id=&id=1",
	} {
		f.Add([]byte(body), "id")
	}
	f.Fuzz(func(t *testing.T, body []byte, field string) {
		fuzzForm(t, body, field)
		fuzzJSON(t, body, "/"+field)
	})
}

func fuzzForm(t *testing.T, body []byte, field string) {
	k, err := ingress.NewKeys(ingress.KeyRule{Kind: "form", Fields: []string{field}})
	if err != nil {
		return
	}
	key, fallback := k.Of("", "", nil, body)
	values, _ := url.ParseQuery(string(body)) // its error is about pairs that it passed over
	want := values.Get(field)
	if (want == "") != fallback {
		t.Fatalf("field %q of %q: fallback %v, but the value is %q", field, body, fallback, want)
	}
	if want == "" {
		return
	}
	if again, _ := k.Of("", "", nil, []byte(url.Values{field: {want}}.Encode())); again != key {
		t.Fatalf("field %q of %q: not the key of %q", field, body, want)
	}
	if other, _ := k.Of("", "", nil, []byte(url.Values{field: {want + "x"}}.Encode())); other == key {
		t.Fatalf("field %q of %q: the key of %q", field, body, want+"x")
	}
}

func fuzzJSON(t *testing.T, body []byte, field string) {
	k, err := ingress.NewKeys(ingress.KeyRule{Kind: "json", Fields: []string{field}})
	if err != nil {
		return
	}
	key, fallback := k.Of("", "", nil, body)
	// encoding/json repairs what is not Unicode, we refuse it; there they cannot be compared.
	if !utf8.Valid(body) || !utf8.ValidString(field) || strings.ContainsRune(field, utf8.RuneError) {
		return
	}
	tokens := strings.Split(field[1:], "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	want := jsonReference(body, tokens)
	if (want == nil) != fallback {
		t.Fatalf("%q of %q: fallback %v, but the value is %#v", field, body, fallback, want)
	}
	if want == nil {
		return
	}
	if again, _ := k.Of("", "", nil, nested(t, tokens, want)); again != key {
		t.Fatalf("%q of %q: not the key of %#v", field, body, want)
	}
	if other, _ := k.Of("", "", nil, nested(t, tokens, "another value")); want != "another value" && other == key {
		t.Fatalf("%q of %q: the key of another value", field, body)
	}
}

// jsonReference returns the string, json.Number or bool that the tokens lead to, nil when there is none.
func jsonReference(body []byte, tokens []string) any {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if !json.Valid(body) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return nil
	}
	for _, token := range tokens {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || strconv.Itoa(i) != token || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	switch v := value.(type) {
	case string:
		if v == "" || strings.ContainsRune(v, utf8.RuneError) {
			return nil
		}
		return v
	case json.Number, bool:
		return v
	}
	return nil
}

// nested makes the smallest body that has the value where the tokens lead to.
func nested(t *testing.T, tokens []string, value any) []byte {
	for _, token := range slices.Backward(tokens) {
		value = map[string]any{token: value}
	}
	body, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
