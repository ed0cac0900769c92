package ingress_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-anvil/anvil/internal/ingress"
)

func newKeys(t testing.TB, kind string, fields ...string) *ingress.Keys {
	t.Helper()
	k, err := ingress.NewKeys(ingress.KeyRule{Kind: kind, Fields: fields})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func hexSHA256(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestSignatureKeyIsTheHashOfSignatureAndBody(t *testing.T) {
	k := newKeys(t, "signature")
	for _, c := range []struct{ name, sig, body, want string }{
		{
			"a body", "sha256=058d37e5c6599b17f2260c5d771a650b4005c603b5b3f6e1134e79f85adacdea", `{"id":"evt_1"}`,
			"ed470e2fc65a6832898c775d0ad6467c9cf144df7ae8e51588c49bebdfded85c",
		},
		{
			"an empty body", "sha256=496dc93fa2d26eae500ec0bc37a122706b88f8963cebf0899d0245fae313e241", "",
			"ac75c3b2b26647e6191a86884a4489dfcfc5fb46969e3373a51252aa66826792",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, fallback := k.Of(c.sig, "", nil, []byte(c.body)); got != c.want || fallback {
				t.Errorf("got %s, %v, want %s", got, fallback, c.want)
			}
		})
	}
}

func TestSignatureKeyWithoutASignatureFallsBackToTheBody(t *testing.T) {
	if got, fallback := newKeys(t, "signature").Of("", "", nil, []byte("body")); got != hexSHA256("body") || !fallback {
		t.Errorf("got %s, %v", got, fallback)
	}
}

func TestSignatureKeyIgnoresUnsignedHeaders(t *testing.T) {
	k := newKeys(t, "signature")
	first, _ := k.Of("sha256=00", "", http.Header{"X-Github-Delivery": {"1"}}, []byte("body"))
	fresh, _ := k.Of("sha256=00", "", http.Header{"X-Github-Delivery": {"2"}}, []byte("body"))
	if first != fresh {
		t.Error("a captured request with a fresh delivery id is a new event")
	}
}

func TestBodyKeyIsTheHashOfTheBodyAlone(t *testing.T) {
	k := newKeys(t, "body")
	for _, body := range []string{"", "{}", "\x00\xff\xfe"} {
		if got, fallback := k.Of("sha256=00", "", nil, []byte(body)); got != hexSHA256(body) || fallback {
			t.Errorf("%q: got %s, %v", body, got, fallback)
		}
	}
}

func TestOffMakesNoKey(t *testing.T) {
	if got, fallback := newKeys(t, "off").Of("sha256=00", "", nil, []byte("body")); got != "" || fallback {
		t.Errorf("got %q, %v, want none", got, fallback)
	}
}

// request is what a field rule looks at.
type request struct {
	header http.Header
	body   string
}

func byHeader(pairs ...string) request {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return request{header: h, body: fmt.Sprint(pairs)}
}

func byBody(body string) request { return request{body: body} }

// fieldCases are pairs of requests whose bodies differ, and whether a rule makes one event of them.
var fieldCases = []struct {
	name, kind string
	fields     []string
	a, b       request
	same       bool
}{
	{"one id", "header", []string{"X-Id"}, byHeader("X-Id", "1", "X-Time", "1"), byHeader("X-Id", "1", "X-Time", "2"), true},
	{"two ids", "header", []string{"X-Id"}, byHeader("X-Id", "1"), byHeader("X-Id", "2"), false},
	{"names in any case", "header", []string{"x-ID"}, byHeader("X-Id", "1", "X-Time", "1"), byHeader("X-Id", "1", "X-Time", "2"), true},
	{"all of several", "header", []string{"A", "B"}, byHeader("A", "1", "B", "2", "C", "1"), byHeader("A", "1", "B", "2", "C", "2"), true},
	{"one of several differs", "header", []string{"A", "B"}, byHeader("A", "1", "B", "2"), byHeader("A", "1", "B", "3"), false},
	{"values that join alike", "header", []string{"A", "B"}, byHeader("A", "1", "B", "23"), byHeader("A", "12", "B", "3"), false},
	{"values exchanged", "header", []string{"A", "B"}, byHeader("A", "1", "B", "2"), byHeader("A", "2", "B", "1"), false},

	{"one id", "json", []string{"/id"}, byBody(`{"id":"e1","at":1}`), byBody(`{"at": 2, "id": "e1"}`), true},
	{"two ids", "json", []string{"/id"}, byBody(`{"id":"e1"}`), byBody(`{"id":"e2"}`), false},
	{"an escape", "json", []string{"/id"}, byBody(`{"id":"\u00e9\/"}`), byBody(`{"id":"é/"}`), true},
	{"an escaped name", "json", []string{"/id"}, byBody(`{"\u0069d":"e1"}`), byBody(`{"id":"e1"}`), true},
	{"names of another case", "json", []string{"/id"}, byBody(`{"id":"a","ID":"b"}`), byBody(`{"id":"a","ID":"c"}`), true},
	{"nested", "json", []string{"/data/object/id"}, byBody(`{"data":{"object":{"id":1}},"n":1}`), byBody(`{"n":2,"data":{"object":{"x":[{}],"id":1}}}`), true},
	{"an index", "json", []string{"/a/1/id"}, byBody(`{"a":[{"id":0},{"id":1}],"n":1}`), byBody(`{"a":[9,{"id":1}]}`), true},
	{"an index as a name", "json", []string{"/a/0"}, byBody(`{"a":{"0":"x"},"n":1}`), byBody(`{"a":["x"]}`), true},
	{"~0 and ~1", "json", []string{"/a~1b/~01"}, byBody(`{"a/b":{"~1":"x"},"n":1}`), byBody(`{"a/b":{"~1":"x"},"n":2}`), true},
	{"an empty name", "json", []string{"/"}, byBody(`{"":"x","n":1}`), byBody(`{"":"x","n":2}`), true},
	{"the last of equal names", "json", []string{"/id"}, byBody(`{"id":"a","id":"b"}`), byBody(`{"id":"c","id":"b"}`), true},
	{"not the first of equal names", "json", []string{"/id"}, byBody(`{"id":"a","id":"b"}`), byBody(`{"id":"a","id":"c"}`), false},
	{"byte order mark", "json", []string{"/id"}, byBody("\xef\xbb\xbf{\"id\":1}"), byBody(`{"id":1}`), true},
	{"blanks everywhere", "json", []string{"/a/1"}, byBody("\r\n\t {\n\"a\" : [ 1 ,\t\"x\" ] } \n"), byBody(`{"a":[2,"x"]}`), true},
	{"brackets within strings", "json", []string{"/id"}, byBody(`{"x":"}]\"{[\\","id":1}`), byBody(`{"id":1,"x":["}"]}`), true},
	{"numbers by their text", "json", []string{"/id"}, byBody(`{"id":1.0}`), byBody(`{"id":1}`), false},
	{"large numbers", "json", []string{"/id"}, byBody(`{"id":9007199254740993}`), byBody(`{"id":9007199254740992}`), false},
	{"a number beyond all range", "json", []string{"/id"}, byBody(`{"id":1e400,"n":1}`), byBody(`{"id":1e400,"n":2}`), true},
	{"309 digits", "json", []string{"/id"}, byBody(`{"id":` + strings.Repeat("9", 309) + `,"n":1}`), byBody(`{"id":` + strings.Repeat("9", 309) + `}`), true},
	{"a number and a string", "json", []string{"/id"}, byBody(`{"id":1}`), byBody(`{"id":"1"}`), false},
	{"a boolean", "json", []string{"/id"}, byBody(`{"id":false,"n":1}`), byBody(`{"id":false,"n":2}`), true},
	{"a boolean and a string", "json", []string{"/id"}, byBody(`{"id":true}`), byBody(`{"id":"true"}`), false},
	{"values that join alike", "json", []string{"/a", "/b"}, byBody(`{"a":1,"b":23}`), byBody(`{"a":12,"b":3}`), false},

	{"one id", "form", []string{"id"}, byBody("id=1&t=1"), byBody("t=2&id=1"), true},
	{"two ids", "form", []string{"id"}, byBody("id=1"), byBody("id=2"), false},
	{"escapes", "form", []string{"a b"}, byBody("a+b=%C3%A9+x"), byBody("%61%20b=é%20x"), true},
	{"the first of equal names", "form", []string{"id"}, byBody("id=1&id=2"), byBody("id=1&id=3"), true},
	{"a pair with a bad escape is passed over", "form", []string{"id"}, byBody("id=%zz&id=1"), byBody("id=1"), true},
	{"a pair with a semicolon is passed over", "form", []string{"id"}, byBody("id=2;x&id=1"), byBody("id=1"), true},
	{"= within the value", "form", []string{"id"}, byBody("id=a=b&n=1"), byBody("id=a=b&n=2"), true},
	{"a long name with an escape", "form", []string{"id"}, byBody("identification%20code=2&id=1"), byBody("id=1"), true},
	{"names that begin alike", "form", []string{"id"}, byBody("id2=2&id=1"), byBody("id3=3&id=1"), true},
}

func TestFieldKeys(t *testing.T) {
	for _, c := range fieldCases {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) {
			k := newKeys(t, c.kind, c.fields...)
			a, fallbackA := k.Of("", "", c.a.header, []byte(c.a.body))
			b, fallbackB := k.Of("", "", c.b.header, []byte(c.b.body))
			if fallbackA || fallbackB {
				t.Fatalf("fell back: %v, %v", fallbackA, fallbackB)
			}
			if (a == b) != c.same {
				t.Errorf("the same event: %v, want %v", a == b, c.same)
			}
			for _, key := range []string{a, b} {
				if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(key) {
					t.Errorf("%q is not 64 lower-case hex digits", key)
				}
			}
		})
	}
}

