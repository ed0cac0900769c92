package verify

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// decodeJSON reads a JSON body into values that can be changed, with numbers as they are written.
func decodeJSON(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("the body must be JSON: the provider's signature is a field of it")
	}
	return v, nil
}

// normaliseJSON writes the body as it is written again when a field is put in, so that the raw text of its other parts
// stays what was signed.
func normaliseJSON(r *Request) error {
	if len(bytes.TrimSpace(r.Body)) == 0 {
		r.Body = []byte("{}")
	}
	v, err := decodeJSON(r.Body)
	if err != nil {
		return err
	}
	if _, ok := v.(map[string]any); !ok {
		return errors.New("the body must be a JSON object: the provider's signature is a field of it")
	}
	r.Body, err = json.Marshal(v)
	return err
}

// putJSON sets the member at the pointer, whose parents must be objects or absent.
func putJSON(r *Request, p jsonptr.Pointer, text string) error {
	if err := normaliseJSON(r); err != nil {
		return err
	}
	v, err := decodeJSON(r.Body)
	if err != nil {
		return err
	}
	object, _ := v.(map[string]any)
	for _, name := range p[:len(p)-1] {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[p[len(p)-1]] = text
	r.Body, err = json.Marshal(v)
	return err
}

// putInEach sets a member of all objects in the array that the body has under a name. A body without one becomes its only
// item.
func putInEach(r *Request, array, name, text string) error {
	if err := normaliseJSON(r); err != nil {
		return err
	}
	v, err := decodeJSON(r.Body)
	if err != nil {
		return err
	}
	root, _ := v.(map[string]any)
	items, _ := root[array].([]any)
	if len(items) == 0 {
		items = []any{v}
		root = map[string]any{array: items}
	}
	for _, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("the items of %s must be JSON objects: the token is a field of each", array)
		}
		object[name] = text
	}
	r.Body, err = json.Marshal(root)
	return err
}

// Bodies of the shapes that providers send, made of any event.

func shapeForm(field string, encode func(body []byte) string) func(r *Request) {
	return func(r *Request) {
		if len(formValues(r.Body, field)) == 0 {
			r.Body = []byte(url.QueryEscape(field) + "=" + url.QueryEscape(encode(r.Body)))
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
}

var (
	shapeBraintree = shapeForm("bt_payload", func(body []byte) string { return base64.StdEncoding.EncodeToString(body) + "\n" })
	shapeMandrill  = shapeForm("mandrill_events", func(body []byte) string { return "[" + string(body) + "]" })
	shapePaddle    = shapeForm("alert_name", func([]byte) string { return "test" })
)

// shapeTreezor puts the event where Treezor's signature covers it.
func shapeTreezor(r *Request) { wrapJSON(r, "webhook", "object_payload") }

func shapeBitso(r *Request) { wrapJSON(r, "event", "payload") }

// wrapJSON puts an event without a type into the field that is signed, and gives that field to one that has a type only.
func wrapJSON(r *Request, kind, field string) {
	if !json.Valid(r.Body) {
		return
	}
	if textAt(jsonptr.Pointer{kind}, r.Body) == "" {
		r.Body = []byte(`{"` + kind + `":"test","` + field + `":` + string(r.Body) + `}`)
	}
	if _, ok := (jsonptr.Pointer{field}).Find(r.Body); !ok {
		_ = putJSON(r, jsonptr.Pointer{field}, "test") // a body that is no object is refused when it is signed
	}
}

// shapeMailgun gives each event a token of its own, which is accepted once.
func shapeMailgun(r *Request) {
	token := mustField("/signature/token")
	if json.Valid(r.Body) && textAt(token.path, r.Body) == "" {
		sum := sha256.Sum256(r.Body)
		_ = putJSON(r, token.path, hexEncoding.encode(sum[:])[:50]) // a body that is no object is refused when it is signed
	}
}

// shapeTwilio covers a body that is no form by a digest in the URL.
func shapeTwilio(r *Request) {
	if len(r.Body) == 0 || strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return
	}
	sum := sha256.Sum256(r.Body)
	f := field{kind: queryField, name: "bodySHA256"}
	_ = f.put(r, hexEncoding.encode(sum[:]), false) // a query parameter can always be put
}

func (s *reshaped) sign(r *Request, w *signWith) error {
	inner, ok := s.checker.(signing)
	if !ok {
		return errors.New("there is nothing to sign")
	}
	return inner.sign(r, w)
}

func (j *jsonOrForm) sign(r *Request, w *signWith) error {
	s, ok := j.inJSON.(signing)
	if !ok {
		return errors.New("there is nothing to sign")
	}
	return s.sign(r, w)
}

// dropboxSignChecker signs the event and then puts it into the form.
type dropboxSignChecker struct{ reshaped }

func (d *dropboxSignChecker) sign(r *Request, w *signWith) error {
	if err := d.reshaped.sign(r, w); err != nil {
		return err
	}
	r.Body = []byte("json=" + url.QueryEscape(string(r.Body)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return nil
}

func (a *adyenChecker) sign(r *Request, _ *signWith) error {
	if items, reason := itemsAt(r.Body, adyenItems); reason != "" || len(items) == 0 {
		r.Body = []byte(`{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":"test","merchantAccountCode":"test",` +
			`"merchantReference":"test","amount":{"value":1000,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true"}}]}`)
	}
	v, err := decodeJSON(r.Body)
	if err != nil {
		return err
	}
	root, _ := v.(map[string]any)
	items, _ := root["notificationItems"].([]any)
	for _, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, a.keys()[0])
		mac.Write(adyenMessage(raw))
		outer, _ := item.(map[string]any)
		inner, ok := outer["NotificationRequestItem"].(map[string]any)
		if !ok {
			return errors.New("an item has no NotificationRequestItem")
		}
		data, ok := inner["additionalData"].(map[string]any)
		if !ok {
			data = map[string]any{}
			inner["additionalData"] = data
		}
		data["hmacSignature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	r.Body, err = json.Marshal(v)
	return err
}

// sign makes a notification of the body.
func (s *snsChecker) sign(r *Request, w *signWith) error {
	m := map[string]string{
		"Type": "Notification", "MessageId": randomHex(16), "TopicArn": s.topics()[0], "Message": string(r.Body),
		"Timestamp": w.now.UTC().Format("2006-01-02T15:04:05.000Z"), "SignatureVersion": "2",
		"SigningCertURL": "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-test.pem",
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	message, reason := snsMessage(claims{body})
	if reason != "" {
		return errors.New("the message lacks a field")
	}
	sig, err := w.signPublic(rsaSHA256, message)
	if err != nil {
		return err
	}
	m["Signature"] = base64.StdEncoding.EncodeToString(sig)
	r.Body, err = json.Marshal(m)
	r.Header.Set("X-Amz-Sns-Message-Type", "Notification")
	r.Header.Set("Content-Type", "text/plain; charset=UTF-8")
	return err
}

func (p *paypalChecker) sign(r *Request, w *signWith) error {
	id, sent := randomHex(16), rfc3339.write(w.now)
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(r.Body)), 10)
	sig, err := w.signPublic(rsaSHA256, []byte(id+"|"+sent+"|"+p.ids()[0]+"|"+sum))
	if err != nil {
		return err
	}
	for i, value := range []string{id, sent, base64.StdEncoding.EncodeToString(sig), "https://api.paypal.com/v1/notifications/certs/CERT-test", "SHA256withRSA"} {
		r.Header.Set(paypalHeaders[i], value)
	}
	return nil
}
