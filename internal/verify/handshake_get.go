package verify

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // a provider's challenge is answered with it
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
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

const linkedInPrefix = "hmacsha256="

// Handshakes that are GETs and the like.
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
			// Signatures are made of this prefix and the body.
			if !tokenLike(code) || strings.HasPrefix(code, linkedInPrefix) {
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
			if !isBraintreeChallenge(challenge) {
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
