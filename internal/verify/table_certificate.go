package verify

// certificateRows are signed with a certificate's key, and say where the certificate is. It is fetched from the provider's
// own hosts only.
var certificateRows = []row{
	{
		id: "aws-sns", name: "AWS SNS", docs: "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html", secret: "the topic's ARN",
		scheme: snsScheme{}, options: []string{"certificate"}, eventID: "/MessageId", idStable: true, idSigned: true, eventType: "/Type",
		handshakes: []handshake{snsConfirmation}, maxBody: 256 << 10,
		traps: "A genuine signature proves some topic of SNS, so the ARN of yours is the secret. Raw message delivery is not signed and is refused.",
	},
	{
		id: "paypal", name: "PayPal", docs: "https://developer.paypal.com/api/rest/webhooks/rest/", secret: "the webhook id", sender: true,
		scheme: paypalScheme{}, once: true, options: []string{"certificate", "tolerance"}, eventID: "/id", idStable: true, eventType: "/event_type",
		traps: "Of the body only a CRC-32 is signed, for which other bodies can be made: ask PayPal's API before money moves. Events of the simulator do not verify.",
	},
}

// noneRows prove nothing. Their rows answer handshakes and find the event's id and type.
var noneRows = []row{
	{id: "mollie-legacy", name: "Mollie (classic)", docs: "https://docs.mollie.com/reference/webhooks", accepted: Answer{Status: 200}, alike: true, traps: "Fetch the payment from Mollie's API to learn its state. Each change sends the same body, so nothing is taken for a repeat."},
	{id: "docker-hub", name: "Docker Hub", docs: "https://docs.docker.com/docker-hub/repos/manage/webhooks/", unconfirmed: true, eventID: "/push_data/pushed_at + /push_data/tag"},
	{
		id: "strava", name: "Strava", docs: "https://developers.strava.com/docs/webhooks/", options: []string{"verify_token"}, eventType: "/object_type + /aspect_type", accepted: Answer{Status: 200},
		handshakes: []handshake{stravaChallenge},
	},
	{id: "zapier", name: "Zapier (REST hooks)", unconfirmed: true, docs: "https://docs.zapier.com/platform/build/hook-trigger", handshakes: []handshake{hookSecret}},
	{id: "shipstation", name: "ShipStation v1", docs: "https://help.shipstation.com/hc/en-us/articles/360025856252-ShipStation-Webhooks", eventType: "/resource_type", traps: "Fetch resource_url with your own credentials, and only from ShipStation's host."},
	{id: "zift", name: "Zift", docs: "https://api.zift.io/#webhooks", eventID: "/notificationId", idStable: true, eventType: "/eventCode", interactive: "All notifications: Zift wants the notification's id in the answer."},
	{
		id: "salesforce", name: "Salesforce outbound messages", docs: "https://developer.salesforce.com/docs/atlas.en-us.api.meta/api/sforce_api_om_outboundmessaging.htm",
		accepted: Answer{Status: 200, ContentType: "text/xml", Body: `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><notificationsResponse xmlns="http://soap.sforce.com/2005/09/outbound"><Ack>true</Ack></notificationsResponse></soapenv:Body></soapenv:Envelope>`},
		traps:    "Check OrganizationId in the message, and ask for Salesforce's client certificate in Caddy's tls block.",
	},
	{id: "airtable-automations", name: "Airtable automations", unconfirmed: true, traps: "Airtable's scripts can send a token of your own: use token then."},
}
