package jsonptr_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

func find(t *testing.T, doc, pointer string) (string, bool) {
	t.Helper()
	p, err := jsonptr.Parse(pointer)
	if err != nil {
		t.Fatal(err)
	}
	body, ok := jsonptr.Document([]byte(doc))
	if !ok {
		t.Fatalf("%s is no document", doc)
	}
	raw, ok := p.Find(body)
	return string(raw), ok
}

// The example of RFC 6901, section 5.
func TestRFC6901(t *testing.T) {
	const doc = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}`
	for pointer, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8", //nolint:gocritic // the examples of RFC 6901
	} {
		if got, ok := find(t, doc, pointer); !ok || got != want {
			t.Errorf("%s: got %s, %v, want %s", pointer, got, ok, want)
		}
	}
	for _, pointer := range []string{"/bar", "/foo/2", "/foo/00", "/foo/-", "/foo/0/x", "/FOO"} {
		if got, ok := find(t, doc, pointer); ok {
			t.Errorf("%s: got %s", pointer, got)
		}
	}
}

func TestPointerErrors(t *testing.T) {
	for _, s := range []string{"", "id", "/a~", "/a~2b"} {
		if _, err := jsonptr.Parse(s); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}

func TestOfMembersWithOneNameTheLastCounts(t *testing.T) {
	if got, _ := find(t, `{"id":1,"ID":2,"\u0069d":3,"Id":4}`, "/id"); got != "3" {
		t.Errorf("got %s", got)
	}
}

func TestTexts(t *testing.T) {
	for raw, want := range map[string]string{`"a"`: "a", `"a\u00e9\n"`: "aé\n", "12e3": "12e3", "true": "true", `""`: ""} {
		if got, ok := jsonptr.Text([]byte(raw)); !ok || string(got) != want {
			t.Errorf("%s: got %q, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{"null", "{}", "[]", `"\ud800"`, "\"\xff\"", "\"\ufffd\""} {
		if got, ok := jsonptr.Text([]byte(raw)); ok {
			t.Errorf("%s: got %q", raw, got)
		}
	}
	if got, ok := jsonptr.Decoded([]byte("\"\ufffd\"")); !ok || string(got) != "\ufffd" {
		t.Errorf("decoded: got %q, %v", got, ok)
	}
}

func TestItems(t *testing.T) {
	for raw, want := range map[string]string{`[]`: "", `[1]`: "1", ` [ {"a":[1,2]} , "]" ]`: `{"a":[1,2]}|"]"`} { //nolint:gocritic // white space is what is tested
		items, ok := jsonptr.Items([]byte(strings.TrimSpace(raw)), 2)
		if got := string(bytes.Join(items, []byte("|"))); !ok || got != want {
			t.Errorf("%s: got %s, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{`{}`, `"[]"`, `[1,2,3]`} {
		if _, ok := jsonptr.Items([]byte(raw), 2); ok {
			t.Errorf("%s: accepted", raw)
		}
	}
}

// FuzzFind holds the reader against encoding/json.
func FuzzFind(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x",null,{"c":true}]},"a~b":2}`), "a", uint8(1))
	f.Add([]byte("\xef\xbb\xbf[[],{},\"\\\"\"]"), "", uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, name string, index uint8) {
		doc, ok := jsonptr.Document(body)
		if !ok {
			return
		}
		var v any
		if err := json.Unmarshal(doc, &v); err != nil {
			return
		}
		var want any
		found := false
		key := name
		switch v := v.(type) {
		case map[string]any:
			want, found = v[name]
		case []any:
			key = strconv.Itoa(int(index))
			if found = int(index) < len(v); found {
				want = v[index]
			}
		}
		raw, ok := jsonptr.Pointer{key}.Find(doc)
		if strings.ContainsRune(name, '\ufffd') {
			return // encoding/json takes what is not Unicode for it
		}
		if ok != found {
			t.Fatalf("%s at %q: found %v, want %v", doc, key, ok, found)
		}
		if !ok {
			return
		}
		var got any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s at %q is %s: %v", doc, key, raw, err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Fatalf("%s at %q: got %s, want %s", doc, key, a, b)
		}
	})
}
