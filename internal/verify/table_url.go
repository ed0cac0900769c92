package verify

import "time"

// urlRows sign the URL, the method or parameters. The URL must be the one that the provider was given: scheme, host, port,
// path, query order and escapes included.
var urlRows = []row{
	{
		id: "twilio", name: "Twilio", docs: "https://www.twilio.com/docs/usage/webhooks/webhooks-security", secret: "the auth token, or the SharedKey secret",
		scheme: twilioScheme, once: true, methods: []string{"POST", "GET"},
		eventID: "I-Twilio-Idempotency-Token", idStable: true, eventType: "form:MessageStatus | form:SmsStatus | form:CallStatus | /0/type",
		accepted:    Answer{Status: 200, ContentType: "text/xml", Body: `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`},
		traps:       "Behind a proxy that changes the URL, set public_url.",
		interactive: "Incoming calls and messages: Twilio carries out the TwiML that the application answers. Status callbacks may be queued.",
	},
	{
		id: "mandrill", secretOptional: true, name: "Mailchimp Transactional (Mandrill)", docs: "https://mailchimp.com/developer/transactional/guides/track-respond-activity-webhooks/", secret: "the webhook key",
		scheme: &signed{sig: "X-Mandrill-Signature", alg: hmacSHA1, enc: base64Encoding, message: []string{"{sig.url}{sig.built}"}, prepare: sortedForm, shape: shapeMandrill}, once: true,
		accepted: Answer{Status: 200}, handshakes: []handshake{headOK, mandrillTest},
		traps: "Give the URL to Mandrill exactly as it is reached. One request holds many events in the form field mandrill_events.",
	},
	{
		id: "square", name: "Square", docs: "https://developer.squareup.com/docs/webhooks/step3validate", secret: "the signature key",
		scheme: &signed{sig: "X-Square-Hmacsha256-Signature", enc: base64Encoding, message: []string{"{sig.url}{sig.body}"}}, once: true,
		eventID: "/event_id", idStable: true, idSigned: true, eventType: "/type",
	},
	{
		id: "trello", secretOptional: true, name: "Trello", docs: "https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/", secret: "the OAuth 1.0 secret",
		scheme: &signed{sig: "X-Trello-Webhook", alg: hmacSHA1, enc: base64Encoding, message: []string{"{sig.body}{sig.url}"}}, once: true,
		eventID: "/action/id", idStable: true, idSigned: true, eventType: "/action/type", accepted: Answer{Status: 200}, handshakes: []handshake{headOK},
	},
	{
		id: "hubspot", name: "HubSpot (signature v3)", docs: "https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests", secret: "the app's client secret",
		scheme: &signed{
			sig: "X-HubSpot-Signature-v3", ts: "X-HubSpot-Request-Timestamp", enc: base64Encoding, unit: milliseconds,
			message: []string{"{sig.method}{sig.url}{sig.body}{sig.timestamp}"}, urls: hubspotURLs,
		},
		once: true, methods: []string{"POST", "GET", "PUT", "DELETE", "PATCH"}, eventType: "/0/subscriptionType",
		traps: "One request may hold up to 100 events, whose ids are not unique.", interactive: "CRM cards and workflow actions: HubSpot waits for the application's answer.",
	},
	{
		id: "hubspot-v2", name: "HubSpot (signature v2)", docs: "https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests", secret: "the app's client secret",
		scheme: &signed{
			sig: "X-HubSpot-Signature", alg: plainSHA256, message: []string{"{sig.secret}{sig.method}{sig.url}{sig.body}"},
			fixed: []fixedHeader{{name: "X-HubSpot-Signature-Version", value: "v2"}},
		},
		once: true, methods: []string{"POST", "GET", "PUT", "DELETE", "PATCH"}, eventType: "/0/subscriptionType", traps: "Prefer hubspot: this older signature covers no time.",
	},
	{
		id: "hubspot-v1", name: "HubSpot (signature v1)", docs: "https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests", secret: "the app's client secret",
		scheme: &signed{
			sig: "X-HubSpot-Signature", alg: plainSHA256, message: []string{"{sig.secret}{sig.body}"},
			fixed: []fixedHeader{{name: "X-HubSpot-Signature-Version", value: "v1"}},
		},
		eventType: "/0/subscriptionType", traps: "Prefer hubspot: this older signature is a plain digest, which can be extended without the secret.",
	},
	{
		id: "contentful", name: "Contentful", docs: "https://www.contentful.com/developers/docs/webhooks/request-verification/", secret: "the 64-character signing secret",
		scheme: &signed{
			sig: "X-Contentful-Signature", ts: "X-Contentful-Timestamp", unit: milliseconds, prepare: contentfulMessage,
			// A request that is exactly 30 seconds old is refused by Contentful's own library.
			message: []string{"{sig.built}{sig.body}"}, window: window{past: 30*time.Second - 1},
			sends: map[string]string{"X-Contentful-Signed-Headers": "x-contentful-signed-headers,x-contentful-timestamp"},
		},
		once: true, minSecret: 64, eventID: "/sys/id + /sys/version", eventType: "X-Contentful-Topic", methods: []string{"POST", "PUT", "PATCH", "GET", "DELETE"},
		traps: "A signature is valid for 30 seconds; write tolerance 5m when clocks differ.",
	},
	{
		id: "messagebird-legacy", name: "MessageBird (MessageBird-Signature)", docs: "https://developers.messagebird.com/api/#verifying-http-requests", secret: "the signing key",
		scheme: &signed{
			sig: "MessageBird-Signature", ts: "MessageBird-Request-Timestamp", enc: base64Encoding, prepare: sortedQuery,
			message: []string{"{sig.timestamp}\n{sig.built}\n{sig.body_sha256_raw}"},
			// Its age must be less than 100 seconds, not at most.
			window: window{past: 100*time.Second - 1},
		},
		once: true, methods: []string{"POST", "GET"},
	},
	{
		id: "plivo", name: "Plivo (signature v3)", docs: "https://www.plivo.com/docs/voice/concepts/signature-validation/", secret: "the auth token",
		scheme: &signed{
			sig: "X-Plivo-Signature-V3", list: ",", enc: base64Encoding, prepare: plivoMessage,
			sends:   map[string]string{"X-Plivo-Signature-V3-Nonce": "12345678901234567890"},
			message: []string{"{sig.built}.{sig.header.X-Plivo-Signature-V3-Nonce}"},
		},
		once:    true,
		methods: []string{"POST", "GET"}, eventType: "form:Event | form:CallStatus | form:Status",
		accepted:    Answer{Status: 200, ContentType: "text/xml", Body: `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`},
		interactive: "Answer URLs: Plivo carries out the XML that the application answers.",
	},
	{
		id: "favro", name: "Favro", docs: "https://favro.com/developer/#webhook-signatures", sender: true,
		scheme:    &signed{sig: "X-Favro-Webhook", alg: hmacSHA1, enc: base64Encoding, message: []string{"{sig.json./payloadId}{sig.url}"}},
		eventType: "/action", eventID: "/payloadId",
	},
	{
		id: "tiktok-shop", name: "TikTok Shop", docs: "https://partner.tiktokshop.com/docv2/page/tts-webhooks-overview", secret: "the app secret",
		scheme: &signed{sig: "Authorization", message: []string{"{sig.option.app_key}{sig.body}"}}, needs: []string{"app_key"},
		eventID: "/tts_notification_id", idStable: true, idSigned: true, eventType: "/type", accepted: Answer{Status: 200},
	},
	{
		id: "solidgate", name: "Solidgate", docs: "https://docs.solidgate.com/payments/integrate/webhooks/", secret: "the webhook secret key, wh_sk_…",
		scheme: &signed{sig: "Signature", alg: hmacSHA512, enc: base64OfHex, message: []string{"{sig.header.Merchant}{sig.body}{sig.header.Merchant}"}}, once: true,
		// Only the public key in the header is signed, not the id.
		eventID: "Solidgate-Event-Id", idStable: true, eventType: "Solidgate-Event-Type",
	},
}
