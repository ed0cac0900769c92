package verify

import "time"

// jwtRows send a JWT. Whether it covers the body is for each of them to say.
var jwtRows = []row{
	{
		id: "jwt", name: "JWT, described by options", generic: true, secret: "the HMAC secret, or the public key as PEM, JWK or key set; without it jwks_url", secretOptional: true, keyless: true, sender: true,
		scheme:  jwtScheme{header: "Authorization", algorithms: []string{"HS256"}, chosen: true, leeway: 5 * time.Second},
		options: []string{"header", "algorithms", "issuer", "audience", "body_claim", "jwks_url", "tolerance", "event_id", "event_type"},
		traps:   "Without body_claim the body is not covered.",
	},
	{
		id: "plaid", name: "Plaid", docs: "https://plaid.com/docs/api/webhooks/webhook-verification/", secret: "the key that /webhook_verification_key/get returns, as JWK",
		scheme:  jwtScheme{header: "Plaid-Verification", algorithms: []string{"ES256"}, hash: "request_body_sha256", hashEnc: hexEncoding, maxAge: true},
		options: []string{"tolerance"}, eventType: "/webhook_type + /webhook_code",
		traps: "Plaid rotates its keys: give the new one beside the old one when it changes.",
	},
	{
		id: "netlify", name: "Netlify", unconfirmed: true, docs: "https://docs.netlify.com/deploy/deploy-notifications/", secret: "the JWS secret token",
		scheme:    jwtScheme{header: "X-Webhook-Signature", algorithms: []string{"HS256"}, hash: "sha256", hashEnc: hexEncoding, issuer: []string{"netlify"}},
		eventType: "X-Netlify-Event | /state", eventID: "/id + /state",
	},
	{
		id: "fusionauth", name: "FusionAuth", docs: "https://fusionauth.io/docs/extend/events-and-webhooks/signing", secret: "the HMAC secret or the public key; without it jwks_url", secretOptional: true, keyless: true,
		scheme: jwtScheme{
			header: "X-FusionAuth-Signature-JWT", hash: "request_body_sha256", hashEnc: base64Encoding,
			algorithms: []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"},
		},
		options: []string{"jwks_url"}, eventID: "/event/id", idStable: true, idSigned: true, eventType: "/event/type",
		interactive: "Transactional events: FusionAuth waits for the application's answer.",
	},
	{
		id: "vonage", name: "Vonage", docs: "https://developer.vonage.com/en/getting-started/concepts/webhooks", secret: "the account's signature secret",
		scheme: jwtScheme{header: "Authorization", bearer: true, algorithms: []string{"HS256"}, hash: "payload_hash", hashEnc: hexEncoding, absentOK: true, maxAge: true, issuer: []string{"Vonage"}}, sender: true, once: true,
		options: []string{"tolerance"}, methods: []string{"POST", "GET"}, eventID: "/message_uuid + /status", eventType: "/status | /channel",
		traps: "A token without payload_hash does not cover the body, so each token is accepted once.", interactive: "Answer URLs: Vonage carries out the actions that the application answers.",
	},
	{
		id: "messagebird", name: "MessageBird (Bird)", docs: "https://developers.messagebird.com/api/#verifying-http-requests", secret: "the signing key",
		scheme: jwtScheme{
			header: "MessageBird-Signature-JWT", algorithms: []string{"HS256", "HS384", "HS512"}, hash: "payload_hash", hashEnc: hexEncoding, optional: true,
			urlHash: "url_hash", issuer: []string{"MessageBird"}, expires: true, leeway: 5 * time.Second, extra: []string{"jti"},
		},
		methods: []string{"POST", "GET", "PUT", "PATCH", "DELETE"}, eventType: "/type",
		traps: "The URL is signed as the provider was given it: set public_url behind a proxy.",
	},
	{
		id: "qstash", name: "Upstash QStash", docs: "https://upstash.com/docs/qstash/howto/signature", secret: "the current and the next signing key: current,next",
		scheme: jwtScheme{
			header: "Upstash-Signature", algorithms: []string{"HS256"}, split: true, hash: "body", hashEnc: base64URL, issuer: []string{"Upstash"}, subject: true,
			expires: true,
		},
		eventID: "Upstash-Message-Id", idStable: true,
	},
	{
		id: "google-pubsub", name: "Google Cloud Pub/Sub push", docs: "https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions", secret: "Google's key as JWK; without it Google's own are fetched", secretOptional: true, keyless: true, sender: true,
		scheme: jwtScheme{
			header: "Authorization", bearer: true, algorithms: []string{"RS256"}, keysURL: "https://www.googleapis.com/oauth2/v3/certs",
			issuer: []string{"https://accounts.google.com", "accounts.google.com"}, expires: true,
		},
		needs: []string{"audience", "service_account"}, options: []string{"jwks_url"}, eventID: "/message/messageId", idStable: true, eventType: "/message/attributes/eventType",
		maxBody: 16 << 20, traps: "The token proves the sender; the body is not covered by it.",
	},
	{
		id: "wix", name: "Wix", docs: "https://dev.wix.com/docs/build-apps/develop-your-app/access/authentication/verify-requests-received-from-wix", secret: "the app's public key, PEM",
		scheme: jwtScheme{algorithms: []string{"RS256"}, expires: true}, accepted: Answer{Status: 200}, traps: "The body is the JWT; the event is a JSON text within its claim data.",
	},
	{
		id: "monday", name: "monday.com", docs: "https://developer.monday.com/api-reference/reference/webhooks", secret: "the app's signing secret", sender: true,
		scheme: jwtScheme{header: "Authorization", algorithms: []string{"HS256"}, expires: true}, options: []string{"audience"},
		eventID: "/event/triggerUuid", idStable: true, eventType: "/event/type", handshakes: []handshake{mondayChallenge},
		traps: "Webhooks made without an app send no token and are refused; the body is not covered.",
	},
	{
		id: "gemini-dynamic", name: "Google Gemini API (dynamic webhooks)", unconfirmed: true, docs: "https://ai.google.dev/gemini-api/docs/webhooks", secret: "the key set as JSON; without it Google's own is fetched", secretOptional: true, keyless: true, sender: true,
		scheme: jwtScheme{header: "Authorization", bearer: true, algorithms: []string{"RS256"}, keysURL: "https://generativelanguage.googleapis.com/.well-known/jwks.json", expires: true},
		needs:  []string{"audience"}, options: []string{"jwks_url"}, eventType: "/type", traps: "Which header holds the token is not confirmed.",
	},
	{
		id: "green-dot", name: "Green Dot", unconfirmed: true, docs: "https://developer.greendot.com/embedded-finance/docs/webhooks-overview", secret: "the key set as JSON; without it jwks_url", secretOptional: true, keyless: true, sender: true,
		scheme:  jwtScheme{header: "Authorization", bearer: true, algorithms: []string{"RS256"}, expires: true},
		options: []string{"jwks_url", "audience"}, eventType: "/eventType", interactive: "All deliveries: Green Dot wants its request id in the answer.",
	},
	{
		id: "kinde", name: "Kinde", unconfirmed: true, docs: "https://docs.kinde.com/integrate/webhooks/about-webhooks/", secret: "the key set as JSON; without it jwks_url", secretOptional: true, keyless: true,
		scheme:  jwtScheme{algorithms: []string{"RS256"}},
		options: []string{"jwks_url"}, eventID: "claim:/event_id", idStable: true, idSigned: true, eventType: "claim:/type", accepted: Answer{Status: 200},
	},
	{
		id: "constant-contact", name: "Constant Contact", docs: "https://developer.constantcontact.com/api_guide/webhooks_overview.html", secret: "the key set as JSON; without it Constant Contact's own is fetched", secretOptional: true, keyless: true,
		unconfirmed: true,
		scheme:      constantContactScheme{}, needs: []string{"header"}, options: []string{"jwks_url"}, traps: "The header's name is not confirmed: give it with the option header.",
	},
	{
		id: "lago", name: "Lago (signature algorithm jwt)", docs: "https://docs.getlago.com/guide/webhooks", secret: "the public key, PEM",
		scheme:  lagoScheme{},
		eventID: "X-Lago-Unique-Key", idStable: true, eventType: "/webhook_type",
	},
}
