package verify

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // a provider's challenge is answered with it
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func equalText(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func hmac256(key, text string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

var (
	hubChallenge = handshake{
		method: http.MethodGet, says: "GET hub.challenge: echoed if hub.verify_token is right",
		answer: func(h *hand) (Answer, bool) {
			mode, _ := h.query("hub.mode")
			token, _ := h.query("hub.verify_token")
			challenge, ok := h.query("hub.challenge")
			switch {
			case mode != "subscribe" || !ok:
				return Answer{}, false
			case !h.tokenMatches(token):
				return wrongToken, true
			}
			return echo(challenge)
		},
	}
	stravaChallenge = handshake{
		method: http.MethodGet, says: "GET hub.challenge: answered in JSON if hub.verify_token is right",
		answer: func(h *hand) (Answer, bool) {
			token, _ := h.query("hub.verify_token")
			challenge, ok := h.query("hub.challenge")
			switch {
			case !ok:
				return Answer{}, false
			case !h.tokenMatches(token):
				return wrongToken, true
			case !echoable(challenge):
				return badHandshake, true
			}
			return jsonAnswer(`{"hub.challenge":` + quoted(challenge) + `}`)
		},
	}
	websubVerify = handshake{
		method: http.MethodGet, says: "GET hub.challenge: echoed",
		answer: func(h *hand) (Answer, bool) {
			challenge, ok := h.query("hub.challenge")
			mode, _ := h.query("hub.mode")
			switch {
			case mode == "denied":
				return emptyOK, true
			case !ok || mode != "subscribe" && mode != "unsubscribe":
				return Answer{}, false
			}
			return echo(challenge)
		},
	}
	crcToken = handshake{
		method: http.MethodGet, says: "GET crc_token: answered with its HMAC",
		answer: func(h *hand) (Answer, bool) {
			token, ok := h.query("crc_token")
			if !ok {
				return Answer{}, false
			}
			if !tokenLike(token) {
				return badHandshake, true
			}
			return jsonAnswer(`{"response_token":"sha256=` + base64.StdEncoding.EncodeToString(hmac256(h.key(), token)) + `"}`)
		},
	}
	challengeText = handshake{
		method: http.MethodGet, says: "GET challenge: echoed",
		answer: func(h *hand) (Answer, bool) {
			if challenge, ok := h.query("challenge"); ok {
				return echo(challenge)
			}
			return Answer{}, false
		},
	}
	ouraChallenge = handshake{
		method: http.MethodGet, says: "GET challenge: answered in JSON if verification_token is right",
		answer: func(h *hand) (Answer, bool) {
			challenge, ok := h.query("challenge")
			token, _ := h.query("verification_token")
			switch {
			case !ok:
				return Answer{}, false
			case !h.tokenMatches(token):
				return wrongToken, true
			case !echoable(challenge):
				return badHandshake, true
			}
			return jsonAnswer(`{"challenge":` + quoted(challenge) + `}`)
		},
	}
	linkedInChallenge = handshake{
		method: http.MethodGet, says: "GET challengeCode: answered with its HMAC",
		answer: func(h *hand) (Answer, bool) {
			code, ok := h.query("challengeCode")
			if !ok {
				return Answer{}, false
			}
			if !tokenLike(code) {
				return badHandshake, true
			}
			return jsonAnswer(`{"challengeCode":` + quoted(code) + `,"challengeResponse":"` + hex.EncodeToString(hmac256(h.key(), code)) + `"}`)
		},
	}
	ebayChallenge = handshake{
		method: http.MethodGet, says: "GET challenge_code: answered with a digest of it, the verification token and the URL",
		answer: func(h *hand) (Answer, bool) {
			code, ok := h.query("challenge_code")
			if !ok {
				return Answer{}, false
			}
			token := ""
			for i := range h.v.secrets {
				if s := h.v.secretAt(i); isEbayToken(s) {
					token = s
				}
			}
			if !echoable(code) || token == "" {
				return badHandshake, true
			}
			endpoint, _, _ := strings.Cut(h.r.URL, "?")
			sum := sha256.Sum256([]byte(code + token + endpoint))
			return jsonAnswer(`{"challengeResponse":"` + hex.EncodeToString(sum[:]) + `"}`)
		},
	}
	oktaChallenge = handshake{
		method: http.MethodGet, says: "GET with X-Okta-Verification-Challenge: answered in JSON", may: onlyWith("X-Okta-Verification-Challenge"),
		answer: func(h *hand) (Answer, bool) {
			challenge := h.header("X-Okta-Verification-Challenge")
			if !echoable(challenge) {
				return badHandshake, true
			}
			return jsonAnswer(`{"verification":` + quoted(challenge) + `}`)
		},
	}
	braintreeChallenge = handshake{
		method: http.MethodGet, says: "GET bt_challenge: answered with its HMAC",
		answer: func(h *hand) (Answer, bool) {
			challenge, ok := h.query("bt_challenge")
			if !ok {
				return Answer{}, false
			}
			if _, isHex := decodeHex(nil, challenge); !isHex || len(challenge) < 20 || len(challenge) > 32 {
				return badHandshake, true
			}
			public, private, _ := strings.Cut(h.key(), ":")
			key := sha1.Sum([]byte(private)) //nolint:gosec // as the provider does
			mac := hmac.New(sha1.New, key[:])
			mac.Write([]byte(challenge))
			return echo(public + "|" + hex.EncodeToString(mac.Sum(nil)))
		},
	}
	cloudEventsOptions = handshake{
		method: http.MethodOptions, says: "OPTIONS with WebHook-Request-Origin: allowed", may: onlyWith("WebHook-Request-Origin"),
		answer: func(h *hand) (Answer, bool) {
			origin, rate := h.header("WebHook-Request-Origin"), h.header("WebHook-Request-Rate")
			if rate == "" {
				rate = "*"
			}
			if !echoable(origin) || !tokenLike(strings.TrimPrefix(rate, "*")+"-") {
				return badHandshake, true
			}
			return Answer{Status: http.StatusOK, Headers: map[string]string{
				"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": rate, "Allow": http.MethodPost, "X-Content-Type-Options": "nosniff",
			}}, true
		},
	}
	headOK = handshake{method: http.MethodHead, says: "HEAD: 200", answer: func(*hand) (Answer, bool) { return emptyOK, true }}
	getOK  = handshake{method: http.MethodGet, says: "GET: 200", answer: func(*hand) (Answer, bool) { return emptyOK, true }}
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
			return jsonAnswer(`{"id":` + quoted(h.json("/id")) + `}`)
		},
	}
	xeroIntent = handshake{
		method: http.MethodPost, signed: true, says: "intent to receive: 200 if signed, 401 if not",
		answer: func(h *hand) (Answer, bool) {
			if h.doc == nil || string(h.raw("/events")) != "[]" {
				return Answer{}, false
			}
			return emptyOK, true
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
			if err != nil || u.Scheme != "https" || u.User != nil || u.Port() != "" || !snsHost.MatchString(u.Host) {
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
