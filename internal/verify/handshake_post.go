package verify

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"time"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// Handshakes that are POSTs.
var (
	slackChallenge = handshake{
		method: http.MethodPost, signed: true, says: "url_verification: the challenge is echoed",
		answer: func(h *hand) (Answer, bool) {
			if h.json("/type") != "url_verification" {
				return Answer{}, false
			}
			return echo(h.json("/challenge"))
		},
	}
	zoomValidation = handshake{
		method: http.MethodPost, signed: true, says: "endpoint.url_validation: the token is answered with its HMAC",
		answer: func(h *hand) (Answer, bool) {
			if h.json("/event") != "endpoint.url_validation" {
				return Answer{}, false
			}
			token := h.json("/payload/plainToken")
			if !tokenLike(token) {
				return badHandshake, true
			}
			return jsonAnswer(`{"plainToken":` + quoted(token) + `,"encryptedToken":"` + hex.EncodeToString(hmac256(h.key(), token)) + `"}`)
		},
	}
	twitchChallenge = handshake{
		method: http.MethodPost, signed: true, says: "webhook_callback_verification: the challenge is echoed",
		answer: func(h *hand) (Answer, bool) {
			if h.header("Twitch-Eventsub-Message-Type") != "webhook_callback_verification" {
				return Answer{}, false
			}
			return echo(h.json("/challenge"))
		},
	}
	discordPing = handshake{
		method: http.MethodPost, signed: true, says: "PING: answered as interactions and webhook events want",
		answer: func(h *hand) (Answer, bool) {
			switch {
			case h.json("/type") == "0":
				return Answer{Status: http.StatusNoContent, ContentType: "application/json"}, true
			// Webhook events have the type 1 too, but with an event.
			case h.json("/type") == "1" && !h.has("/event"):
				return jsonAnswer(`{"type":1}`)
			}
			return Answer{}, false
		},
	}
	smartcarVerify = handshake{
		method: http.MethodPost, signed: true, says: "VERIFY: the challenge is answered with its HMAC",
		answer: func(h *hand) (Answer, bool) {
			if h.json("/eventType") != "VERIFY" {
				return Answer{}, false
			}
			challenge := h.json("/data/challenge")
			if !tokenLike(challenge) {
				return badHandshake, true
			}
			return jsonAnswer(`{"challenge":"` + hex.EncodeToString(hmac256(h.key(), challenge)) + `"}`)
		},
	}
	tebexValidation = handshake{
		method: http.MethodPost, signed: true, says: "validation.webhook: the id is answered",
		answer: func(h *hand) (Answer, bool) {
			if h.json("/type") != "validation.webhook" {
				return Answer{}, false
			}
			id := h.json("/id")
			if !echoable(id) {
				return badHandshake, true
			}
			return jsonAnswer(`{"id":` + quoted(id) + `}`)
		},
	}
	xeroIntent = handshake{
		method: http.MethodPost, signed: true, says: "intent to receive: 200 if signed, 401 if not",
		answer: func(h *hand) (Answer, bool) {
			raw := h.raw("/events")
			if raw == nil {
				return Answer{}, false
			}
			events, ok := jsonptr.Items(raw, 0)
			return emptyOK, ok && len(events) == 0
		},
	}
	snsConfirmation = handshake{
		method: http.MethodPost, signed: true, says: "SubscriptionConfirmation: the subscription is confirmed at AWS",
		answer: func(h *hand) (Answer, bool) {
			switch h.json("/Type") {
			case "UnsubscribeConfirmation":
				return emptyOK, true
			case "SubscriptionConfirmation":
			default:
				return Answer{}, false
			}
			// The URL is signed, but "signed by some topic" must not make us call any host.
			u, err := url.Parse(h.json("/SubscribeURL"))
			if err != nil || u.Scheme != "https" || u.User != nil || !snsHost.MatchString(u.Host) {
				return badHandshake, true
			}
			if h.v.fetch == nil {
				return unavailable, true
			}
			if _, err := h.v.fetch.Fetch(h.ctx, u.String(), 10*time.Minute); err != nil {
				return unavailable, true
			}
			return emptyOK, true
		},
	}
	hookSecret = handshake{
		method: http.MethodPost, says: "POST with X-Hook-Secret: echoed in the same header", may: onlyWith("X-Hook-Secret", "X-Hook-Signature"),
		answer: func(h *hand) (Answer, bool) {
			secret := h.header("X-Hook-Secret")
			if !echoable(secret) {
				return badHandshake, true
			}
			return Answer{Status: http.StatusOK, Headers: map[string]string{"X-Hook-Secret": secret, "X-Content-Type-Options": "nosniff"}, Token: secret}, true
		},
	}
	notionToken = handshake{
		method: http.MethodPost, says: "the first POST, with verification_token: 200", may: onlyWith("", "X-Notion-Signature"),
		answer: func(h *hand) (Answer, bool) {
			token := h.json("/verification_token")
			if token == "" {
				return Answer{}, false
			}
			// It is logged, and anybody can send one.
			if !echoable(token) {
				return badHandshake, true
			}
			return Answer{Status: http.StatusOK, Token: token}, true
		},
	}
	mondayChallenge = handshake{
		method: http.MethodPost, says: "POST with challenge: answered in JSON",
		answer: func(h *hand) (Answer, bool) {
			challenge := h.json("/challenge")
			if challenge == "" || h.has("/event") {
				return Answer{}, false
			}
			if !echoable(challenge) {
				return badHandshake, true
			}
			return jsonAnswer(`{"challenge":` + quoted(challenge) + `}`)
		},
	}
	frontChallenge = handshake{
		method: http.MethodPost, says: "POST with X-Front-Challenge: echoed", may: onlyWith("X-Front-Challenge"),
		answer: func(h *hand) (Answer, bool) { return echo(h.header("X-Front-Challenge")) },
	}
	validationHeader = handshake{
		method: http.MethodPost, says: "POST with Validation-Token: echoed in the same header", may: onlyWith("Validation-Token"),
		answer: func(h *hand) (Answer, bool) {
			token := h.header("Validation-Token")
			if !echoable(token) {
				return badHandshake, true
			}
			return Answer{Status: http.StatusOK, Headers: map[string]string{"Validation-Token": token, "X-Content-Type-Options": "nosniff"}}, true
		},
	}
	validationToken = handshake{
		method: http.MethodPost, says: "POST ?validationToken: echoed",
		answer: func(h *hand) (Answer, bool) {
			for _, name := range []string{"validationToken", "validationtoken"} {
				if token, ok := h.query(name); ok {
					return echo(token)
				}
			}
			return Answer{}, false
		},
	}
	eventGridValidation = handshake{
		method: http.MethodPost, says: "SubscriptionValidation: the code is answered", may: onlyWith("Aeg-Event-Type"),
		answer: func(h *hand) (Answer, bool) {
			if h.header("Aeg-Event-Type") != "SubscriptionValidation" {
				return Answer{}, false
			}
			code := h.json("/0/data/validationCode")
			if !echoable(code) {
				return badHandshake, true
			}
			return jsonAnswer(`{"validationResponse":` + quoted(code) + `}`)
		},
	}
	wooPing = handshake{
		method: http.MethodPost, says: "the unsigned ping with webhook_id: 200", may: onlyWith("", "X-WC-Webhook-Signature"),
		answer: func(h *hand) (Answer, bool) {
			pairs, ok := formPairs(h.r.Body)
			if !ok || len(pairs) != 1 || pairs[0].key != "webhook_id" {
				return Answer{}, false
			}
			return emptyOK, true
		},
	}
	mandrillTest = handshake{
		method: http.MethodPost, says: "the test at registration, which has no events and is signed with another key: 200",
		answer: func(h *hand) (Answer, bool) {
			pairs, ok := formPairs(h.r.Body)
			return emptyOK, ok && len(pairs) == 1 && pairs[0] == pair{"mandrill_events", "[]"}
		},
	}
	emptyPost = handshake{
		method: http.MethodPost, says: "an empty POST: 200",
		answer: func(h *hand) (Answer, bool) { return emptyOK, len(h.r.Body) == 0 },
	}
	vercelVerify = handshake{
		method: http.MethodPost, says: "an unsigned request: x-vercel-verify is answered, if verify_header is set", may: onlyWith("", "X-Vercel-Signature"),
		answer: func(h *hand) (Answer, bool) {
			token := h.v.hidden("verify_header")
			if token == "" {
				return Answer{}, false
			}
			return Answer{Status: http.StatusOK, Headers: map[string]string{"X-Vercel-Verify": token}}, true
		},
	}

	unavailable = Answer{Status: http.StatusServiceUnavailable, Headers: map[string]string{"Retry-After": "10"}}
)

func (h *hand) raw(pointer string) []byte {
	if h.doc == nil {
		return nil
	}
	f := mustField(pointer)
	raw, _ := f.path.Find(h.doc)
	return raw
}

func (h *hand) has(pointer string) bool { return h.raw(pointer) != nil }
