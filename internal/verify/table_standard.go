package verify

// standardRow is a provider that uses Standard Webhooks as it is. prefix is that of the headers, event that of the type.
func standardRow(id, name, docs string, s standard) row {
	r := row{
		id: id, name: name, docs: docs, scheme: s, secret: "the signing secret, whsec_…", options: []string{"tolerance"},
		eventID: "Webhook-Id | Svix-Id", idStable: true, idSigned: true, eventType: "/type",
	}
	if s.prefix == "Svix-" {
		r.eventID = "Svix-Id | Webhook-Id"
	}
	return r
}

// svixHeaders are Svix's own, and the standard ones where one of them is missing.
var svixHeaders = standard{prefix: "Svix-", or: "Webhook-"}

// eitherHeaders is for providers of which it is not known which headers they use.
var eitherHeaders = standard{prefix: "Webhook-", or: "Svix-"}

// edited changes a row that is made by a function.
func edited(r row, edit func(r *row)) row {
	edit(&r)
	return r
}

var standardRows = []row{
	edited(standardRow("standard-webhooks", "Standard Webhooks", "https://www.standardwebhooks.com/", standard{}), func(r *row) {
		r.secret, r.generic = "whsec_… for HMAC or whpk_… for Ed25519", true
		r.options = append(r.options, "event_type")
	}),
	standardRow("svix", "Svix", "https://docs.svix.com/receiving/verifying-payloads/how", svixHeaders),
	standardRow("clerk", "Clerk", "https://clerk.com/docs/webhooks/overview", svixHeaders),
	standardRow("resend", "Resend", "https://resend.com/docs/webhooks", svixHeaders),
	edited(standardRow("openai", "OpenAI", "https://platform.openai.com/docs/guides/webhooks", standard{key: whsecOrText, bare: true}), func(r *row) {
		r.accepted = Answer{Status: 200}
	}),
	standardRow("anthropic", "Anthropic managed agents", "https://platform.claude.com/docs/en/managed-agents/webhooks", standard{}),
	edited(standardRow("replicate", "Replicate", "https://replicate.com/docs/webhooks", standard{key: afterUnderscore}), func(r *row) {
		r.eventType = "/status"
	}),
	edited(standardRow("polar", "Polar", "https://polar.sh/docs/integrate/webhooks/delivery", standard{key: utf8Key}), func(r *row) {
		r.secret, r.traps = "the secret as Polar shows it", "Unlike others' secrets it is not decoded."
	}),
	edited(standardRow("supabase", "Supabase auth hooks", "https://supabase.com/docs/guides/auth/auth-hooks", standard{key: versionedWhsec}), func(r *row) {
		r.secret, r.eventType = "the secret, v1,whsec_…", ""
		r.interactive = "All auth hooks: Supabase waits for the application's answer. For database webhooks use supabase-database."
	}),
	{
		id: "gitlab", name: "GitLab", docs: "https://docs.gitlab.com/user/project/integrations/webhooks/", secret: "the secret token, or the signing token whsec_…",
		scheme: standard{token: "X-Gitlab-Token"}, options: []string{"tolerance"},
		eventID: "Idempotency-Key | X-Gitlab-Event-UUID", idStable: true, eventType: "X-Gitlab-Event | /object_kind",
		traps: "Four failures in a row disable the webhook for a while, forty for good. With a signing token only signed requests are accepted; with a secret token a signed request is refused, as its signature cannot be checked.",
	},
	standardRow("render", "Render", "https://render.com/docs/webhooks", eitherHeaders),
	edited(standardRow("lithic", "Lithic", "https://docs.lithic.com/docs/events-api", eitherHeaders), func(r *row) { r.eventType = "/event_type" }),
	standardRow("brex", "Brex", "https://developer.brex.com/docs/webhooks/", eitherHeaders),
	standardRow("stytch", "Stytch", "https://stytch.com/docs/", eitherHeaders),
	standardRow("incident-io", "incident.io", "https://api-docs.incident.io/", eitherHeaders),
	standardRow("beehiiv", "beehiiv", "https://developers.beehiiv.com/", eitherHeaders),
	standardRow("guesty", "Guesty", "https://open-api-docs.guesty.com/", eitherHeaders),
	standardRow("nash", "Nash", "", eitherHeaders),
	standardRow("pleo", "Pleo", "", eitherHeaders),
	standardRow("psi-fi", "Psi-Fi", "", eitherHeaders),
	standardRow("safebase", "SafeBase", "", eitherHeaders),
	standardRow("sardine", "Sardine", "", eitherHeaders),
	standardRow("gemini", "Google Gemini API (static webhooks)", "https://ai.google.dev/gemini-api/docs/webhooks", standard{}),
	edited(standardRow("bigcommerce", "BigCommerce", "https://docs.bigcommerce.com/developer/docs/integrations/webhooks/https", standard{key: utf8Key}), func(r *row) {
		r.secret, r.eventType, r.accepted = "the app's client secret", "/scope", Answer{Status: 200}
	}),
	edited(standardRow("shipbob", "ShipBob", "https://developer.shipbob.com/2026-01/webhooks", standard{}), func(r *row) { r.eventType = "X-Webhook-Topic" }),
	standardRow("dodopayments", "Dodo Payments", "https://docs.dodopayments.com/developer-resources/webhooks", standard{}),
	adopter("kong", "Kong"), adopter("vanta", "Vanta"), adopter("drata", "Drata"), adopter("etsy", "Etsy"), adopter("taskrabbit", "TaskRabbit"),
}

// adopter announced Standard Webhooks; which of its products use them is not confirmed.
func adopter(id, name string) row {
	return edited(standardRow(id, name, "", standard{}), func(r *row) { r.unconfirmed = true })
}
