package verify_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// vector is one line of testdata/vectors.jsonl: a request, and whether it is genuine.
type vector struct {
	Provider   string            `json:"provider"`
	Name       string            `json:"name"`
	Secret     string            `json:"secret"`
	Method     string            `json:"method"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"`
	BodyBase64 string            `json:"body_base64"`
	NowUnix    int64             `json:"now_unix"`
	Valid      bool              `json:"valid"`
	Extra      struct {
		Kind                string            `json:"kind"`
		ResponseStatus      int               `json:"response_status"`
		ResponseBody        string            `json:"response_body"`
		ResponseContentType string            `json:"response_content_type"`
		ResponseHeaders     map[string]string `json:"response_headers"`
		Algorithm           string            `json:"algorithm"`
		Encoding            string            `json:"encoding"`
		SecretEncoding      string            `json:"secret_encoding"`
		Header              string            `json:"header"`
		Audience            string            `json:"audience"`
		ServiceAccount      string            `json:"service_account"`
		SigningCertPEM      string            `json:"signing_cert_pem"`
		Options             verify.Options    `json:"options"`
	} `json:"extra"`
}

func readVectors(t testing.TB) []*vector { return readVectorFile(t, "testdata/vectors.jsonl") }

func readVectorFile(t testing.TB, name string) []*vector {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []*vector
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		v := &vector{}
		if err := json.Unmarshal(lines.Bytes(), v); err != nil {
			t.Fatalf("line %d: %v", len(vectors)+1, err)
		}
		vectors = append(vectors, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return vectors
}

func (v *vector) request(t testing.TB) *verify.Request {
	t.Helper()
	body, err := base64.StdEncoding.DecodeString(v.BodyBase64)
	if err != nil {
		t.Fatal(err)
	}
	r := &verify.Request{Method: v.Method, URL: v.URL, Header: http.Header{}, Body: body}
	for name, value := range v.Headers {
		r.Header.Set(name, value)
	}
	return r
}

func (v *vector) options() verify.Options {
	o := verify.Options{}
	maps.Copy(o, v.Extra.Options)
	for word, value := range map[string]string{
		"algorithm": v.Extra.Algorithm, "encoding": v.Extra.Encoding, "secret_encoding": v.Extra.SecretEncoding, "header": v.Extra.Header,
		"audience": v.Extra.Audience, "service_account": v.Extra.ServiceAccount, "certificate": v.Extra.SigningCertPEM,
	} {
		if value != "" {
			o[word] = value
		}
	}
	// The option is only for those who want one algorithm; without it the vectors pass as well.
	if v.Provider == "cloudinary" {
		delete(o, "algorithm")
	}
	return o
}

func (v *vector) now() time.Time { return time.Unix(v.NowUnix, 0) }

func (v *vector) verifier(t testing.TB) *verify.Verifier {
	t.Helper()
	options := v.options()
	if v.Provider == "google-pubsub" && options["audience"] == "" {
		options["audience"], options["service_account"] = "https://hooks.example.test/in", "push@p.iam.gserviceaccount.com"
	}
	secret := v.Secret
	if v.Provider == "discord" && secret == "" {
		secret = publicOf(t, testKeys().private[0])
	}
	verifier, err := verify.New(v.Provider, []string{secret}, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

// Published examples, and requests that providers' own libraries signed or refused.
func TestVectors(t *testing.T) {
	vectors := readVectors(t)
	if len(vectors) < 1075 {
		t.Errorf("%d vectors, want at least 1075", len(vectors))
	}
	runVectors(t, vectors)
}

// Requests that another program, in another language, made from the description of each scheme, above all for the
// providers of which nothing is published, and examples of further libraries.
func TestMoreVectors(t *testing.T) {
	more := readVectorFile(t, "testdata/vectors_more.jsonl")
	runVectors(t, more)
	have := map[string]bool{}
	for _, v := range append(readVectors(t), more...) {
		have[v.Provider] = true
	}
	for _, p := range verify.Providers() {
		// What ShipEngine signs is not known for sure.
		if p.Proves && !have[p.ID] && p.ID != "shipengine" {
			t.Errorf("%s has no vector", p.ID)
		}
	}
}

func runVectors(t *testing.T, vectors []*vector) {
	t.Helper()
	for _, v := range vectors {
		t.Run(v.Provider+"/"+v.Name, func(t *testing.T) {
			verifier, r := v.verifier(t), v.request(t)
			if v.Extra.Kind == "handshake" {
				// Discord's example leaves the signature out that it demands.
				if v.Provider == "discord" && v.Secret == "" {
					if err := verify.Sign("discord", verify.SignKeys{Private: testKeys().private[0]}, nil, r, v.now()); err != nil {
						t.Fatal(err)
					}
				}
				if err := v.checkHandshake(shake(t, verifier, r, v.now())); err != nil {
					t.Error(err)
				}
				return
			}
			got := verifier.Verify(t.Context(), r, v.now())
			if got.OK != v.Valid {
				t.Errorf("got %+v, want OK %v", got, v.Valid)
			}
			if got.OK == (got.Reason != "") {
				t.Errorf("got %+v: a reason belongs to refusals only", got)
			}
		})
	}
}

func (v *vector) checkHandshake(a verify.Answer, ok bool) error {
	switch {
	case !ok:
		return errors.New("the handshake was not answered")
	case a.Status != v.Extra.ResponseStatus:
		return fmt.Errorf("status %d, want %d", a.Status, v.Extra.ResponseStatus)
	case a.Body != v.Extra.ResponseBody:
		return fmt.Errorf("body %q, want %q", a.Body, v.Extra.ResponseBody)
	case v.Extra.ResponseContentType != "" && !strings.HasPrefix(a.ContentType, v.Extra.ResponseContentType):
		return fmt.Errorf("content type %q, want %q", a.ContentType, v.Extra.ResponseContentType)
	}
	for name, want := range v.Extra.ResponseHeaders {
		if a.Headers[name] != want {
			return fmt.Errorf("header %s is %q, want %q", name, a.Headers[name], want)
		}
	}
	return nil
}

// shake asks for a handshake as a server does.
func shake(t *testing.T, v *verify.Verifier, r *verify.Request, now time.Time) (verify.Answer, bool) {
	t.Helper()
	if a, ok := v.Handshake(t.Context(), r, verify.Verdict{}); ok {
		return a, true
	}
	verdict := v.Verify(t.Context(), r, now)
	if !verdict.OK {
		return verify.Answer{}, false
	}
	return v.Handshake(t.Context(), r, verdict)
}
