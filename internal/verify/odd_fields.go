package verify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

func secretError(i int, problem string) error { return fmt.Errorf("secret %d %s", i+1, problem) }

// mailgunScheme signs a time and a token, in a JSON object or in form fields.
type mailgunScheme struct{}

var (
	mailgunJSON = &signed{sig: "/signature/signature", ts: "/signature/timestamp", message: []string{"{sig.timestamp}{sig.json./signature/token}"}, shape: shapeMailgun}
	mailgunForm = &signed{sig: "form:signature", ts: "form:timestamp", message: []string{"{sig.timestamp}{sig.form.token}"}}
)

func (mailgunScheme) compile(c *compilation) (checker, error) {
	inJSON, err := mailgunJSON.compile(c)
	if err != nil {
		return nil, err
	}
	inForm, err := mailgunForm.compile(c)
	if err != nil {
		return nil, err
	}
	return &reshaped{&jsonOrForm{inJSON: inJSON, inForm: inForm}, multipartToForm}, nil
}

func (mailgunScheme) describe(p *Provider) { mailgunJSON.describe(p) }

type jsonOrForm struct{ inJSON, inForm checker }

func (j *jsonOrForm) of(r *Request) checker {
	if body := bytes.TrimLeft(r.Body, " \t\r\n"); len(body) > 0 && body[0] == '{' {
		return j.inJSON
	}
	return j.inForm
}

func (j *jsonOrForm) check(ctx context.Context, r *Request, now time.Time) Verdict {
	return j.of(r).check(ctx, r, now)
}

func (j *jsonOrForm) signedHash(r *Request, v Verdict, now time.Time) ([sha256.Size]byte, bool) {
	if c, ok := j.of(r).(covering); ok {
		return c.signedHash(r, v, now)
	}
	return [sha256.Size]byte{}, false
}

// dropboxSignScheme signs the time and the type of the event in the field json of a form.
type dropboxSignScheme struct{}

var dropboxSignSigned = &signed{sig: "/event/event_hash", message: []string{"{sig.json./event/event_time}{sig.json./event/event_type}"}}

func (dropboxSignScheme) compile(c *compilation) (checker, error) {
	inner, err := dropboxSignSigned.compile(c)
	return &dropboxSignChecker{reshaped{inner, dropboxSignJSON}}, err
}

func (dropboxSignScheme) describe(p *Provider) { p.SignatureIn = "form:json " + dropboxSignSigned.sig }

func dropboxSignJSON(r *Request) *Request {
	var values []string
	if pairs, ok := multipartPairs(r); ok {
		for _, p := range pairs {
			if p.key == "json" {
				values = append(values, p.value)
			}
		}
	} else {
		values = formValues(r.Body, "json")
	}
	other := *r
	other.Body = nil
	// Of two such fields we could not know which one the application reads.
	if len(values) == 1 {
		other.Body = []byte(values[0])
	}
	return &other
}

// adyenScheme signs eight fields of each item of a batch. All items must be genuine.
type adyenScheme struct{}

type adyenChecker struct{ keys func() [][]byte }

func (adyenScheme) compile(c *compilation) (checker, error) {
	keys := make([][]byte, len(c.secrets))
	for i, s := range c.secrets {
		k, err := hexKey.read(s)
		if err != nil {
			return nil, secretError(i, err.Error())
		}
		keys[i] = k
	}
	return &adyenChecker{keys: func() [][]byte { return keys }}, nil
}

func (adyenScheme) describe(p *Provider) {
	p.SignatureIn = "/notificationItems/*/NotificationRequestItem/additionalData/hmacSignature"
}

