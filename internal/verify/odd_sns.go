package verify

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// snsScheme signs fields of the JSON body.
type snsScheme struct{}

type snsChecker struct {
	topics func() []string
	certs  *certificates
}

var snsHost = regexp.MustCompile(`^sns\.[a-zA-Z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)

func (snsScheme) compile(c *compilation) (checker, error) {
	for i, topic := range c.secrets {
		if !strings.HasPrefix(topic, "arn:") {
			return nil, secretError(i, "is not the ARN of a topic, as in arn:aws:sns:us-east-1:123456789012:name")
		}
	}
	certs, err := newCertificates(c, func(u *url.URL) bool {
		return snsHost.MatchString(u.Host) && strings.HasSuffix(u.Path, ".pem")
	}, ".amazonaws.com", ".amazonaws.com.cn")
	return &snsChecker{topics: func() []string { return c.secrets }, certs: certs}, err
}

func (snsScheme) describe(p *Provider) { p.SignatureIn = "/Signature" }

// The fields that are signed, by the message's type.
var (
	snsNotification = []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	snsSubscription = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
)

func (s *snsChecker) check(ctx context.Context, r *Request, now time.Time) Verdict {
	doc, ok := jsonptr.Document(r.Body)
	if !ok || doc[0] != '{' {
		return Verdict{Reason: ReasonMissing}
	}
	m := claims{doc}
	topic := slices.Index(s.topics(), m.text("TopicArn"))
	message, reason := snsMessage(m)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	var alg *algorithm
	switch m.text("SignatureVersion") {
	case "1":
		alg = rsaSHA1
	case "2":
		alg = rsaSHA256
	default:
		return Verdict{Reason: ReasonUnsupported}
	}
	given := m.text("Signature")
	if given == "" {
		return Verdict{Reason: ReasonMissing}
	}
	// What cannot be a signature is not worth fetching a certificate for.
	sig, ok := base64Encoding.decode(nil, given)
	if !ok || len(sig) < minRSA/8 {
		return Verdict{Reason: ReasonMalformed}
	}
	if topic < 0 {
		return Verdict{Reason: ReasonWrongClaim}
	}
	at := m.text("SigningCertURL")
	if at == "" {
		at = m.text("SigningCertUrl") // as Lambda spells it
	}
	key, reason := s.certs.keyAt(ctx, at, now)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	if !alg.verify(key, message, sig) {
		return Verdict{Reason: ReasonNoMatch}
	}
	return Verdict{OK: true, Signature: covered(alg.name, message), Secret: topic}
}

func snsMessage(m claims) ([]byte, Reason) {
	names := snsNotification
	switch m.text("Type") {
	case "Notification":
	case "SubscriptionConfirmation", "UnsubscribeConfirmation":
		names = snsSubscription
	case "":
		return nil, ReasonMissing
	default:
		return nil, ReasonUnsupported
	}
	var message []byte
	for _, name := range names {
		raw, ok := jsonptr.Pointer{name}.Find(m.doc)
		if !ok || raw[0] == 'n' {
			if name == "Subject" {
				continue
			}
			return nil, ReasonMissing
		}
		text, ok := jsonptr.Decoded(raw)
		if !ok {
			return nil, ReasonMalformed
		}
		message = append(append(append(append(message, name...), '\n'), text...), '\n')
	}
	return message, ""
}
