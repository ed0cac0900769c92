package verify

import "time"

// publicKeyRows are signed with the provider's private key. A genuine signature proves the provider; that the event is
// meant for us is proved only where the key, or something that is signed, is our own.
var publicKeyRows = []row{
	{
		id: "ed25519", name: "Ed25519, described by options", generic: true, secret: "the public key: 32 bytes in hex or base64, PEM or JWK",
		scheme: genericPublic{ed25519Alg}, secretOptional: true, keyless: true, options: []string{
			"signature_header", "signature_key", "timestamp_key", "separator", "prefix", "encoding", "template", "timestamp_header",
			"timestamp_unit", "tolerance", "id_header", "jwks_url", "event_id", "event_type",
		},
	},
	{
		id: "discord", name: "Discord", docs: "https://docs.discord.com/developers/events/webhook-events", secret: "the application's public key, in hex",
		scheme:  &signed{sig: "X-Signature-Ed25519", ts: "X-Signature-Timestamp", alg: ed25519Alg, message: []string{timeBody}},
		eventID: "/id", eventType: "/event/type | /type", refused: Answer{Status: 401}, accepted: Answer{Status: 204, ContentType: "application/json"}, handshakes: []handshake{discordPing},
		traps:       "Discord names no limit for the age of a signature; here it is 5 minutes, which tolerance widens.",
		interactive: "Interactions (commands, buttons): Discord waits 3 seconds for the application's answer. Webhook events may be queued.",
	},
	{
		id: "telnyx", name: "Telnyx", docs: "https://developers.telnyx.com/docs/messaging/messages/receiving-webhooks", secret: "the account's public key, in base64",
		scheme:  &signed{sig: "Telnyx-Signature-Ed25519", ts: "Telnyx-Timestamp", alg: ed25519Alg, enc: base64Encoding, message: []string{"{sig.timestamp}|{sig.body}"}},
		eventID: "/data/id", idStable: true, idSigned: true, eventType: "/data/event_type",
	},
	{
		id: "sendgrid", name: "SendGrid", docs: "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features", secret: "the verification key, as SendGrid shows it",
		scheme: &signed{
			sig: "X-Twilio-Email-Event-Webhook-Signature", ts: "X-Twilio-Email-Event-Webhook-Timestamp", alg: ecdsaSHA256, enc: base64Encoding,
			message: []string{timeBody},
		},
		eventType: "/0/event", traps: "The body ends with a line break that is signed too. One request may hold many events.",
	},
	{
		id: "fal", name: "fal", docs: "https://docs.fal.ai/model-endpoints/webhooks", secret: "the key set as JSON; without it fal's own is fetched", secretOptional: true, keyless: true,
		scheme: &signed{
			sig: "X-Fal-Webhook-Signature", ts: "X-Fal-Webhook-Timestamp", id: "X-Fal-Webhook-Request-Id", alg: ed25519Alg,
			message: []string{"{sig.id}\n{sig.header.X-Fal-Webhook-User-Id}\n{sig.timestamp}\n{sig.body_sha256}"},
			keysURL: "https://rest.alpha.fal.ai/.well-known/jwks.json", account: "X-Fal-Webhook-User-Id",
		},
		options: []string{"user_id", "jwks_url"}, eventID: "X-Fal-Webhook-Request-Id", idStable: true, idSigned: true, eventType: "/status",
		traps: "All accounts at fal share its keys: set user_id to yours.",
	},
	{
		id: "wise", name: "Wise", docs: "https://docs.wise.com/api-docs/features/webhooks-notifications/event-handling", secret: "Wise's public key for the environment, PEM",
		scheme:  &signed{sig: "X-Signature-SHA256", alg: rsaSHA256, enc: base64Encoding},
		eventID: "X-Delivery-Id", idStable: true, eventType: "/event_type", retries: 14 * 24 * time.Hour,
		traps: "All accounts at Wise share its key. Its retries go on for two weeks.",
	},
	{
		id: "ebay", name: "eBay", docs: "https://developer.ebay.com/marketplace-account-deletion", secret: "the public key, PEM, and the verification token",
		scheme:  ebayScheme{},
		eventID: "/notification/notificationId", idStable: true, idSigned: true, eventType: "/metadata/topic", accepted: Answer{Status: 204},
		handshakes: []handshake{ebayChallenge}, minSecret: 32,
		traps: "Give both the verification token and the public key that getPublicKey returns. The endpoint's URL is part of the answer to the challenge: set public_url behind a proxy.",
	},
	{
		id: "circle", name: "Circle", docs: "https://developers.circle.com/cpn/guides/webhooks/verify-webhook-signatures", secret: "the public key of the key id, in base64",
		scheme: &signed{sig: "X-Circle-Signature", alg: ecdsaSHA256, enc: base64Encoding}, eventType: "/notificationType", eventID: "/notificationId",
		handshakes: []handshake{headOK},
	},
	{
		id: "tokenio", name: "Token.io", docs: "https://docs.token.io/products/tpp/integration-considerations/webhooks", secret: "the member's public key, base64url",
		scheme: &signed{sig: "Token-Signature", alg: ed25519Alg, enc: base64URL}, eventType: "Token-Event", accepted: Answer{Status: 200},
	},
	{
		id: "neon", name: "Neon Auth", docs: "https://neon.com/docs/auth/guides/webhooks", secret: "the key set as JSON; without it jwks_url", secretOptional: true, keyless: true,
		scheme: detachedJWS{
			header: "X-Neon-Signature", algorithms: []string{"EdDSA"}, ts: "X-Neon-Timestamp", unit: milliseconds, kind: ed25519Kind,
			payload: neonPayload,
		},
		options: []string{"jwks_url", "tolerance"}, eventID: "X-Neon-Event-Id", idStable: true, eventType: "X-Neon-Event-Type",
		interactive: "send.otp, send.magic_link and user.before_create: Neon waits for the application's answer.",
	},
	{
		id: "fireblocks", name: "Fireblocks (Fireblocks-Signature)", docs: "https://developers.fireblocks.com/reference/validating-webhooks", secret: "the environment's public key, PEM",
		scheme: &signed{sig: "Fireblocks-Signature", alg: rsaSHA512, enc: base64Encoding}, eventType: "/eventType | /type", accepted: Answer{Status: 200},
	},
	{
		id: "fireblocks-v2", name: "Fireblocks (Fireblocks-Webhook-Signature)", docs: "https://developers.fireblocks.com/reference/validating-webhooks", secret: "the key set as JSON; without it Fireblocks' own is fetched", secretOptional: true, keyless: true,
		scheme: detachedJWS{
			header: "Fireblocks-Webhook-Signature", algorithms: []string{"RS512"}, kind: rsaKind, payload: rawPayload,
			keysURL: "https://keys.fireblocks.io/.well-known/jwks.json",
		},
		options: []string{"jwks_url"}, eventID: "/id", idStable: true, idSigned: true, eventType: "/eventType", accepted: Answer{Status: 200},
	},
	{
		// Their own code hands a digest to a function that hashes it once more.
		id: "bridge-xyz", name: "Bridge (bridge.xyz)", docs: "https://apidocs.bridge.xyz/platform/additional-information/webhooks/signature", secret: "the webhook's public key, PEM",
		scheme: &signed{
			sig: "X-Webhook-Signature", pairs: ",", tsKey: "t", sigKey: "v0", alg: rsaSHA256Twice, enc: base64Encoding, unit: milliseconds,
			message: []string{timeDotBody}, window: window{past: 10 * time.Minute},
		},
		eventID: "/event_id", idStable: true, idSigned: true, eventType: "/event_type",
	},
	{
		id: "utila", name: "Utila", docs: "https://docs.utila.io/reference/webhooks", secret: "the public key, PEM",
		scheme: &signed{sig: "X-Utila-Signature", alg: rsaPSSSHA512, enc: base64Encoding}, eventID: "/id", idStable: true, idSigned: true, eventType: "/type", accepted: Answer{Status: 200},
	},
	{
		id: "wechat-pay", name: "WeChat Pay (APIv3)", aliases: []string{"wechat"}, docs: "https://pay.weixin.qq.com/doc/global/v3/en/4012357149", secret: "the platform's public key or certificate, PEM",
		scheme: &signed{
			sig: "Wechatpay-Signature", ts: "Wechatpay-Timestamp", alg: rsaSHA256, enc: base64Encoding,
			message: []string{"{sig.timestamp}\n{sig.header.Wechatpay-Nonce}\n{sig.body}\n"},
		},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/event_type",
		accepted: Answer{Status: 200, ContentType: "application/json", Body: `{"code":"SUCCESS","message":"OK"}`},
		traps:    "While certificates rotate, give both. The resource in the body is encrypted besides.",
	},
	{
		id: "alipay", name: "Alipay+ and Antom", aliases: []string{"antom"}, docs: "https://docs.antom.com/ac/cashierpay/notifications", secret: "the public key, PEM",
		scheme: &signed{
			sig: "Signature", pairs: ",", sigKey: "signature", alg: rsaSHA256, enc: base64Loose,
			message: []string{"{sig.method} {sig.path_query}\n{sig.header.Client-Id}.{sig.header.Request-Time}.{sig.body}"},
		},
		once: true, eventType: "/notifyType", interactive: "All notifications: Alipay wants an answer signed with the merchant's key.",
	},
	{
		id: "shipengine", name: "ShipEngine and ShipStation v2", aliases: []string{"shipstation-v2"}, docs: "https://www.shipengine.com/docs/webhooks/", secret: "the key set as JSON; without it ShipEngine's own is fetched", secretOptional: true, keyless: true,
		unconfirmed: true,
		scheme: &signed{
			sig: "X-Shipengine-Rsa-Sha256-Signature", ts: "X-Shipengine-Timestamp", alg: rsaSHA256, enc: base64Encoding, unit: rfc3339,
			message: []string{timeDotBody}, keysURL: "https://api.shipengine.com/jwks",
			prepare: func(in *input) Reason {
				in.kid = in.r.Header.Get("X-Shipengine-Rsa-Sha256-Key-Id")
				return ""
			},
		},
		options: []string{"jwks_url"}, eventType: "/resource_type", traps: "What exactly is signed is not confirmed.",
	},
	{
		id: "saleor", name: "Saleor", docs: "https://docs.saleor.io/developer/extending/webhooks/payload-signature", secret: "the instance's key set as JSON; without it jwks_url", secretOptional: true, keyless: true,
		scheme:  detachedJWS{header: "Saleor-Signature", algorithms: []string{"RS256"}, kind: rsaKind, payload: rawPayload},
		options: []string{"jwks_url"}, eventType: "Saleor-Event", interactive: "Synchronous webhooks (payments, taxes, shipping): Saleor waits for the application's answer.",
	},
	{
		id: "bitso", name: "Bitso", secret: "the public key, PEM", sender: true,
		scheme: &signed{
			sig: "X-Bitso-Webhook-Event-Signature", alg: rsaSHA256, enc: base64Encoding, message: []string{"{sig.built}"},
			prepare: compactJSON("/payload"), shape: shapeBitso,
		},
		eventType: "/event",
	},
	{
		id: "chip-in", name: "CHIP", docs: "https://docs.chip-in.asia/", secret: "the webhook's public key, PEM",
		scheme: &signed{sig: "X-Signature", alg: rsaSHA256, enc: base64Encoding}, eventType: "/event_type",
	},
	{
		id: "dyte", name: "Dyte", docs: "https://docs.dyte.io/guides/capabilities/webhooks", secret: "the public key, PEM",
		scheme: &signed{sig: "Dyte-Signature", alg: rsaSHA256, enc: base64Encoding}, eventType: "/event", eventID: "Dyte-Uuid",
	},
}
