package verify

import "time"

// bodyRows sign the raw body, and nothing else, with an HMAC in one header. No time is signed, so a captured request stays
// valid for ever; dedupe has to recognise it.
var bodyRows = []row{
	{
		id: "hmac", name: "HMAC, described by options", generic: true, secret: "a secret of your own making, also given to the sender",
		scheme: genericHMAC{}, options: []string{
			"signature_header", "signature_key", "timestamp_key", "separator", "prefix", "algorithm", "encoding", "template",
			"timestamp_header", "timestamp_unit", "tolerance", "id_header", "key_encoding", "event_id", "event_type",
		},
	},
	{
		// GitHub also sends X-Hub-Signature with SHA-1. It is ignored: a sender must not choose the weaker one.
		id: "github", name: "GitHub", docs: "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
		scheme:  &signed{sig: "X-Hub-Signature-256", prefix: "sha256="},
		eventID: "X-GitHub-Delivery", idStable: true, eventType: "X-GitHub-Event", maxBody: 25 << 20,
		traps: "GitHub does not retry by itself; a redelivery by hand keeps the delivery id, which is not signed.",
	},
	{
		id: "bitbucket", name: "Bitbucket", docs: "https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
		scheme:  &signed{sig: "X-Hub-Signature", prefix: "sha256="},
		eventID: "X-Request-UUID", eventType: "X-Event-Key",
		traps: "The header's name suggests SHA-1, but it is SHA-256; it is absent when the webhook has no secret.",
	},
	{
		id: "gitea", name: "Gitea", docs: "https://docs.gitea.com/usage/webhooks", aliases: []string{"gogs"},
		scheme: &signed{sig: "X-Gitea-Signature | X-Gogs-Signature", message: []string{"{sig.built}"}, prepare: giteaPayload}, once: true, methods: []string{"POST", "GET"},
		eventID: "X-Gitea-Delivery | X-Gogs-Delivery", idStable: true, eventType: "X-Gitea-Event-Type | X-Gitea-Event | X-Gogs-Event",
		traps: "Without a secret the header is there but empty. With content type form, or method GET, the JSON in the field payload is signed, not the form.",
	},
	{
		id: "forgejo", name: "Forgejo", docs: "https://forgejo.org/docs/latest/user/webhooks/",
		scheme: &signed{sig: "X-Forgejo-Signature | X-Gitea-Signature", message: []string{"{sig.built}"}, prepare: giteaPayload}, once: true, methods: []string{"POST", "GET"},
		eventID: "X-Forgejo-Delivery | X-Gitea-Delivery", idStable: true, eventType: "X-Forgejo-Event | X-Gitea-Event",
	},
	{
		id: "jira", name: "Jira", docs: "https://developer.atlassian.com/cloud/jira/platform/webhooks/",
		scheme:  &signed{sig: "X-Hub-Signature", prefix: "sha256="},
		eventID: "X-Atlassian-Webhook-Identifier", idStable: true, eventType: "/webhookEvent",
		traps: "Only webhooks that were made with a secret are signed; those made in the user interface often are not.",
	},
	{
		id: "meta", name: "Meta (Facebook, Instagram, Messenger, WhatsApp, Threads)", secret: "the app secret",
		aliases: []string{"facebook", "instagram", "messenger", "whatsapp", "threads"},
		docs:    "https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
		scheme:  &signed{sig: "X-Hub-Signature-256", prefix: "sha256="},
		options: []string{"verify_token"}, eventType: "/object + /entry/0/changes/0/field | /object", maxBody: 3 << 20, retries: 168 * time.Hour,
		accepted: Answer{Status: 200}, handshakes: []handshake{hubChallenge},
		traps: "Set verify_token to the token you enter at Meta, or anybody can pass the registration check. One request may hold up to 1,000 events.",
	},
	{
		id: "intercom", name: "Intercom", docs: "https://developers.intercom.com/docs/webhooks", secret: "the app's client secret",
		scheme:  &signed{sig: "X-Hub-Signature", prefix: "sha1=", alg: hmacSHA1},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/topic", handshakes: []handshake{headOK},
	},
	{
		id: "x", name: "X (Twitter)", aliases: []string{"twitter"}, docs: "https://docs.x.com/x-api/webhooks/quickstart", secret: "the consumer secret (API secret key)",
		scheme:   &signed{sig: "X-Twitter-Webhooks-Signature", prefix: "sha256=", enc: base64Encoding, prepare: noChallenge},
		accepted: Answer{Status: 200}, handshakes: []handshake{crcToken},
	},
	{
		id: "dropbox", name: "Dropbox", docs: "https://www.dropbox.com/developers/reference/webhooks", secret: "the app secret",
		scheme: &signed{sig: "X-Dropbox-Signature"}, handshakes: []handshake{challengeText}, alike: true,
		traps: "The body only lists accounts: different changes have the same body, so nothing is taken for a repeat. Where one change a minute is enough, write dedupe body with ttl 1m.",
	},
	{
		id: "notion", secretOptional: true, name: "Notion", docs: "https://developers.notion.com/reference/webhooks", secret: "the verification token of the first request",
		scheme:  &signed{sig: "X-Notion-Signature", prefix: "sha256="},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type", handshakes: []handshake{notionToken},
		traps: "The first request brings the token that becomes the secret: start without a secret, read the token in Notion's settings or in the log, and configure it. Until then deliveries get 503.",
	},
	{
		id: "line", name: "LINE", docs: "https://developers.line.biz/en/docs/messaging-api/verify-webhook-signature/", secret: "the channel secret",
		scheme: &signed{sig: "X-Line-Signature", enc: base64Encoding}, eventType: "/events/0/type", accepted: Answer{Status: 200},
		traps: "One request may hold several events, and a redelivery has another body.",
	},
	{
		id: "viber", name: "Viber", docs: "https://developers.viber.com/docs/api/rest-bot-api/", secret: "the bot's auth token",
		scheme:  &signed{sig: "X-Viber-Content-Signature"},
		eventID: "/message_token", idSigned: true, eventType: "/event", accepted: Answer{Status: 200},
	},
	{
		id: "shopify", name: "Shopify", docs: "https://shopify.dev/docs/apps/build/webhooks", secret: "the app's client secret",
		scheme:  &signed{sig: "Shopify-Hmac-Sha256 | X-Shopify-Hmac-Sha256", enc: base64Encoding},
		eventID: "X-Shopify-Event-Id | Shopify-Event-Id", idStable: true, eventType: "X-Shopify-Topic | Shopify-Topic",
		traps: "The digest is base64, not hex. The event id is not signed.",
	},
	{
		id: "woocommerce", name: "WooCommerce", docs: "https://developer.woocommerce.com/docs/webhooks/",
		scheme:    &signed{sig: "X-WC-Webhook-Signature", enc: base64Encoding, key: wordpressKey},
		eventType: "X-WC-Webhook-Topic", accepted: Answer{Status: 200}, handshakes: []handshake{wooPing},
		traps: "The delivery id is new for each delivery and not unique within a second. Entities in the secret are decoded as WordPress does.",
	},
	{
		id: "razorpay", name: "Razorpay", docs: "https://razorpay.com/docs/webhooks/validate-test/",
		scheme:  &signed{sig: "X-Razorpay-Signature"},
		eventID: "X-Razorpay-Event-Id", idStable: true, eventType: "/event",
	},
	{
		id: "paystack", name: "Paystack", docs: "https://paystack.com/docs/payments/webhooks/", secret: "the API secret key",
		scheme:  &signed{sig: "X-Paystack-Signature", alg: hmacSHA512},
		eventID: "/event + /data/id", idSigned: true, eventType: "/event", accepted: Answer{Status: 200},
	},
	{
		id: "flutterwave", name: "Flutterwave v4", unconfirmed: true, docs: "https://developer.flutterwave.com/docs/webhooks", secret: "the secret hash",
		scheme:    &signed{sig: "Flutterwave-Signature", enc: base64Encoding},
		eventType: "/type", traps: "Version 3 sends a bare token instead: use flutterwave-v3.",
	},
	{
		id: "checkout-com", name: "Checkout.com", docs: "https://www.checkout.com/docs/workflows", secret: "the webhook signature key",
		scheme:  &signed{sig: "Cko-Signature"},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
	},
	{
		id: "lemonsqueezy", name: "Lemon Squeezy", docs: "https://docs.lemonsqueezy.com/help/webhooks/signing-requests",
		scheme: &signed{sig: "X-Signature"}, eventType: "X-Event-Name | /meta/event_name", accepted: Answer{Status: 200},
	},
	{
		// Several header lines, one for each active secret, are this provider's way of rotating.
		id: "mollie", name: "Mollie (next generation)", docs: "https://docs.mollie.com/reference/webhooks",
		scheme:  &signed{sig: "X-Mollie-Signature", prefix: "sha256=", bare: true, multi: true},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
		traps: "Classic webhooks (form body id=tr_…) are unsigned and refused here: use mollie-legacy for them.",
	},
	{
		id: "gocardless", name: "GoCardless", docs: "https://developer.gocardless.com/api-reference/#appendix-webhooks",
		scheme:    &signed{sig: "Webhook-Signature"},
		eventType: "/events/0/resource_type + /events/0/action", traps: "One request may hold several events.",
	},
	{
		id: "coinbase-commerce", name: "Coinbase Commerce", docs: "https://docs.cdp.coinbase.com/commerce-onchain/docs/webhooks-security", secret: "the webhook shared secret",
		scheme:  &signed{sig: "X-CC-Webhook-Signature"},
		eventID: "/event/id", idStable: true, idSigned: true, eventType: "/event/type", accepted: Answer{Status: 200},
		traps: "Reported shut down in March 2026; coinbase-cdp is its successor.",
	},
	{
		id: "typeform", name: "Typeform", docs: "https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
		scheme:  &signed{sig: "Typeform-Signature", prefix: "sha256=", enc: base64Encoding},
		eventID: "/event_id", idSigned: true, eventType: "/event_type",
	},
	{
		id: "xero", name: "Xero", docs: "https://developer.xero.com/documentation/guides/webhooks/overview/", secret: "the webhook signing key",
		scheme:    &signed{sig: "X-Xero-Signature", enc: base64Encoding},
		eventType: "/events/0/eventCategory", accepted: Answer{Status: 200}, refused: Answer{Status: 401}, handshakes: []handshake{xeroIntent},
		traps: "The key looks like base64 but is used as it is. Xero's check at registration needs exactly 200 and 401, as answered here.",
	},
	{
		id: "quickbooks", name: "QuickBooks (Intuit)", docs: "https://developer.intuit.com/app/developer/qbo/docs/develop/webhooks/managing-webhooks-notifications", secret: "the verifier token",
		scheme:    &signed{sig: "Intuit-Signature", enc: base64Encoding},
		eventType: "/eventNotifications/0/dataChangeEvent/entities/0/operation | /0/type", accepted: Answer{Status: 200},
		traps: "One request may hold several events.",
	},
	{
		id: "docusign", name: "DocuSign Connect", docs: "https://developers.docusign.com/platform/webhooks/connect/validate/", secret: "the Connect HMAC key",
		scheme:  &signed{sig: "X-DocuSign-Signature-", enc: base64Encoding, numbered: true},
		eventID: "/data/envelopeId + /event + /generatedDateTime", idStable: true, idSigned: true, eventType: "/event",
		retries: 15 * 24 * time.Hour, traps: "There is one header for each active key; any of them may match.",
	},
	{
		id: "adyen-platform", name: "Adyen (balance platform, management)", docs: "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/", secret: "the HMAC key, in hex",
		scheme:    &signed{sig: "HmacSignature", enc: base64Encoding, key: hexKey, fixed: []fixedHeader{{name: "Protocol", value: "HmacSHA256"}}},
		eventType: "/type",
	},
	{
		id: "vercel", name: "Vercel", docs: "https://vercel.com/docs/webhooks", secret: "the integration's or webhook's secret",
		scheme:  &signed{sig: "X-Vercel-Signature", alg: hmacSHA1},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
		options: []string{"verify_header"}, handshakes: []handshake{vercelVerify},
		traps: "For log drains set verify_header to the token that Vercel shows; it is answered in x-vercel-verify.",
	},
	{
		id: "sentry", name: "Sentry", docs: "https://docs.sentry.io/organization/integrations/integration-platform/webhooks/", secret: "the integration's client secret",
		scheme:  &signed{sig: "Sentry-Hook-Signature"},
		eventID: "Request-ID", eventType: "Sentry-Hook-Resource + /action", traps: "Sentry-Hook-Timestamp is not signed. Sentry waits for one second only.",
	},
	{
		id: "discourse", name: "Discourse", docs: "https://meta.discourse.org/t/configure-webhooks-that-trigger-on-discourse-events/49045",
		scheme:    &signed{sig: "X-Discourse-Event-Signature", prefix: "sha256="},
		eventType: "X-Discourse-Event-Type + X-Discourse-Event", traps: "X-Discourse-Event-Id is new on every retry.",
	},
	{
		id: "terraform-cloud", name: "HCP Terraform", unconfirmed: true, aliases: []string{"hcp-terraform"}, secret: "the notification's token",
		docs:      "https://developer.hashicorp.com/terraform/cloud-docs/workspaces/settings/notifications",
		scheme:    &signed{sig: "X-TFE-Notification-Signature | X-TFC-Task-Signature", alg: hmacSHA512},
		eventType: "/notifications/0/trigger", interactive: "Run tasks: Terraform waits for the application's verdict.",
	},
	{
		id: "asana", secretOptional: true, name: "Asana", docs: "https://developers.asana.com/docs/webhooks-guide", secret: "the X-Hook-Secret of the handshake",
		scheme:    &signed{sig: "X-Hook-Signature"},
		eventType: "/events/0/action", accepted: Answer{Status: 200}, handshakes: []handshake{hookSecret},
		traps: "The handshake brings the secret: it is echoed but not kept, so take it from Asana's answer to your registration.",
	},
	{
		id: "cursor", name: "Cursor", docs: "https://docs.cursor.com/account/cloud-agent-webhooks",
		scheme:  &signed{sig: "X-Webhook-Signature", prefix: "sha256="},
		eventID: "X-Webhook-ID", idStable: true, eventType: "X-Webhook-Event | /event",
	},
	{
		id: "pagerduty", name: "PagerDuty v3", docs: "https://developer.pagerduty.com/docs/webhooks/v3-overview/",
		scheme:  &signed{sig: "X-PagerDuty-Signature", prefix: "v1=", list: ","},
		eventID: "/event/id", idStable: true, idSigned: true, eventType: "/event/event_type",
	},
	{
		id: "circleci", name: "CircleCI", docs: "https://circleci.com/docs/outbound-webhooks/",
		scheme:  &signed{sig: "Circleci-Signature", prefix: "v1=", list: ","},
		eventID: "/id", idStable: true, idSigned: true, eventType: "Circleci-Event-Type | /type",
	},
	{
		id: "segment", name: "Segment", aliases: []string{"customerio-cdp"}, docs: "https://segment.com/docs/connections/destinations/catalog/webhooks/", secret: "the shared secret",
		scheme:  &signed{sig: "X-Signature", alg: hmacSHA1},
		eventID: "/messageId", idSigned: true, eventType: "/type",
	},
	{
		id: "onfido", name: "Onfido", docs: "https://documentation.onfido.com/", secret: "the webhook token",
		scheme: &signed{sig: "X-SHA2-Signature"}, eventType: "/payload/action",
	},
	{
		id: "airtable", name: "Airtable", docs: "https://airtable.com/developers/web/api/webhooks-overview", secret: "macSecretBase64, as it was returned",
		scheme:   &signed{sig: "X-Airtable-Content-MAC", prefix: "hmac-sha256=", key: base64Key},
		accepted: Answer{Status: 200}, traps: "The request says only that something changed; fetch the changes by the API.",
	},
	{
		id: "easypost", name: "EasyPost", docs: "https://docs.easypost.com/docs/webhooks",
		scheme:  &signed{sig: "X-Hmac-Signature", prefix: "hmac-sha256-hex=", key: nfkdKey},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/description",
	},
	{
		// The time is a field of the signed body, so it is checked as if it stood in a header.
		id: "linear", name: "Linear", docs: "https://linear.app/developers/webhooks",
		scheme:  &signed{sig: "Linear-Signature", ts: "/webhookTimestamp", unit: milliseconds, window: window{time.Minute, time.Minute}},
		eventID: "Linear-Delivery", idStable: true, eventType: "Linear-Event + /action", accepted: Answer{Status: 200},
	},
	{
		id: "doppler", name: "Doppler", docs: "https://docs.doppler.com/docs/webhooks",
		scheme: &signed{sig: "X-Doppler-Signature", prefix: "sha256="}, eventType: "/type",
	},
	{
		id: "heroku", name: "Heroku", docs: "https://devcenter.heroku.com/articles/app-webhooks",
		scheme:  &signed{sig: "Heroku-Webhook-Hmac-SHA256", enc: base64Encoding},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/resource + /action",
	},
	{
		id: "hookdeck", name: "Hookdeck", docs: "https://hookdeck.com/docs/verification",
		scheme:  &signed{sig: "X-Hookdeck-Signature", enc: base64Encoding},
		eventID: "X-Hookdeck-Eventid", idStable: true, traps: "The prefix of the header's name can be changed per project; use hmac then.",
	},
	{
		id: "nylas", secretOptional: true, name: "Nylas", docs: "https://developer.nylas.com/docs/v3/notifications/webhooks/", secret: "the webhook secret",
		scheme:  &signed{sig: "X-Nylas-Signature"},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type", accepted: Answer{Status: 200}, handshakes: []handshake{challengeText},
		traps: "Compressed bodies are signed compressed, and delivered so.",
	},
}
