package verify_test

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// vector is one line of testdata/vectors.jsonl: a request and whether it is genuine. Those named "published:" come from
// the provider's documentation, its own test suite or an RFC.
type vector struct {
	Provider   string            `json:"provider"`
	Name       string            `json:"name"`
	Secret     string            `json:"secret"`
	Headers    map[string]string `json:"headers"`
	BodyBase64 string            `json:"body_base64"`
	Valid      bool              `json:"valid"`
	Extra      struct {
		Algorithm      string `json:"algorithm"`
		Encoding       string `json:"encoding"`
		SecretEncoding string `json:"secret_encoding"`
		Header         string `json:"header"`
	} `json:"extra"`
}

func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c vector
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Provider+"/"+c.Name, func(t *testing.T) {
			secret := c.Secret
			if c.Extra.SecretEncoding == "hex" {
				raw, err := hex.DecodeString(secret)
				if err != nil {
					t.Fatal(err)
				}
				secret = string(raw)
			}
			var o verify.Options
			if c.Provider == "hmac" {
				o = verify.Options{
					SignatureHeader: c.Extra.Header, Algorithm: c.Extra.Algorithm, Encoding: c.Extra.Encoding, PrefixSet: true,
				}
			}
			body, err := base64.StdEncoding.DecodeString(c.BodyBase64)
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			for name, value := range c.Headers {
				h.Set(name, value)
			}
			got := newVerifier(t, c.Provider, o, secret).Verify(&verify.Request{Header: h, Body: body}, time.Unix(0, 0))
			if got.OK != c.Valid {
				t.Errorf("got %+v, want valid %v", got, c.Valid)
			}
		})
		seen[fmt.Sprint(c.Provider, c.Valid)] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, p := range verify.Providers() {
		if !seen[p.ID+"true"] {
			t.Errorf("%s has no vector of a genuine request", p.ID)
		}
	}
}

func TestProvidersAreSortedAndFoundByTheirOwnIDs(t *testing.T) {
	all := verify.Providers()
	if !slices.IsSortedFunc(all, func(a, b verify.Provider) int { return strings.Compare(a.ID, b.ID) }) {
		t.Errorf("not sorted: %v", all)
	}
	for _, p := range all {
		if got, ok := verify.Lookup(p.ID); !ok || got != p {
			t.Errorf("Lookup(%q) = %+v, %v", p.ID, got, ok)
		}
		if !verify.Known(p.ID) {
			t.Errorf("%s is not known", p.ID)
		}
	}
}

func TestProviderFacts(t *testing.T) {
	for id, want := range map[string]verify.Provider{
		"github": {ID: "github", MaxBody: 25 << 20},
		"hmac":   {ID: "hmac", Generic: true},
	} {
		if got, ok := verify.Lookup(id); !ok || got != want {
			t.Errorf("Lookup(%q) = %+v, %v, want %+v", id, got, ok, want)
		}
	}
	for _, id := range []string{"", "GitHub", "git-hub", "none", "github "} {
		if verify.Known(id) {
			t.Errorf("%q is known", id)
		}
	}
}

func TestRequiresOnlyTheSignatureHeader(t *testing.T) {
	for _, c := range []struct {
		provider string
		options  verify.Options
		want     string
	}{
		{provider: "github", want: "X-Hub-Signature-256"},
		{provider: "hmac", want: "X-Signature"},
		{provider: "hmac", options: verify.Options{SignatureHeader: "x-my-SIG"}, want: "X-My-Sig"},
	} {
		v := newVerifier(t, c.provider, c.options, secret)
		if got := v.Requires(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s %+v: requires %q, want %q", c.provider, c.options, got, c.want)
		}
		if got := v.Carries(); len(got) != 0 {
			t.Errorf("%s: carries %q, but a signature is no secret", c.provider, got)
		}
	}
}

