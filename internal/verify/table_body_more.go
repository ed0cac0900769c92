package verify

// moreBodyRows sign the raw body too. Most have no vector from their own documentation.
var moreBodyRows = []row{
	{
		id: "launchdarkly", name: "LaunchDarkly", docs: "https://launchdarkly.com/docs/home/infrastructure/webhooks",
		scheme: &signed{sig: "X-LD-Signature"}, eventID: "/_id", idSigned: true, eventType: "/kind",
	},
	{
		id: "alchemy", name: "Alchemy", docs: "https://www.alchemy.com/docs/reference/notify-api-quickstart", secret: "the webhook's signing key",
		scheme: &signed{sig: "X-Alchemy-Signature"}, eventID: "/id", idSigned: true, eventType: "/type",
	},
	{
		id: "fastspring", name: "FastSpring", docs: "https://developer.fastspring.com/reference/message-security",
		scheme: &signed{sig: "X-FS-Signature", enc: base64Encoding}, eventType: "/events/0/type", accepted: Answer{Status: 200},
		traps: "One request may hold several events.",
	},
	{
		id: "tally", name: "Tally", docs: "https://tally.so/help/webhooks",
		scheme: &signed{sig: "Tally-Signature", enc: base64Encoding}, eventID: "/eventId", idSigned: true, eventType: "/eventType",
	},
	{
		id: "pusher", name: "Pusher Channels", docs: "https://pusher.com/docs/channels/server_api/webhooks/", secret: "the app's secret",
		scheme: &signed{sig: "X-Pusher-Signature"}, eventType: "/events/0/name",
		traps: "X-Pusher-Key names the app key; while keys rotate, give the secrets of all of them.",
	},
	{
		id: "smartcar", name: "Smartcar", docs: "https://smartcar.com/docs/integrations/webhooks/payload-verification", secret: "the application management token",
		scheme: &signed{sig: "SC-Signature"}, eventID: "/eventId", idStable: true, idSigned: true, eventType: "/eventType",
		handshakes: []handshake{smartcarVerify},
	},
	{
		id: "grafana", name: "Grafana Alerting", docs: "https://grafana.com/docs/grafana/latest/alerting/",
		scheme: &signed{sig: "X-Grafana-Alerting-Signature"}, eventType: "/status",
		traps: "With a timestamp header configured in Grafana, use grafana-ts; with another signature header, use hmac.",
	},
	{
		id: "websub", secretOptional: true, name: "WebSub", aliases: []string{"youtube", "pubsubhubbub"}, unconfirmed: true, docs: "https://www.w3.org/TR/websub/", secret: "hub.secret",
		scheme:     &signed{sig: "X-Hub-Signature", methods: hmacAlgorithms},
		handshakes: []handshake{websubVerify}, refused: Answer{Status: 202},
		traps: "The lease must be renewed. Hubs choose the hash; some still use SHA-1. A wrong signature gets 202 and is dropped, as the specification demands: watch the metric of refusals.",
	},
	{id: "ashby", name: "Ashby", docs: "https://developers.ashbyhq.com/docs/authenticating-webhooks", scheme: &signed{sig: "Ashby-Signature", prefix: "sha256="}, eventType: "/action"},
	{id: "aiprise", name: "AiPrise", docs: "https://docs.aiprise.com/docs/callbacks-authentication", secret: "the API private key", scheme: &signed{sig: "X-HMAC-SIGNATURE"}},
	{id: "attentive", name: "Attentive", docs: "https://docs.attentive.com/docs/webhook-authentication/", scheme: &signed{sig: "X-Attentive-Hmac-Sha256"}, eventType: "/type"},
	{
		id: "bridge-api", name: "Bridge API (bridgeapi.io)", docs: "https://docs.bridgeapi.io/docs/secure-your-webhooks",
		scheme: &signed{sig: "BridgeApi-Signature", prefix: "v1=", list: ",", enc: upperHex}, eventType: "/type", accepted: Answer{Status: 200},
	},
	{
		id: "bunny-stream", name: "Bunny Stream", docs: "https://docs.bunny.net/stream/webhooks", secret: "the library's read-only API key",
		scheme: &signed{sig: "X-BunnyStream-Signature"}, eventType: "/Status",
	},
	{
		id: "clio", secretOptional: true, name: "Clio", docs: "https://docs.developers.clio.com/api-reference/#tag/Webhooks", secret: "the shared secret of the handshake",
		scheme: &signed{sig: "X-Hook-Signature"}, eventType: "/meta/event", handshakes: []handshake{hookSecret},
	},
	{
		id: "commercelayer", name: "Commerce Layer", docs: "https://docs.commercelayer.io/core/callbacks-security",
		scheme: &signed{sig: "X-CommerceLayer-Signature", enc: base64Encoding}, eventType: "X-CommerceLayer-Topic",
	},
	{
		id: "enode", name: "Enode", docs: "https://developers.enode.com/docs/webhooks",
		scheme: &signed{sig: "X-Enode-Signature", prefix: "sha1=", alg: hmacSHA1}, eventID: "X-Enode-Delivery", eventType: "/0/event",
	},
	{
		id: "fireflies", name: "Fireflies", docs: "https://docs.fireflies.ai/graphql-api/webhooks-v2",
		scheme: &signed{sig: "X-Hub-Signature", prefix: "sha256="}, eventType: "/event", traps: "Webhooks of version 1 send the digest without sha256= and are refused.",
	},
	{id: "flexport", name: "Flexport", docs: "https://developers.flexport.com/faq/webhooks/", scheme: &signed{sig: "X-Hub-Signature-256", prefix: "sha256="}, eventType: "/type", accepted: Answer{Status: 200}},
	{
		id: "nuvemshop", name: "Nuvemshop (Tiendanube)", aliases: []string{"tiendanube"}, docs: "https://tiendanube.github.io/api-documentation/resources/webhook", secret: "the app's client secret",
		scheme: &signed{sig: "X-Linkedstore-Hmac-Sha256"}, eventType: "/event",
	},
	{id: "picqer", name: "Picqer", docs: "https://picqer.com/en/api/webhooks", scheme: &signed{sig: "X-Picqer-Signature", enc: base64Encoding}, eventType: "/event"},
	{
		id: "scrapfly", name: "Scrapfly", docs: "https://scrapfly.io/docs/scrape-api/webhook",
		scheme:  &signed{sig: "X-Scrapfly-Webhook-Signature | X-Scrapfly-Webhook-Signature-Lowercase", enc: upperHex},
		eventID: "X-Scrapfly-Webhook-Job-Id", idStable: true, eventType: "X-Scrapfly-Webhook-Resource-Type",
		traps: "The body holds the webhook's secret in context.webhook.secret.",
	},
	{
		id: "shiphero", name: "ShipHero", docs: "https://developer.shiphero.com/webhooks/",
		scheme: &signed{sig: "X-Shiphero-Hmac-Sha256", enc: base64Encoding}, eventID: "X-Shiphero-Message-ID", eventType: "/webhook_type",
		accepted: Answer{Status: 200, ContentType: "application/json", Body: `{"code":"200","Status":"Success"}`},
	},
	{
		id: "shopline", name: "SHOPLINE", docs: "https://developer.shopline.com/docs/apps/api-instructions-for-use/generate-and-verify-signatures/", secret: "the app secret",
		scheme:  &signed{sig: "X-Shopline-Hmac-Sha256"},
		eventID: "X-Shopline-Webhook-Id", idStable: true, eventType: "X-Shopline-Topic", traps: "The documentation shows base64, but deliveries are in hex.",
	},
	{
		id: "smile", name: "Smile API", docs: "https://docs.getsmileapi.com/reference/webhooks",
		scheme: &signed{sig: "Smile-Signature", alg: hmacSHA512}, eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
	},
	{
		id: "uber", name: "Uber Eats", docs: "https://developer.uber.com/docs/eats/guides/webhooks", secret: "the app's client secret",
		scheme: &signed{sig: "X-Uber-Signature"}, eventID: "/event_id", idSigned: true, eventType: "/event_type", accepted: Answer{Status: 200},
	},
	{
		// The time beside the signature is not signed, so it proves nothing and is not looked at.
		id: "upollo", name: "Upollo", docs: "https://app.upollo.ai/docs/reference/webhooks",
		scheme: &signed{sig: "Upollo-Signature", pairs: ",", kv: ":", sigKey: "s0", alg: hmacSHA512},
	},
	{id: "logto", name: "Logto", docs: "https://docs.logto.io/developers/webhooks/secure-webhooks", scheme: &signed{sig: "Logto-Signature-Sha-256"}, eventType: "/event"},
	{id: "yousign", name: "Yousign", docs: "https://developers.yousign.com/docs/verify-webhook-signature", scheme: &signed{sig: "X-Yousign-Signature-256", prefix: "sha256="}, eventID: "/event_id", idSigned: true, eventType: "/event_name"},
	{id: "neynar", name: "Neynar", docs: "https://docs.neynar.com/docs/how-to-verify-the-incoming-webhooks-using-signatures", scheme: &signed{sig: "X-Neynar-Signature", alg: hmacSHA512}, eventType: "/type"},
	{id: "signable", name: "Signable", scheme: &signed{sig: "Signature", enc: base64Encoding}},
	{id: "propexo", name: "Propexo", scheme: &signed{sig: "Propexo-Signature"}},
	{id: "clickup", name: "ClickUp", docs: "https://developer.clickup.com/docs/webhooksignature", scheme: &signed{sig: "X-Signature"}, eventType: "/event"},
	{
		id: "envoy", name: "Envoy", docs: "https://developers.envoy.com/hub/docs/webhooks", secret: "the app's client secret",
		scheme: &signed{sig: "X-Envoy-Signature", enc: base64Encoding}, eventType: "/event",
		interactive: "Validation and step endpoints: Envoy shows the application's answer to the user.",
	},
	{
		id: "pandadoc", name: "PandaDoc", docs: "https://developers.pandadoc.com/docs/webhook-verification", secret: "the shared key",
		scheme: &signed{sig: "query:signature"}, eventType: "/0/event", traps: "The signature is in the URL: PandaDoc puts it where the webhook's URL says {signature}.",
	},
	{id: "realtimeregister", name: "Realtime Register", scheme: &signed{sig: "Signature", enc: base64Encoding}},
	{id: "nmi-gateway", name: "NMI gateway (header Signature)", scheme: &signed{sig: "Signature"}},
	{
		id: "lago-hmac", name: "Lago (signature algorithm hmac)", docs: "https://docs.getlago.com/guide/webhooks", secret: "the organisation's HMAC key",
		scheme:  &signed{sig: "X-Lago-Signature", enc: base64Encoding, fixed: []fixedHeader{{name: "X-Lago-Signature-Algorithm", value: "hmac", required: true}}},
		eventID: "X-Lago-Unique-Key", idStable: true, eventType: "/webhook_type",
	},
	{id: "withleaf", name: "Leaf Agriculture", docs: "https://docs.withleaf.io/", scheme: &signed{sig: "X-Leaf-Signature", enc: base64Encoding}, eventType: "/type"},
	{id: "chargify", name: "Chargify (Maxio)", aliases: []string{"maxio"}, unconfirmed: true, scheme: &signed{sig: "X-Chargify-Webhook-Signature-Hmac-Sha-256"}, eventID: "X-Chargify-Webhook-Id", eventType: "form:event"},
	{id: "autodesk-aps", name: "Autodesk Platform Services", unconfirmed: true, scheme: &signed{sig: "X-Adsk-Signature", prefix: "sha1hash=", alg: hmacSHA1}, eventType: "/hook/event"},
	{id: "mongodb-atlas", name: "MongoDB Atlas", unconfirmed: true, scheme: &signed{sig: "X-MMS-Signature", enc: base64Encoding, alg: hmacSHA1}, eventType: "/eventTypeName"},
	{id: "modern-treasury", name: "Modern Treasury", unconfirmed: true, scheme: &signed{sig: "X-Signature"}, eventType: "X-Topic + /event"},
	{id: "patreon", name: "Patreon", unconfirmed: true, scheme: &signed{sig: "X-Patreon-Signature", alg: hmacMD5}, eventType: "X-Patreon-Event"},
	{id: "snyk", name: "Snyk", unconfirmed: true, scheme: &signed{sig: "X-Hub-Signature", prefix: "sha256="}, eventType: "X-Snyk-Event"},
	{id: "sonarqube", name: "SonarQube", unconfirmed: true, scheme: &signed{sig: "X-Sonar-Webhook-HMAC-SHA256"}},
	{id: "cal-com", name: "Cal.com", unconfirmed: true, scheme: &signed{sig: "X-Cal-Signature-256"}, eventType: "/triggerEvent"},
	{id: "dwolla", name: "Dwolla", unconfirmed: true, scheme: &signed{sig: "X-Request-Signature-SHA-256"}, eventID: "/id", idSigned: true, eventType: "/topic"},
	{id: "unit", name: "Unit", unconfirmed: true, scheme: &signed{sig: "X-Unit-Signature", enc: base64Encoding, alg: hmacSHA1}, eventType: "/data/0/type"},
	{id: "checkr", name: "Checkr", unconfirmed: true, scheme: &signed{sig: "X-Checkr-Signature"}, eventID: "/id", idSigned: true, eventType: "/type"},
	{id: "veriff", name: "Veriff", unconfirmed: true, scheme: &signed{sig: "X-Hmac-Signature"}},
}
