package verify

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// handshake is a request by which a provider tests an endpoint. It is answered and never stored.
type handshake struct {
	method string
	says   string // for documentation
	// signed handshakes are answered only if they verify like a delivery; others to anybody.
	signed bool
	// may reports, by its head alone, whether a request can be an unsigned handshake; nil for every one with the method.
	may func(r *Request) bool
	// answer is false for a request that is a delivery after all.
	answer func(h *hand) (Answer, bool)
}

// hand is a handshake request with what may be needed to answer it.
type hand struct {
	ctx context.Context //nolint:containedctx // it lives as long as the one call that it is made for
	v   *Verifier
	r   *Request
	doc []byte // the body as JSON, nil when it is none
	// secret is the index of the secret that proved the request.
	secret int
}

// maxEcho bounds what is sent back to whoever asks.
const maxEcho = 1024

// Handshake answers a request by which the provider tests the endpoint; it is false for deliveries. It is to be asked
// twice: before Verify with a zero verdict, for handshakes that nothing signs, and with the verdict of Verify for those
// that must be signed. An answer never quotes more than 1 KiB of the request, and never as HTML.
func (v *Verifier) Handshake(ctx context.Context, r *Request, verdict Verdict) (Answer, bool) {
	for i := range v.row.handshakes {
		shake := &v.row.handshakes[i]
		if shake.method != r.Method || !shake.due(r, verdict) {
			continue
		}
		h := &hand{ctx: ctx, v: v, r: r, secret: verdict.Secret}
		if r.Method == http.MethodPost {
			if doc, ok := jsonptr.Document(r.Body); ok {
				h.doc = doc
			}
		}
		if answer, ok := shake.answer(h); ok {
			return answer, true
		}
	}
	return Answer{}, false
}

// due reports whether it is the handshake's turn: signed ones come after verification, others before.
func (s *handshake) due(r *Request, verdict Verdict) bool {
	if !s.signed {
		return !verdict.OK && s.maybe(r)
	}
	return verdict.OK
}

func (s *handshake) maybe(r *Request) bool {
	return !s.signed && s.method == r.Method && (s.may == nil || s.may(r))
}

// Handshakes reports whether any handshake uses the method, so that requests with it are worth a look.
func (v *Verifier) Handshakes(method string) bool {
	for i := range v.row.handshakes {
		if v.row.handshakes[i].method == method {
			return true
		}
	}
	return false
}

func (h *hand) query(name string) (string, bool) {
	values := queryValues(h.r.URL, name)
	return strings.Join(values, ""), len(values) == 1
}

func (h *hand) json(pointer string) string {
	if h.doc == nil {
		return ""
	}
	f := mustField(pointer)
	return textAt(f.path, h.doc)
}

func (h *hand) header(name string) string {
	value, _ := one(h.r.Header[http.CanonicalHeaderKey(name)])
	return value
}

// key is the secret that proved the request, else the first one.
func (h *hand) key() string {
	if h.secret < h.v.secrets {
		return h.v.secretAt(h.secret)
	}
	return ""
}

// echoable text can go back to a stranger: it is short, and printable text.
func echoable(s string) bool {
	return s != "" && len(s) <= maxEcho && utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// tokenLike text is no JSON and needs no escape. Where a challenge is answered with its HMAC under the secret that also
// signs bodies, a stranger must not get a signature for a body of his making. It can be a form or a number, though, so no
// delivery may be one either; see noChallenge.
func tokenLike(s string) bool {
	return s != "" && len(s) <= maxEcho && !strings.ContainsFunc(s, func(c rune) bool {
		return c >= utf8.RuneSelf || !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=", c)
	})
}

// noChallenge refuses a body that could be a challenge that was answered with its HMAC.
func noChallenge(in *input) Reason {
	if len(in.r.Body) <= maxEcho && tokenLike(string(in.r.Body)) {
		return ReasonMalformed
	}
	return ""
}

// isBraintreeChallenge is for what is answered with its HMAC, and so must never be taken for a payload.
func isBraintreeChallenge(s string) bool {
	_, isHex := decodeHex(nil, s)
	return isHex && s == strings.ToLower(s) && len(s) >= 20 && len(s) <= 32
}

var nosniff = map[string]string{"X-Content-Type-Options": "nosniff"}

// echo answers with the text as it is, where a browser must not take it for a page.
func echo(text string) (Answer, bool) {
	if !echoable(text) {
		return badHandshake, true
	}
	return Answer{Status: http.StatusOK, ContentType: "text/plain", Body: text, Headers: nosniff}, true
}

func jsonAnswer(body string) (Answer, bool) {
	return Answer{Status: http.StatusOK, ContentType: "application/json", Body: body, Headers: nosniff}, true
}

var (
	badHandshake = Answer{Status: http.StatusBadRequest}
	wrongToken   = Answer{Status: http.StatusForbidden}
	emptyOK      = Answer{Status: http.StatusOK}
)

// onlyWith is for handshakes that a header marks; without marks it is not one.
func onlyWith(header string, without ...string) func(r *Request) bool {
	return func(r *Request) bool {
		for _, name := range without {
			if len(r.Header[http.CanonicalHeaderKey(name)]) > 0 {
				return false
			}
		}
		return header == "" || len(r.Header[http.CanonicalHeaderKey(header)]) == 1
	}
}

// tokenMatches reports whether the request knows the token that is configured, if one is.
func (h *hand) tokenMatches(given string) bool {
	want := h.v.hidden("verify_token")
	return want == "" || equalText(want, given)
}
