package verify_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// FuzzVerify changes genuine requests of every provider: nothing may panic, and what is still accepted must be what was
// signed, as far as the provider's signature covers it.
func FuzzVerify(f *testing.F) {
	var all []*genuine
	for _, p := range verify.Providers() {
		if g, ok := makeGenuine(f, p); ok {
			all = append(all, g)
		}
	}
	for i := range all {
		f.Add(uint16(i), "", "", []byte(someBody), uint8(0))
		f.Add(uint16(i), "x", "sha256=00,v1=00 v1,AAAA t=1,v0=é\x00", []byte("a=b&payload=%7B%7D&json={}"), uint8(1))
		f.Add(uint16(i), "t=1767225600,v1=", strings.Repeat("v1,", 300), []byte(`[{"id":1}]`), uint8(2))
	}
	f.Fuzz(func(t *testing.T, which uint16, prefix, value string, body []byte, how uint8) {
		g := all[int(which)%len(all)]
		r := g.clone()
		for i, name := range g.added {
			was := r.Header.Get(name)
			switch (int(how) + i) % 5 {
			case 0:
				r.Header.Set(name, prefix+was)
			case 1:
				r.Header.Set(name, value)
			case 2:
				r.Header[name] = []string{was, value}
			case 3:
				r.Header.Set(name, was+value)
			}
		}
		if how%2 == 1 {
			r.Body = body
		}
		if how%3 == 1 {
			r.URL = "https://" + value
		}
		if how%7 == 1 {
			r.Method = http.MethodGet
		}
		got := g.verifier.Verify(t.Context(), r, someTime)
		if got.OK != (got.Reason == "") {
			t.Fatalf("%s: got %+v", g.provider.ID, got)
		}
		if got.OK && g.provider.CoversBody && g.provider.Family != verify.FamilyFields && string(r.Body) != string(g.request.Body) {
			t.Fatalf("%s: a forged body is accepted", g.provider.ID)
		}
		shake(t, g.verifier, r, someTime)
		g.verifier.Lacks(r)
		g.verifier.EventFacts(r)
		g.verifier.SignedHash(r, got, someTime)
		if how == 9 {
			g.verifier.Explain(t.Context(), r, someTime, nil)
		}
	})
}

// FuzzTemplate feeds option values that a user may write.
func FuzzTemplate(f *testing.F) {
	f.Add("{sig.timestamp}.{sig.body}", "t", "v1", "X-Time")
	f.Add("{sig.json./a/b}{sig.body}{sig.header.X}", "", "", "")
	f.Add("{sig.", "=", ",", "\x00")
	f.Fuzz(func(t *testing.T, template, timeKey, sigKey, header string) {
		o := verify.Options{}
		for word, value := range map[string]string{"template": template, "timestamp_key": timeKey, "signature_key": sigKey, "timestamp_header": header} {
			if value != "" {
				o[word] = value
			}
		}
		v, err := verify.New("hmac", []string{secret}, o, nil)
		if err != nil {
			return
		}
		r := post(someBody)
		if err := verify.Sign("hmac", verify.SignKeys{Secret: secret}, o, r, someTime); err != nil {
			return
		}
		got := v.Verify(t.Context(), r, someTime)
		forged := *r
		forged.Body = append([]byte("x"), r.Body...)
		if got.OK && v.Verify(t.Context(), &forged, someTime).OK {
			t.Fatalf("%v: a forged body is accepted", o)
		}
	})
}
