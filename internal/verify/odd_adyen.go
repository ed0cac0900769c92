package verify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

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
