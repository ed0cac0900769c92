package verify

import "time"

// Messages that several providers sign.
const (
	timeDotBody   = "{sig.timestamp}.{sig.body}"
	timeColonBody = "{sig.timestamp}:{sig.body}"
	timeBody      = "{sig.timestamp}{sig.body}"
	bodyTime      = "{sig.body}{sig.timestamp}"
	v0ColonBody   = "v0:{sig.timestamp}:{sig.body}"
)

// pairsOf is the scheme of a header such as "t=1700000000,v1=…", where the time, a dot and the body are signed.
func pairsOf(header, timeKey, sigKey string) *signed {
	return &signed{sig: header, pairs: ",", tsKey: timeKey, sigKey: sigKey, message: []string{timeDotBody}}
}

// inMilliseconds returns the scheme with another unit.
func inMilliseconds(s *signed) *signed {
	s.unit = milliseconds
	return s
}

// timedRows sign a time, or an id, together with the body. A repeated delivery has another time and another signature.
var timedRows = []row{
	{
		// v0 is for Stripe's own tests and never accepted.
		id: "stripe", name: "Stripe", docs: "https://docs.stripe.com/webhooks/signature", secret: "the endpoint's secret, whsec_ included",
		scheme:  pairsOf("Stripe-Signature", "t", "v1"),
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
		traps: "The secret of the Stripe CLI differs from the dashboard's. Unlike other whsec_ secrets it is not decoded.",
	},
	{
		id: "slack", name: "Slack", docs: "https://docs.slack.dev/authentication/verifying-requests-from-slack", secret: "the app's signing secret",
		scheme:  &signed{sig: "X-Slack-Signature", ts: "X-Slack-Request-Timestamp", prefix: "v0=", message: []string{v0ColonBody}},
		eventID: "/event_id", idStable: true, idSigned: true, eventType: "/event/type | /type",
		accepted: Answer{Status: 200}, handshakes: []handshake{slackChallenge},
		interactive: "Slash commands, shortcuts and modals: Slack shows the application's answer within 3 seconds.",
	},
	{
		id: "zoom", name: "Zoom", docs: "https://developers.zoom.us/docs/api/webhooks/", secret: "the app's secret token",
		scheme:    &signed{sig: "X-Zm-Signature", ts: "X-Zm-Request-Timestamp", prefix: "v0=", unit: eitherUnit, message: []string{v0ColonBody}},
		eventType: "/event", accepted: Answer{Status: 200}, handshakes: []handshake{zoomValidation},
	},
	{
		id: "customerio", name: "Customer.io reporting webhooks", docs: "https://docs.customer.io/integrations/data-out/connections/webhooks/", secret: "the webhook signing key",
		scheme:  &signed{sig: "X-CIO-Signature", ts: "X-CIO-Timestamp", message: []string{v0ColonBody}},
		eventID: "/event_id", idStable: true, idSigned: true, eventType: "/object_type + /metric", retries: 168 * time.Hour,
	},
	{
		id: "zendesk", name: "Zendesk", docs: "https://developer.zendesk.com/documentation/webhooks/verifying/",
		scheme: &signed{sig: "X-Zendesk-Webhook-Signature", ts: "X-Zendesk-Webhook-Signature-Timestamp", enc: base64Encoding, unit: rfc3339, message: []string{timeBody}},
		// Requests of triggers and automations have a body of the user's making, where /id is a ticket's or anything.
		eventID: "/zendesk_event_version + /id", idStable: true, idSigned: true, eventType: "/type", methods: []string{"POST", "PUT", "PATCH", "GET", "DELETE"},
		traps: "Only event subscriptions have an event id; requests of triggers and automations are recognised by their body. Test webhooks are signed with the fixed secret of the documentation; it is used as it is, not decoded. GET and DELETE sign the time only: whoever captures one can change its URL within the tolerance.",
	},
	{
		// Paddle's own library accepts 5 seconds. A slower path needs a wider tolerance, which is the user's to choose.
		id: "paddle", name: "Paddle Billing", docs: "https://developer.paddle.com/webhooks/signature-verification", secret: "the destination's secret key, pdl_ntfset_…",
		scheme:  &signed{sig: "Paddle-Signature", pairs: ";", tsKey: "ts", sigKey: "h1", tight: true, message: []string{timeColonBody}, window: window{past: 5 * time.Second}},
		eventID: "/event_id", idStable: true, idSigned: true, eventType: "/event_type", accepted: Answer{Status: 200},
		traps: "As in Paddle's own library a signature is valid for 5 seconds only; write tolerance 5m when deliveries take longer or clocks differ.",
	},
	{
		id: "workos", name: "WorkOS", docs: "https://workos.com/docs/events/data-syncing/webhooks",
		scheme:  &signed{sig: "WorkOS-Signature", pairs: ",", tsKey: "t", sigKey: "v1", unit: milliseconds, message: []string{timeDotBody}, window: window{past: 180 * time.Second}},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/event",
		interactive: "Actions: WorkOS waits for the application's signed verdict.",
	},
	{
		id: "elevenlabs", name: "ElevenLabs", docs: "https://elevenlabs.io/docs/overview/administration/webhooks",
		scheme:    &signed{sig: "ElevenLabs-Signature", pairs: ",", tsKey: "t", sigKey: "v0", message: []string{timeDotBody}, window: window{past: 30 * time.Minute}},
		eventType: "/type", accepted: Answer{Status: 200},
	},
	{
		id: "mux", name: "Mux", docs: "https://www.mux.com/docs/core/verify-webhook-signatures",
		scheme:  pairsOf("Mux-Signature", "t", "v1"),
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
	},
	{
		id: "sanity", name: "Sanity", docs: "https://www.sanity.io/docs/webhooks",
		scheme:  &signed{sig: "Sanity-Webhook-Signature", pairs: ",", tsKey: "t", sigKey: "v1", enc: base64URL, unit: milliseconds, message: []string{timeDotBody}},
		eventID: "Idempotency-Key", idStable: true, traps: "The body is the user's own projection, so it has no fixed type.",
	},
	{
		id: "webflow", name: "Webflow", docs: "https://developers.webflow.com/data/docs/working-with-webhooks", secret: "the app's client secret, or the webhook's",
		scheme:    &signed{sig: "X-Webflow-Signature", ts: "X-Webflow-Timestamp", unit: milliseconds, message: []string{timeColonBody}},
		eventType: "/triggerType", accepted: Answer{Status: 200}, traps: "Webhooks made in the dashboard are not signed.",
	},
	{
		id: "recurly", name: "Recurly (JSON)", docs: "https://docs.recurly.com/recurly-subscriptions/docs/webhooks",
		scheme:    &signed{sig: "Recurly-Signature", list: ",", lead: true, unit: milliseconds, message: []string{timeDotBody}},
		eventType: "/event_type", traps: "XML notifications are never signed: use recurly-xml for them.",
	},
	{
		id: "ghost", name: "Ghost", docs: "https://docs.ghost.org/webhooks", options: []string{"legacy"},
		scheme: byOption{
			option: "legacy", value: "on",
			then:      &signed{sig: "X-Ghost-Signature", pairs: ",", sigKey: "sha256", tsKey: "t", unit: milliseconds, message: []string{bodyTime, "{sig.body}"}},
			otherwise: &signed{sig: "X-Ghost-Signature", pairs: ",", sigKey: "sha256", tsKey: "t", unit: milliseconds, message: []string{bodyTime}},
		},
		once:  true,
		traps: "Older versions sign the body without the time: write legacy on for them. An answer of 410 deletes the webhook.",
	},
	{
		id: "box", name: "Box", docs: "https://developer.box.com/guides/webhooks/v2/signatures-v2/", secret: "the primary and the secondary key: primary,secondary",
		scheme:  boxScheme{},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/trigger", options: []string{"tolerance"},
		traps: "A signature is valid for 10 minutes, and may be one minute ahead where Box allows none.",
	},
	{
		id: "buildkite", name: "Buildkite (signature)", docs: "https://buildkite.com/docs/apis/webhooks", secret: "the webhook's token",
		scheme:    pairsOf("X-Buildkite-Signature", "timestamp", "signature"),
		eventType: "X-Buildkite-Event", traps: "When Buildkite is set to send the token itself, use buildkite-token.",
	},
	{
		id: "calendly", name: "Calendly", docs: "https://developer.calendly.com/api-docs/ZG9jOjQ2NDA2NA-webhook-signatures", secret: "the signing key",
		scheme: pairsOf("Calendly-Webhook-Signature", "t", "v1"), eventID: "/payload/uri + /event", eventType: "/event",
	},
	{
		id: "persona", name: "Persona", docs: "https://docs.withpersona.com/webhooks-best-practices#checking-signatures", secret: "the webhook secret",
		scheme:  &signed{sig: "Persona-Signature", groups: " ", pairs: ",", tsKey: "t", sigKey: "v1", message: []string{timeDotBody}},
		eventID: "/data/id", idStable: true, idSigned: true, eventType: "/data/attributes/name", accepted: Answer{Status: 200},
	},
	{
		id: "tailscale", name: "Tailscale", docs: "https://tailscale.com/kb/1213/webhooks",
		scheme: pairsOf("Tailscale-Webhook-Signature", "t", "v1"), eventType: "/0/type", traps: "One request may hold several events.",
	},
	{
		id: "twitch", name: "Twitch EventSub", docs: "https://dev.twitch.tv/docs/eventsub/handling-webhook-events/", secret: "the subscription's secret",
		scheme: &signed{
			sig: "Twitch-Eventsub-Message-Signature", ts: "Twitch-Eventsub-Message-Timestamp", id: "Twitch-Eventsub-Message-Id",
			prefix: "sha256=", unit: rfc3339, message: []string{"{sig.id}{sig.timestamp}{sig.body}"}, window: window{past: 10 * time.Minute},
		},
		eventID: "Twitch-Eventsub-Message-Id", idStable: true, idSigned: true, eventType: "Twitch-Eventsub-Subscription-Type",
		once: true, minSecret: 10, handshakes: []handshake{twitchChallenge},
	},
	{
		id: "grafana-ts", name: "Grafana Alerting with a timestamp header", docs: "https://grafana.com/docs/grafana/latest/alerting/", options: []string{"timestamp_header"},
		scheme:    grafanaScheme{},
		eventType: "/status", traps: "Grafana has no default name for the timestamp header; here it is X-Grafana-Alerting-Timestamp.",
	},
	{
		id: "cloudflare-stream", name: "Cloudflare Stream", docs: "https://developers.cloudflare.com/stream/manage-video-library/using-webhooks/",
		scheme: pairsOf("Webhook-Signature", "time", "sig1"), eventType: "/status/state",
	},
	{
		id: "hook0", name: "Hook0", docs: "https://documentation.hook0.com/", secret: "the subscription's secret",
		scheme: hook0Signed, once: true,
		eventID: "X-Event-Id", idStable: true, eventType: "X-Event-Type | /event_type",
	},
	{
		id: "coinbase-cdp", name: "Coinbase Developer Platform", docs: "https://docs.cdp.coinbase.com/webhooks/verify-signatures", secret: "the subscription's secret",
		scheme: hook0Signed, once: true, eventType: "/eventType | /event_type",
		traps: "Where the stronger signature v1 is sent, it alone decides.",
	},
	{
		id: "cashfree", name: "Cashfree", docs: "https://www.cashfree.com/docs/api-reference/vrs/webhook-signature-verification", secret: "the client secret",
		scheme:    &signed{sig: "X-Webhook-Signature", ts: "X-Webhook-Timestamp", enc: base64Encoding, unit: eitherUnit, message: []string{timeBody}},
		eventType: "/type",
	},
	{
		id: "zoho-payments", name: "Zoho Payments", docs: "https://www.zoho.com/in/payments/developerdocs/webhooks/", secret: "the signing key",
		scheme: inMilliseconds(pairsOf("X-Zoho-Webhook-Signature", "t", "v")), eventType: "/event_type", eventID: "/event_id",
	},
	{
		id: "surge", name: "Surge", docs: "https://docs.surge.app/documentation/webhooks",
		scheme: pairsOf("Surge-Signature", "t", "v1"), eventType: "/type", eventID: "/id",
	},
	{
		id: "qonto", name: "Qonto", docs: "https://docs.qonto.com/", scheme: pairsOf("X-Qonto-Signature", "t", "v1"), eventType: "/type",
		traps: "Qonto waits for one second only.",
	},
	{
		id: "lob", name: "Lob", unconfirmed: true, docs: "https://docs.lob.com/",
		scheme:  &signed{sig: "Lob-Signature", ts: "Lob-Signature-Timestamp", unit: eitherUnit, message: []string{timeDotBody}},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/event_type/id",
	},
	{
		id: "airwallex", name: "Airwallex", docs: "https://www.airwallex.com/docs/developer-tools/webhooks/listen-for-webhook-events",
		scheme:  &signed{sig: "X-Signature", ts: "X-Timestamp", unit: milliseconds, message: []string{timeBody}},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/name", accepted: Answer{Status: 200},
	},
	{
		id: "front", name: "Front (application webhooks)", aliases: []string{"frontapp"}, docs: "https://dev.frontapp.com/docs/application-webhooks", secret: "the app's signing key",
		scheme:    &signed{sig: "X-Front-Signature", ts: "X-Front-Request-Timestamp", enc: base64Encoding, unit: milliseconds, message: []string{timeColonBody}},
		eventType: "/type", handshakes: []handshake{frontChallenge},
		traps: "Older rule webhooks sign the body with SHA-1: use hmac with algorithm sha1, encoding base64 and signature_header X-Front-Signature.",
	},
	{
		id: "revolut", name: "Revolut", docs: "https://developer.revolut.com/docs/guides/merchant/monitor-and-observe/webhooks/verify-the-payload-signature",
		scheme:  &signed{sig: "Revolut-Signature", ts: "Revolut-Request-Timestamp", prefix: "v1=", list: ",", unit: milliseconds, message: []string{"v1.{sig.timestamp}.{sig.body}"}},
		eventID: "/order_id + /event", eventType: "/event",
	},
	{
		id: "orb", name: "Orb", docs: "https://docs.withorb.com/integrations-and-exports/webhooks",
		scheme:  &signed{sig: "X-Orb-Signature", ts: "X-Orb-Timestamp", prefix: "v1=", list: " ", unit: rfc3339UTC, message: []string{"v1:{sig.timestamp}:{sig.body}"}},
		eventID: "/id", idStable: true, idSigned: true, eventType: "/type",
	},
}
