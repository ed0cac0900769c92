package verify

// moreTimedRows sign a time or id and the body too. They rest on one reading of their documentation by others, and have no
// vectors of their own.
var moreTimedRows = []row{
	{
		id: "knock", name: "Knock", docs: "https://docs.knock.app/developer-tools/outbound-webhooks/overview", eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
		scheme: &signed{sig: "X-Knock-Signature", pairs: ",", tsKey: "t", sigKey: "s", enc: base64Encoding, unit: milliseconds, message: []string{timeDotBody}},
	},
	{
		id: "courier", name: "Courier", docs: "https://www.courier.com/docs/guides/getting-started/outbound-webhooks/", eventType: "/type",
		scheme: inMilliseconds(pairsOf("Courier-Signature", "t", "signature")),
	},
	{
		id: "statsig", name: "Statsig", docs: "https://docs.statsig.com/integrations/event_webhook",
		scheme: &signed{sig: "X-Statsig-Signature", ts: "X-Statsig-Request-Timestamp", prefix: "v0=", unit: milliseconds, message: []string{v0ColonBody}},
	},
	{
		id: "retell", name: "Retell AI", docs: "https://docs.retellai.com/features/secure-webhook", secret: "the API key with the webhook badge", eventID: "/event + /call/call_id", eventType: "/event",
		scheme: &signed{sig: "X-Retell-Signature", pairs: ",", tsKey: "v", sigKey: "d", unit: milliseconds, message: []string{bodyTime}},
	},
	{
		id: "tiktok", name: "TikTok for Developers", docs: "https://developers.tiktok.com/doc/webhooks-verification", secret: "the client secret", eventType: "/event",
		scheme: pairsOf("TikTok-Signature", "t", "s"),
	},
	{
		id: "pylon", name: "Pylon", docs: "https://getpylon.com/developers/guides/using-webhooks/",
		scheme: &signed{sig: "Pylon-Webhook-Signature", ts: "Pylon-Webhook-Timestamp", prefix: "hs256=", message: []string{timeDotBody}},
	},
	{
		id: "ascend", name: "Ascend", docs: "https://developers.useascend.com/docs/webhooks", eventID: "/id", idStable: true, idSigned: true, eventType: "/type", accepted: Answer{Status: 200},
		scheme: &signed{sig: "X-Ascend-Signature", pairs: ",", tsKey: "t", sigKey: "v1", message: []string{timeColonBody}},
	},
	{
		id: "akeneo", name: "Akeneo PIM", docs: "https://api.akeneo.com/events-documentation/security.html", secret: "the connection's secret", eventType: "/events/0/action",
		scheme: &signed{sig: "X-Akeneo-Request-Signature", ts: "X-Akeneo-Request-Timestamp", message: []string{timeDotBody}},
	},
	{
		id: "synctera", name: "Synctera", docs: "https://docs.synctera.com/docs/webhooks-guide", accepted: Answer{Status: 200}, eventType: "/type",
		scheme: &signed{sig: "Synctera-Signature", ts: "Request-Timestamp", list: ".", message: []string{timeDotBody}},
	},
	{
		id: "oura", name: "Oura", docs: "https://cloud.ouraring.com/v2/docs", secret: "the client secret", eventType: "/event_type + /data_type",
		options: []string{"verify_token"}, handshakes: []handshake{ouraChallenge},
		scheme: &signed{sig: "X-Oura-Signature", ts: "X-Oura-Timestamp", enc: upperHex, message: []string{timeBody}},
		traps:  "An answer of 410 cancels the subscription.",
	},
	{
		id: "zerohash", name: "Zero Hash", docs: "https://docs.zerohash.com/reference/webhook-security", eventID: "X-Zh-Hook-Notification-Id", eventType: "X-Zh-Hook-Payload-Type",
		scheme: &signed{sig: "X-Zh-Hook-Signature", ts: "X-Zh-Hook-Timestamp", unit: milliseconds, message: []string{bodyTime}},
	},
	{
		id: "faundit", name: "Faundit", docs: "https://faundit.gitbook.io/faundit-api-v2/webhooks", eventType: "/event-type",
		scheme: &signed{sig: "X-Faundit-Signature-Next", ts: "X-Faundit-Timestamp", unit: eitherUnit, message: []string{"v1:{sig.timestamp}:{sig.body}"}},
	},
	{
		// What stands under t is a nonce, not a time.
		id: "nmi", name: "NMI", docs: "https://docs.nmi.com/reference/overview", secret: "the signing key", eventID: "/event_id", idStable: true, idSigned: true, eventType: "/event_type", accepted: Answer{Status: 200},
		scheme: &signed{sig: "Webhook-Signature", parse: parseNonce, render: renderNonce, message: []string{"{sig.id}.{sig.body}"}}, once: true,
	},
	{
		id: "recharge", name: "Recharge", docs: "https://docs.getrecharge.com/docs/webhooks-overview#validating-webhooks", secret: "the API client secret", accepted: Answer{Status: 200},
		scheme: &signed{sig: "X-Recharge-Webhook-Signature", pairs: ",", tsKey: "t", sigKey: "v1", message: []string{timeDotBody}},
		traps:  "After 48 hours of failures Recharge deletes the webhook.",
	},
	{
		id: "walmart", name: "Walmart Marketplace", docs: "https://developer.walmart.com/us-marketplace/docs/security-and-authenticity",
		scheme: &signed{
			sig: "WM_SEC.SIGNATURE", ts: "WM_SEC.TIMESTAMP", enc: base64Encoding,
			message: []string{"{sig.method}\n{sig.path_query}\n{sig.timestamp}\n{sig.body_sha256}"},
		},
		traps: "Caddy drops request headers with an underscore or a dot unless the server allows them (expected_underscore_headers, expected_dot_headers).",
	},
	{
		id: "tebex", name: "Tebex", docs: "https://docs.tebex.io/developers/webhooks/overview", eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
		scheme: &signed{sig: "X-Signature", message: []string{"{sig.body_sha256}"}}, handshakes: []handshake{tebexValidation},
	},
	{
		id: "linkedin", name: "LinkedIn", docs: "https://learn.microsoft.com/en-us/linkedin/shared/api-guide/webhook-validation", secret: "the client secret", eventType: "/type",
		scheme: &signed{sig: "X-LI-Signature", message: []string{linkedInPrefix + "{sig.body}"}}, handshakes: []handshake{linkedInChallenge},
	},
}