var (
	adyenItems     = mustField("/notificationItems").path
	adyenSignature = mustField("/NotificationRequestItem/additionalData/hmacSignature").path
	adyenFields    = []jsonptr.Pointer{
		mustField("/NotificationRequestItem/pspReference").path, mustField("/NotificationRequestItem/originalReference").path,
		mustField("/NotificationRequestItem/merchantAccountCode").path, mustField("/NotificationRequestItem/merchantReference").path,
		mustField("/NotificationRequestItem/amount/value").path, mustField("/NotificationRequestItem/amount/currency").path,
		mustField("/NotificationRequestItem/eventCode").path, mustField("/NotificationRequestItem/success").path,
	}
)

func (a *adyenChecker) check(_ context.Context, r *Request, _ time.Time) Verdict {
	items, reason := itemsAt(r.Body, adyenItems)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	verdict := Verdict{Reason: ReasonMissing}
	for _, item := range items {
		if verdict = a.checkItem(item); !verdict.OK {
			return verdict
		}
	}
	// There are as many signatures as items, so the body stands for them.
	verdict.Signature = covered("adyen", r.Body)
	return verdict
}

// adyenMessage joins the fields. It has no escapes: Adyen has none either.
func adyenMessage(item []byte) []byte {
	var message []byte
	for i, p := range adyenFields {
		if i > 0 {
			message = append(message, ':')
		}
		if raw, ok := p.Find(item); ok {
			text, _ := jsonptr.Decoded(raw)
			message = append(message, text...)
		}
	}
	return message
}

func (a *adyenChecker) checkItem(item []byte) Verdict {
	text := textAt(adyenSignature, item)
	if text == "" {
		return Verdict{Reason: ReasonMissing}
	}
	given, ok := base64Encoding.decode(nil, text)
	if !ok || len(given) != sha256.Size {
		return Verdict{Reason: ReasonMalformed}
	}
	message, match := adyenMessage(item), -1
	keys := a.keys()
	for i := len(keys) - 1; i >= 0; i-- {
		mac := hmac.New(sha256.New, keys[i])
		mac.Write(message)
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(mac.Sum(nil), given), i, match)
	}
	if match < 0 {
		return Verdict{Reason: ReasonNoMatch}
	}
	return Verdict{OK: true, Secret: match}
}

// braintreeScheme signs a payload within a form; the signature names the public key.
type braintreeScheme struct{}

func (braintreeScheme) signed(public string) *signed {
	return &signed{
		sig: "form:bt_signature", alg: hmacSHA1, key: sha1Key, message: []string{"{sig.form.bt_payload}", "{sig.form.bt_payload}\n"},
		prepare: braintreePayload, shape: shapeBraintree,
		parse: func(in *input, value string) Reason {
			for item := range strings.SplitSeq(value, "&") {
				if key, text, ok := strings.Cut(item, "|"); ok && key == public && len(in.sigs) < maxSignatures {
					in.sigs = append(in.sigs, text)
				}
			}
			return nothingFound(in, strings.Contains(value, "|"))
		},
		render: func(_ *input, signature string) string { return public + "|" + signature },
	}
}

func (b braintreeScheme) compile(c *compilation) (checker, error) {
	out := &anyOf{}
	for i, both := range c.secrets {
		public, private, ok := strings.Cut(both, ":")
		if !ok || public == "" || private == "" {
			return nil, secretError(i, "is not public:private, the two keys with a colon between")
		}
		checker, err := b.signed(public).compile(c.with([]string{private}))
		if err != nil {
			return nil, err
		}
		out.add(checker, i)
	}
	return out, nil
}

func (b braintreeScheme) describe(p *Provider) { b.signed("").describe(p) }

func braintreePayload(in *input) Reason {
	payload, reason := one(formValues(in.r.Body, "bt_payload"))
	if reason != "" {
		return reason
	}
	if isBraintreeChallenge(payload) || strings.ContainsFunc(payload, func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=/\n", c)
	}) {
		return ReasonMalformed
	}
	return ""
}

// paddleClassicScheme signs PHP's serialization of all other form fields.
type paddleClassicScheme struct{}

