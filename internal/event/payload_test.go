package event

import (
	"net/http"
	"reflect"
	"testing"
)

func TestAPayloadComesBackAsItWas(t *testing.T) {
	for name, p := range map[string]Payload{
		"empty": {},
		"bytes that are no text, repeated and empty headers": {
			Method: "POST", Scheme: "https", Host: "hooks.example.test", URI: "/in?a=1&a=%20", ClientIP: "2001:db8::1",
			Headers: []Header{{"Accept", ""}, {"X-Twice", "a"}, {"X-Twice", "b"}}, Body: []byte("\x00\xff{\"a\":1.0}\n"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodePayload(p.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if got.Body == nil || string(got.Body) != string(p.Body) {
				t.Errorf("body %q, want %q", got.Body, p.Body)
			}
			got.Body, p.Body = nil, nil
			if len(got.Headers) == 0 {
				got.Headers = nil
			}
			if !reflect.DeepEqual(*got, p) {
				t.Errorf("payload %+v, want %+v", *got, p)
			}
		})
	}
}

func TestHeaderLinesLeaveOutWhatIsNotToBeKept(t *testing.T) {
	h := http.Header{"B": {"2", "1"}, "A": {"x"}, "Authorization": {"canary"}}
	want := []Header{{"A", "x"}, {"B", "2"}, {"B", "1"}}
	if got := HeaderLines(h, "Authorization"); !reflect.DeepEqual(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
}

func TestStatesKeepTheirNames(t *testing.T) {
	for _, s := range States() {
		if got, ok := ParseState(s.String()); !ok || got != s {
			t.Errorf("%v parses as %v, %v", s, got, ok)
		}
	}
	if _, ok := ParseState("unknown"); ok {
		t.Error("parsed a state that does not exist")
	}
}

func FuzzDecodePayload(f *testing.F) {
	whole := (&Payload{Method: "POST", Headers: []Header{{"A", "b"}}, Body: []byte("body")}).Encode()
	f.Add(whole)
	for i := range whole {
		f.Add(whole[:i])
	}
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePayload(b)
		if err != nil {
			return
		}
		again, err := DecodePayload(p.Encode())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q decodes to %+v, and that to %+v (%v)", b, p, again, err)
		}
	})
}
