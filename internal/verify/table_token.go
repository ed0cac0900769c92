package verify

// tokenRow is a provider that sends a shared token in a header or elsewhere. Nothing of the request is covered by it.
func tokenRow(id, name, docs string, in ...string) row {
	return row{id: id, name: name, docs: docs, scheme: token{in: in}, secret: "the shared token", sender: true}
}

func basicRow(id, name, docs string) row {
	return row{id: id, name: name, docs: docs, scheme: basic{}, secret: "user:password", sender: true, minSecret: 3}
}

// freeToken is for providers in which the user chooses the header.
func freeToken(id, name, docs string) row {
	r := tokenRow(id, name, docs)
	r.scheme, r.options = token{in: []string{"Authorization"}, scheme: "Bearer", bare: true, chosen: true}, []string{"header", "query"}
	return r
}

var tokenRows = []row{
	edited(freeToken("token", "Shared token, described by options", ""), func(r *row) {
		r.generic, r.secret = true, "a token of your own making, also given to the sender"
		r.options = append(r.options, "event_id", "event_type")
	}),
	edited(basicRow("basic", "HTTP basic authentication", ""), func(r *row) {
		r.generic, r.options = true, []string{"event_id", "event_type"}
	}),
	edited(tokenRow("telegram", "Telegram bots", "https://core.telegram.org/bots/api#setwebhook", "X-Telegram-Bot-Api-Secret-Token"), func(r *row) {
		r.eventID, r.idStable = "/update_id", true
		r.accepted = Answer{Status: 200}
	}),
	edited(tokenRow("okta", "Okta event hooks", "https://developer.okta.com/docs/concepts/event-hooks/", "Authorization"), func(r *row) {
		r.scheme, r.options = token{in: []string{"Authorization"}, chosen: true}, []string{"header"}
		r.eventID, r.idStable, r.eventType = "/eventId", true, "/data/events/0/eventType"
		r.accepted, r.handshakes = Answer{Status: 200}, []handshake{oktaChallenge}
		r.interactive = "Inline hooks: Okta waits for the application's answer."
	}),
	edited(tokenRow("auth0", "Auth0 log streams", "https://auth0.com/docs/customize/log-streams/custom-log-streams", "Authorization"), func(r *row) {
		r.eventType = "/0/data/type"
	}),
	edited(tokenRow("figma", "Figma", "https://developers.figma.com/docs/rest-api/webhooks/", "/passcode"), func(r *row) {
		r.eventID, r.idStable, r.eventType = "/webhook_id + /event_type + /timestamp", true, "/event_type"
		r.accepted = Answer{Status: 200}
		r.traps = "The passcode stays in the stored body. An answer of 400 stops the webhook for good, so a wrong passcode gets 401."
	}),
	edited(tokenRow("flutterwave-v3", "Flutterwave v3", "https://developer.flutterwave.com/docs/webhooks", "Verif-Hash"), func(r *row) {
		r.unconfirmed, r.eventID, r.eventType, r.accepted = true, "/event + /data/id", "/event", Answer{Status: 200}
	}),
	edited(tokenRow("huggingface", "Hugging Face", "https://huggingface.co/docs/hub/webhooks", "X-Webhook-Secret", "query:secret"), func(r *row) {
		r.eventType = "/event/action + /event/scope"
	}),
	edited(tokenRow("cloudflare-notifications", "Cloudflare notifications", "https://developers.cloudflare.com/notifications/get-started/configure-webhooks/", "Cf-Webhook-Auth"), func(r *row) {
		r.eventType = "/alert_type"
	}),
	edited(tokenRow("buildkite-token", "Buildkite (token)", "https://buildkite.com/docs/apis/webhooks", "X-Buildkite-Token"), func(r *row) {
		r.eventType = "X-Buildkite-Event"
	}),
	edited(basicRow("postmark", "Postmark", "https://postmarkapp.com/developer/webhooks/webhooks-overview"), func(r *row) {
		r.eventID, r.eventType, r.accepted = "/MessageID + /RecordType", "/RecordType", Answer{Status: 200}
		r.traps = "Write the user and password into the URL that you give to Postmark. Several opens or clicks of one message share its id."
	}),
	edited(basicRow("chargebee", "Chargebee", "https://www.chargebee.com/docs/2.0/events_and_webhooks.html"), func(r *row) {
		r.eventID, r.idStable, r.eventType = "/id", true, "/event_type"
	}),
	edited(basicRow("pipedrive", "Pipedrive", "https://pipedrive.readme.io/docs/guide-for-webhooks-v2"), func(r *row) {
		r.eventType = "/meta/action + /meta/entity"
	}),
	basicRow("recurly-xml", "Recurly (XML)", "https://docs.recurly.com/recurly-subscriptions/docs/webhooks"),
	edited(basicRow("ethoca", "Ethoca Alerts", "https://developer.mastercard.com/ethoca-alerts-for-merchants/documentation/api-basics/"), func(r *row) {
		r.eventType = "/alertType"
		r.traps = "Ethoca also presents a client certificate; check it in Caddy's tls block."
	}),
	edited(tokenRow("mailchimp", "Mailchimp", "https://mailchimp.com/developer/marketing/guides/sync-audience-data-webhooks/", "query:secret"), func(r *row) {
		r.scheme, r.options = token{in: []string{"query:secret"}, chosen: true}, []string{"query"}
		r.eventID, r.eventType, r.handshakes = "form:type + form:data[id] + form:fired_at", "form:type", []handshake{getOK}
		r.traps = "Put ?secret=<token> into the URL that you give to Mailchimp."
	}),
	edited(tokenRow("microsoft-graph", "Microsoft Graph", "https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks", "/clientState"), func(r *row) {
		r.scheme, r.secret, r.secretOptional = token{in: []string{"/clientState"}, each: "/value"}, "clientState", true
		r.eventType, r.accepted, r.handshakes = "/value/0/changeType", Answer{Status: 202}, []handshake{validationToken}
		r.alike, r.traps = true, "Without clientState only the registration is answered. It stays in the stored body. Two changes of a thing may have the same body, so nothing is taken for a repeat."
	}),
	edited(tokenRow("sharepoint", "SharePoint", "https://learn.microsoft.com/en-us/sharepoint/dev/apis/webhooks/overview-sharepoint-webhooks", "/clientState"), func(r *row) {
		r.scheme, r.secret, r.secretOptional = token{in: []string{"/clientState"}, each: "/value"}, "clientState", true
		r.handshakes = []handshake{validationToken}
		r.alike, r.traps = true, "A request says only that a list changed: different changes have the same body, so nothing is taken for a repeat."
	}),
	edited(tokenRow("ringcentral", "RingCentral", "https://developers.ringcentral.com/guide/notifications/webhooks/receiving", "Verification-Token"), func(r *row) {
		r.eventID, r.idStable, r.eventType, r.accepted, r.handshakes = "/uuid", true, "/event", Answer{Status: 200}, []handshake{validationHeader}
	}),
	edited(tokenRow("meraki", "Cisco Meraki", "https://developer.cisco.com/meraki/webhooks/", "/sharedSecret"), func(r *row) {
		r.eventID, r.eventType, r.traps = "/alertId", "/alertTypeId", "The secret stays in the stored body."
	}),
	edited(tokenRow("deepgram", "Deepgram", "https://developers.deepgram.com/reference", "Dg-Token"), func(r *row) { r.eventID = "/request_id" }),
	edited(tokenRow("cloudsignal", "CloudSignal (Cloudprinter)", "https://docs.cloudprinter.com/client/cloudsignal-webhooks-v2-0", "/apikey"), func(r *row) {
		r.eventType, r.accepted, r.traps = "/type", Answer{Status: 200}, "The key stays in the stored body."
	}),
	edited(freeToken("strapi", "Strapi", "https://docs.strapi.io/cms/backend-customization/webhooks"), func(r *row) {
		r.unconfirmed, r.eventType = true, "X-Strapi-Event | /event"
	}),
	edited(freeToken("supabase-database", "Supabase database webhooks", "https://supabase.com/docs/guides/database/webhooks"), func(r *row) {
		r.eventType = "/type + /table"
	}),
	edited(freeToken("freshdesk", "Freshdesk automations", ""), func(r *row) { r.unconfirmed = true }),
	edited(freeToken("datadog", "Datadog", "https://docs.datadoghq.com/integrations/webhooks/"), func(r *row) { r.unconfirmed = true }),
	edited(freeToken("new-relic", "New Relic", ""), func(r *row) { r.unconfirmed = true }),
	edited(tokenRow("openclaw", "OpenClaw", "https://docs.openclaw.ai/automation/webhook", "X-Openclaw-Token", "Authorization"), func(r *row) {
		r.scheme = token{in: []string{"X-Openclaw-Token", "Authorization"}, scheme: "Bearer", bare: true}
	}),
	edited(tokenRow("vapi", "Vapi", "https://docs.vapi.ai/server-url", "X-Vapi-Secret"), func(r *row) {
		r.unconfirmed, r.eventType = true, "/message/type"
		r.interactive = "Assistant requests and tool calls: Vapi waits for the application's answer."
	}),
	edited(freeToken("nango", "Nango", ""), func(r *row) { r.unconfirmed = true }),
	edited(freeToken("azure-event-grid", "Azure Event Grid", "https://learn.microsoft.com/en-us/azure/event-grid/end-point-validation-event-grid-events-schema"), func(r *row) {
		r.secretOptional, r.secret = true, "the value of a delivery header, or of a query parameter, of your own making"
		r.eventID, r.idStable, r.eventType = "/0/id | Ce-Id | /id", true, "/0/eventType | Ce-Type | /type"
		r.accepted, r.handshakes = Answer{Status: 200}, []handshake{eventGridValidation, cloudEventsOptions}
		r.traps = "Without a secret only the registration is answered."
	}),
	edited(freeToken("cloudevents", "CloudEvents webhooks", "https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md"), func(r *row) {
		r.secretOptional, r.scheme = true, token{in: []string{"Authorization", "query:access_token"}, scheme: "Bearer", bare: true, chosen: true}
		r.eventID, r.idStable, r.eventType = "Ce-Id | /id", true, "Ce-Type | /type"
		r.handshakes = []handshake{cloudEventsOptions}
		r.traps = "Without a secret only the OPTIONS request is answered."
	}),
}