func TestFieldKeysFallBackToTheBodyWhenAFieldIsMissing(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		fields     []string
		request    request
	}{
		{"absent", "header", []string{"X-Id"}, byHeader("X-Other", "1")},
		{"no headers", "header", []string{"X-Id"}, byBody("x")},
		{"empty", "header", []string{"X-Id"}, byHeader("X-Id", "")},
		{"one of two absent", "header", []string{"X-Id", "X-B"}, byHeader("X-Id", "1")},
		{"repeated", "header", []string{"X-Id"}, byHeader("X-Id", "1", "X-Id", "2")},

		{"absent", "json", []string{"/id"}, byBody(`{"ID":"x","a":{"id":1}}`)},
		{"empty string", "json", []string{"/id"}, byBody(`{"id":""}`)},
		{"null", "json", []string{"/id"}, byBody(`{"id":null}`)},
		{"an object", "json", []string{"/id"}, byBody(`{"id":{"a":1}}`)},
		{"an array", "json", []string{"/id"}, byBody(`{"id":["a"]}`)},
		{"one of two absent", "json", []string{"/id", "/b"}, byBody(`{"id":1}`)},
		{"below a scalar", "json", []string{"/id/x"}, byBody(`{"id":"x"}`)},
		{"below the last of equal names", "json", []string{"/a/id"}, byBody(`{"a":{"id":1},"a":{"b":2}}`)},
		{"an index beyond the array", "json", []string{"/a/2"}, byBody(`{"a":[1,2]}`)},
		{"an index of an empty array", "json", []string{"/a/0"}, byBody(`{"a":[]}`)},
		{"an index with a leading zero", "json", []string{"/a/01"}, byBody(`{"a":[1,2]}`)},
		{"a signed index", "json", []string{"/a/+1"}, byBody(`{"a":[1,2]}`)},
		{"the index behind the end", "json", []string{"/a/-"}, byBody(`{"a":[1,2]}`)},
		{"an index beyond all range", "json", []string{"/a/99999999999999999999"}, byBody(`{"a":[1,2]}`)},
		{"an empty object", "json", []string{"/id"}, byBody(`{}`)},
		{"an empty array", "json", []string{"/id"}, byBody(`[]`)},
		{"a bare string", "json", []string{"/id"}, byBody(`"text"`)},
		{"a bare number", "json", []string{"/0"}, byBody(`42`)},
		{"a bare null", "json", []string{"/id"}, byBody(`null`)},
		{"a bare true", "json", []string{"/id"}, byBody(`true`)},
		{"no body", "json", []string{"/id"}, byBody(``)},
		{"a blank", "json", []string{"/id"}, byBody(` `)},
		{"only a byte order mark", "json", []string{"/id"}, byBody("\xef\xbb\xbf")},
		{"broken off", "json", []string{"/id"}, byBody(`{`)},
		{"broken off after the field", "json", []string{"/id"}, byBody(`{"id":1,`)},
		{"two documents", "json", []string{"/id"}, byBody(`{"id":1}{"id":1}`)},
		{"not JSON", "json", []string{"/id"}, byBody(`id=1`)},
		{"nested beyond reason", "json", []string{"/id"}, byBody(`{"id":1,"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`)},
		{"invalid UTF-8", "json", []string{"/id"}, byBody("{\"id\":\"\xff\"}")},
		{"half of a surrogate pair", "json", []string{"/id"}, byBody(`{"id":"\ud800"}`)},

		{"absent", "form", []string{"id"}, byBody("x=1")},
		{"empty", "form", []string{"id"}, byBody("id=&x=1")},
		{"without a value", "form", []string{"id"}, byBody("id&x=1")},
		{"empty first", "form", []string{"id"}, byBody("id=&id=1")},
		{"only with bad escapes", "form", []string{"id"}, byBody("id=%zz&id=%")},
		{"no body", "form", []string{"id"}, byBody("")},
		{"an escaped name of another field", "form", []string{"id"}, byBody("%69e=1")},
		{"a JSON body", "form", []string{"id"}, byBody(`{"id":1}`)},
	} {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) {
			got, fallback := newKeys(t, c.kind, c.fields...).Of("sha256=00", "", c.request.header, []byte(c.request.body))
			if got != hexSHA256(c.request.body) || !fallback {
				t.Errorf("got %s, %v, want the key of the body", got, fallback)
			}
		})
	}
}