func TestEventFacts(t *testing.T) {
	given := func(typ, id string) http.Header {
		h := http.Header{}
		h.Set("X-GitHub-Event", typ)
		h.Set("X-GitHub-Delivery", id)
		return h
	}
	for _, c := range []struct {
		name, provider   string
		header           http.Header
		wantType, wantID string
	}{
		{"github", "github", given("push", "72d3162e-cc78"), "push", "72d3162e-cc78"},
		{"github without them", "github", http.Header{}, "", ""},
		{"too long to be an event type", "github", given(strings.Repeat("x", 257), "id"), "", "id"},
		{"as long as believed", "github", given("push", strings.Repeat("x", 256)), "push", strings.Repeat("x", 256)},
		{"not UTF-8", "github", given("push", "\xff"), "push", ""},
		{"hmac says nothing", "hmac", given("push", "72d3162e-cc78"), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			typ, id := newVerifier(t, c.provider, verify.Options{}, secret).EventFacts(c.header)
			if typ != c.wantType || id != c.wantID {
				t.Errorf("got %q, %q, want %q, %q", typ, id, c.wantType, c.wantID)
			}
		})
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct {
		provider string
		options  verify.Options
		secrets  []string
		want     string
	}{
		{"github", verify.Options{}, []string{"a", "b"}, "github (2 secrets)"},
		{"hmac", verify.Options{}, []string{"a"}, "hmac X-Signature sha256 hex (1 secret)"},
		{
			"hmac",
			verify.Options{SignatureHeader: "x-sig", Algorithm: "sha512", Encoding: "base64"},
			[]string{"a"},
			"hmac X-Sig sha512 base64 (1 secret)",
		},
	} {
		if got := newVerifier(t, c.provider, c.options, c.secrets...).String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestNoFormattingShowsASecret(t *testing.T) {
	const secret = "hunter2hunter2hunter2"
	v := newVerifier(t, "hmac", verify.Options{}, secret)
	check(v, "X-Signature", "sha256="+sigHex, body) // fills the pool
	key := []byte(secret)
	inDecimal := strings.Trim(fmt.Sprintf("%d", key), "[]")
	inGo := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", key), "[]byte{"), "}")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown := fmt.Sprintf(verb, v)
		for _, form := range []string{secret, hex.EncodeToString(key), inDecimal, inGo} {
			if strings.Contains(shown, form) {
				t.Errorf("%s shows the secret: %s", verb, shown)
			}
		}
	}
}

func TestNewRefusals(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		secrets        []string
		options        verify.Options
		want           string
	}{
		{
			"unknown provider", "gitub",
			[]string{secret},
			verify.Options{},
			`choosing verification: unknown provider "gitub"; known are github, hmac`,
		},
		{"no secret", "github", nil, verify.Options{}, "configuring provider github: it needs at least one secret"},
		{
			"empty secret", "github",
			[]string{secret, ""},
			verify.Options{},
			"configuring provider github: secret 2 is empty; is its variable or file set?",
		},
		{
			"header of a preset", "github",
			[]string{secret},
			verify.Options{SignatureHeader: "X-Sig"},
			"configuring provider github: it takes no signature_header, its scheme is fixed; use hmac for a scheme of your own",
		},
		{
			"prefix of a preset", "github",
			[]string{secret},
			verify.Options{PrefixSet: true},
			"configuring provider github: it takes no prefix, its scheme is fixed; use hmac for a scheme of your own",
		},
		{
			"algorithm of a preset", "github",
			[]string{secret},
			verify.Options{Algorithm: "sha256"},
			"configuring provider github: it takes no algorithm, its scheme is fixed; use hmac for a scheme of your own",
		},
		{
			"encoding of a preset", "github",
			[]string{secret},
			verify.Options{Encoding: "hex"},
			"configuring provider github: it takes no encoding, its scheme is fixed; use hmac for a scheme of your own",
		},
		{
			"header name", "hmac",
			[]string{secret},
			verify.Options{SignatureHeader: "X Sig"},
			`configuring provider hmac: signature_header "X Sig" is not a header name`,
		},
		{
			"algorithm", "hmac",
			[]string{secret},
			verify.Options{Algorithm: "md5"},
			`configuring provider hmac: unknown algorithm "md5"; choose from sha256, sha1, sha512`,
		},
		{
			"encoding", "hmac",
			[]string{secret},
			verify.Options{Encoding: "Hex"},
			`configuring provider hmac: unknown encoding "Hex"; choose from hex, base64`,
		},
		{
			"prefix with a line break", "hmac",
			[]string{secret},
			verify.Options{Prefix: "a\n"},
			`configuring provider hmac: prefix "a\n" cannot stand in a header`,
		},
		{
			"prefix with a leading blank", "hmac",
			[]string{secret},
			verify.Options{Prefix: " v1="},
			"configuring provider hmac: prefix begins with a blank, which HTTP takes off header values",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := verify.New(c.provider, c.secrets, c.options)
			if err == nil || err.Error() != c.want {
				t.Errorf("got error %v, want %s", err, c.want)
			}
			if v != nil {
				t.Error("a verifier came with the error")
			}
		})
	}
}