var paddleClassicSigned = &signed{sig: "form:p_signature", alg: rsaSHA1, enc: base64Encoding, message: []string{"{sig.built}"}, prepare: phpSerialize, shape: shapePaddle}

func (paddleClassicScheme) compile(c *compilation) (checker, error) {
	return paddleClassicSigned.compile(c)
}
func (paddleClassicScheme) describe(p *Provider) { paddleClassicSigned.describe(p) }

func phpSerialize(in *input) Reason {
	pairs, ok := formPairs(in.r.Body)
	if !ok {
		return ReasonMalformed
	}
	pairs = slices.DeleteFunc(pairs, func(p pair) bool { return p.key == "p_signature" })
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	for i := 1; i < len(pairs); i++ {
		if pairs[i].key == pairs[i-1].key {
			return ReasonRepeated
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "a:%d:{", len(pairs))
	for _, p := range pairs {
		fmt.Fprintf(&b, `s:%d:"%s";s:%d:"%s";`, len(p.key), p.key, len(p.value), p.value)
	}
	b.WriteByte('}')
	in.built = []byte(b.String())
	return ""
}

// cloudinaryScheme is a plain digest, of which the length tells the algorithm unless an option does.
type cloudinaryScheme struct{}

// Cloudinary does not bound the time ahead, and its own examples are far ahead.
var cloudinarySigned = signed{
	sig: "X-Cld-Signature", ts: "X-Cld-Timestamp", unit: eitherUnit, alg: plainSHA1, message: []string{"{sig.body}{sig.timestamp}{sig.secret}"},
	window: window{past: 2 * time.Hour, future: unbounded},
}

func (cloudinaryScheme) compile(c *compilation) (checker, error) {
	s := cloudinarySigned
	switch c.options["algorithm"] {
	case "sha1":
	case "sha256":
		s.alg = plainSHA256
	case "":
		s.parse = func(in *input, value string) Reason {
			if in.alg = plainSHA1; len(value) == 2*sha256.Size {
				in.alg = plainSHA256
			}
			in.sigs = append(in.sigs, value)
			return ""
		}
	default:
		return nil, fmt.Errorf("algorithm %s is not one of Cloudinary's; choose from sha1, sha256", c.options["algorithm"])
	}
	return s.compile(c)
}

func (cloudinaryScheme) describe(p *Provider) { cloudinarySigned.describe(p) }

// treezorPayload builds object_payload as PHP encodes JSON: without blanks, with / and all that is not ASCII escaped.
func treezorPayload(in *input) Reason {
	reason := compactJSON("/object_payload")(in)
	in.built = escapeAsPHP(in.built)
	return reason
}

// compactJSON builds the JSON text at a place without the blanks that stand around it on the wire.
func compactJSON(place string) func(in *input) Reason {
	f := mustField(place)
	return func(in *input) Reason {
		doc, ok := jsonptr.Document(in.r.Body)
		if !ok {
			return ReasonMissing
		}
		raw, ok := f.path.Find(doc)
		if !ok {
			return ReasonMissing
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return ReasonMalformed
		}
		in.built = compact.Bytes()
		return ""
	}
}

// escapeAsPHP escapes what json_encode does in JSON text. Unlike Box's libraries it tells a slash behind an escaped
// backslash from an escaped slash, and leaves DEL alone.
func escapeAsPHP(text []byte) []byte {
	out := make([]byte, 0, len(text)+16)
	escaped := false
	for _, c := range string(text) {
		switch {
		case c == '/' && !escaped:
			out = append(out, '\\', '/')
		case c < utf8.RuneSelf:
			out = append(out, byte(c)) //nolint:gosec // it is below 0x80
		case c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			out = appendUnicodeEscape(appendUnicodeEscape(out, hi), lo)
		default:
			out = appendUnicodeEscape(out, c)
		}
		escaped = c == '\\' && !escaped
	}
	return out
}

// quoted is a JSON string.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}