func TestSpellingAHeaderRuleDifferentlyKeepsItsKeys(t *testing.T) {
	h := http.Header{"X-Id": {"1"}}
	a, _ := newKeys(t, "header", "X-Id").Of("", "", h, nil)
	if b, _ := newKeys(t, "header", "x-ID").Of("", "", h, nil); a != b {
		t.Error("X-Id and x-ID make different keys")
	}
}

func TestEqualValuesOfDifferentFieldsOrRulesAreDifferentKeys(t *testing.T) {
	h := http.Header{"A": {"1"}, "B": {"1"}}
	seen := map[string]string{}
	for name, r := range map[string]struct {
		keys *ingress.Keys
		body string
	}{
		"header A":        {newKeys(t, "header", "A"), ""},
		"header B":        {newKeys(t, "header", "B"), ""},
		"header A and B":  {newKeys(t, "header", "A", "B"), ""},
		"header B and A":  {newKeys(t, "header", "B", "A"), ""},
		"json /A":         {newKeys(t, "json", "/A"), `{"A":1,"B":1}`},
		"json /B":         {newKeys(t, "json", "/B"), `{"A":1,"B":1}`},
		"form A":          {newKeys(t, "form", "A"), "A=1&B=1"},
		"form A and B":    {newKeys(t, "form", "A", "B"), "A=1&B=1"},
		"body of the key": {newKeys(t, "body"), "1"},
	} {
		key, _ := r.keys.Of("", "", h, []byte(r.body))
		if other, twice := seen[key]; twice {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[key] = name
	}
}

// Whoever may send any bytes as a body must not be able to make the key of another event out of them. So no SHA-256 of
// anything that he could work out may be a field's key.
func TestAFieldKeyIsNoPlainHashOfItsOwnInput(t *testing.T) {
	key, _ := newKeys(t, "header", "A").Of("", "", http.Header{"A": {"1"}}, nil)
	for _, input := range []string{"1", "A1", "\x06header\x01A\x011", "header\x00A\x001"} {
		if key == hexSHA256(input) {
			t.Errorf("the body %q has the key of header A: 1", input)
		}
	}
}

func TestConcurrentKeysDoNotDisturbEachOther(t *testing.T) {
	signature, fields := newKeys(t, "signature"), newKeys(t, "json", "/id")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"id":%d}`, g)
			field, _ := newKeys(t, "json", "/id").Of("", "", nil, []byte(body))
			for range 300 {
				if got, _ := signature.Of("sig", "", nil, []byte(body)); got != hexSHA256("sig"+body) {
					t.Error("another request's signature key")
				}
				if got, _ := fields.Of("", "", nil, []byte(body)); got != field {
					t.Error("another request's field key")
				}
			}
		})
	}
	wg.Wait()
}

func TestNewKeysRefusals(t *testing.T) {
	for _, c := range []struct {
		kind   string
		fields []string
		want   string
	}{
		{"", nil, `unknown kind ""; choose from event_id, signature, body, header, json, form, off`},
		{"event-id", nil, `unknown kind "event-id"; choose from event_id, signature, body, header, json, form, off`},
		{"event_id", []string{"/id"}, `event_id takes no fields, but "/id" is given`},
		{"signature", []string{"X"}, `signature takes no fields, but "X" is given`},
		{"body", []string{"/id"}, `body takes no fields, but "/id" is given`},
		{"off", []string{"x"}, `off takes no fields, but "x" is given`},
		{"header", nil, `header needs at least one field`},
		{"json", nil, `json needs at least one field`},
		{"form", nil, `form needs at least one field`},
		{"header", []string{"X-Id", "X Id"}, `"X Id" is not a header name`},
		{"header", []string{""}, `"" is not a header name`},
		{"form", []string{""}, `a form field needs a name`},
		{"json", []string{""}, `json pointer "" means the whole body; use dedupe body for that`},
		{"json", []string{"id"}, `json pointer "id" must begin with /, as in /id`},
		{"json", []string{"/a~2"}, `json pointer "/a~2" has a ~ that is not part of ~0 (for ~) or ~1 (for /)`},
		{"json", []string{"/a~"}, `json pointer "/a~" has a ~ that is not part of ~0 (for ~) or ~1 (for /)`},
	} {
		t.Run(fmt.Sprint(c.kind, c.fields), func(t *testing.T) {
			_, err := ingress.NewKeys(ingress.KeyRule{Kind: c.kind, Fields: c.fields})
			if want := "reading dedupe rule: " + c.want; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func BenchmarkKeys(b *testing.B) {
	body := []byte(`{"type":"invoice.paid","data":{"object":{"note":"` + strings.Repeat("x", kib) + `"}},"id":"evt_1"}`)
	h := http.Header{"X-Id": {"72d3162e-cc78-11e3-81ab-4c9367dc0958"}}
	for _, c := range []struct {
		kind   string
		fields []string
	}{{"signature", nil}, {"body", nil}, {"header", []string{"X-Id"}}, {"json", []string{"/id"}}, {"form", []string{"id"}}} {
		b.Run(c.kind, func(b *testing.B) {
			k := newKeys(b, c.kind, c.fields...)
			b.ReportAllocs()
			for b.Loop() {
				k.Of("sha256=058d37e5c6599b17f2260c5d771a650b4005c603b5b3f6e1134e79f85adacdea", "", h, body)
			}
		})
	}
	b.Run("json of 25 MiB", func(b *testing.B) {
		k := newKeys(b, "json", "/id")
		large := []byte(`{"x":[` + strings.Repeat(`{"name":"value","n":[1,2,3]},`, 25<<20/29) + `0],"id":1}`)
		b.SetBytes(int64(len(large)))
		for b.Loop() {
			k.Of("", "", nil, large)
		}
	})
}
