package verify

// paymobFields are the values that Paymob signs, in its order.
//
//nolint:misspell // as Paymob spells it
const paymobFields = "{sig.json./obj/amount_cents}{sig.json./obj/created_at}{sig.json./obj/currency}{sig.json./obj/error_occured}" +
	"{sig.json./obj/has_parent_transaction}{sig.json./obj/id}{sig.json./obj/integration_id}{sig.json./obj/is_3d_secure}" +
	"{sig.json./obj/is_auth}{sig.json./obj/is_capture}{sig.json./obj/is_refunded}{sig.json./obj/is_standalone_payment}" +
	"{sig.json./obj/is_voided}{sig.json./obj/order/id}{sig.json./obj/owner}{sig.json./obj/pending}" +
	"{sig.json./obj/source_data/pan}{sig.json./obj/source_data/sub_type}{sig.json./obj/source_data/type}{sig.json./obj/success}"

// fieldsRows have their signature within the body, or sign some of its fields instead of its bytes. They prove the sender
// and those fields; sender is set where the rest could be anything.
var fieldsRows = []row{
	{
		id: "mailgun", name: "Mailgun", docs: "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks", secret: "the HTTP webhook signing key", sender: true,
		scheme: mailgunScheme{}, once: true,
		eventID: "/event-data/id | form:token", idStable: true, eventType: "/event-data/event | form:event", options: []string{"tolerance"},
		traps: "Only the time and a token are signed: whoever has seen one request can put any event beside them while the time is valid, so each token is accepted once.",
	},
	{
		id: "adyen", name: "Adyen (standard notifications)", docs: "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/", secret: "the HMAC key, in hex",
		scheme: adyenScheme{}, sender: true, eventType: "/notificationItems/0/NotificationRequestItem/eventCode",
		eventID: "/notificationItems/0/NotificationRequestItem/pspReference + /notificationItems/0/NotificationRequestItem/eventCode" +
			" + /notificationItems/0/NotificationRequestItem/success",
		accepted: Answer{Status: 200, ContentType: "text/plain", Body: "[accepted]"},
		traps:    "Eight fields of each item are signed; eventDate, reason and others are not. Adyen also sends basic authentication if configured.",
	},
	{
		id: "braintree", name: "Braintree", docs: "https://developer.paypal.com/braintree/docs/guides/webhooks/overview", secret: "public key and private key: public:private",
		scheme: braintreeScheme{}, once: true, accepted: Answer{Status: 200}, handshakes: []handshake{braintreeChallenge}, minSecret: 3,
	},
	{
		id: "dropbox-sign", name: "Dropbox Sign (HelloSign)", aliases: []string{"hellosign"}, docs: "https://developers.hellosign.com/docs/events/overview/", secret: "the API key", sender: true,
		scheme: dropboxSignScheme{}, eventID: "/event/event_hash", idStable: true, eventType: "/event/event_type", accepted: Answer{Status: 200, ContentType: "text/plain", Body: "Hello API Event Received"},
		traps: "Only the event's time and type are signed. The body is a multipart form.",
	},
	{
		id: "paddle-classic", name: "Paddle Classic", docs: "https://developer.paddle.com/classic/", secret: "the public key, PEM",
		scheme: paddleClassicScheme{}, eventID: "form:alert_id", idStable: true, idSigned: true, eventType: "form:alert_name", accepted: Answer{Status: 200},
	},
	{
		id: "cloudinary", name: "Cloudinary", docs: "https://cloudinary.com/documentation/notification_signatures", secret: "the account's API secret",
		scheme:  cloudinaryScheme{},
		options: []string{"algorithm"}, eventID: "/asset_id + /notification_type", eventType: "/notification_type",
		traps: "A plain digest with SHA-1 or, if the account says so, SHA-256; algorithm accepts only one of them.",
	},
	{
		id: "exact-online", name: "Exact Online", docs: "https://support.exactonline.com/community/s/article/All-All-DNO-Content-webhookstut", secret: "the webhook secret of the App Center",
		scheme: &signed{sig: "/HashCode", enc: upperHex, message: []string{"{sig.raw./Content}"}}, once: true,
		eventType: "/Content/Topic + /Content/Action", handshakes: []handshake{emptyPost},
	},
	{
		id: "paymob", name: "Paymob", docs: "https://developers.paymob.com/paymob-docs/developers/webhook-callbacks-and-hmac", secret: "the HMAC secret", sender: true,
		scheme:  &signed{sig: "query:hmac", alg: hmacSHA512, message: []string{paymobFields}},
		eventID: "/obj/id", eventType: "/type", traps: "Twenty fields of the transaction are signed, the rest of the body is not.",
	},
	{
		id: "treezor", name: "Treezor", docs: "https://docs.treezor.com/guide/webhooks/integrity-checks.html", secret: "the webhook secret", sender: true,
		scheme:  &signed{sig: "/object_payload_signature", enc: base64Encoding, message: []string{"{sig.built}"}, prepare: treezorPayload, shape: shapeTreezor},
		eventID: "/webhook_id", idStable: true, eventType: "/webhook", accepted: Answer{Status: 200}, traps: "Only object_payload is signed.",
	},
	{
		id: "usps", name: "USPS tracking subscriptions", docs: "https://developers.usps.com/subscriptions-trackingv3r2", secret: "the subscription's 32-character secret", sender: true,
		scheme: &signed{sig: "X-HMAC", enc: base64Encoding, message: []string{"{sig.json./timestamp}{sig.json./payload}"}}, eventType: "/subscriptionType",
	},
	{
		id: "praxis", name: "Praxis", docs: "https://docs.praxis.tech/docs/authentication", secret: "the merchant secret", sender: true,
		scheme: &signed{sig: "Gt-Authentication", alg: plainSHA384, message: []string{
			"{sig.json./merchant_id}{sig.json./application_key}{sig.json./timestamp}{sig.json./customer/customer_token}{sig.json./session/order_id}" +
				"{sig.json./transaction/tid}{sig.json./transaction/currency}{sig.json./transaction/amount}{sig.json./transaction/conversion_rate}" +
				"{sig.json./transaction/processed_currency}{sig.json./transaction/processed_amount}{sig.secret}",
			"{sig.json./event}{sig.json./merchant_id}{sig.json./application_key}{sig.json./cid}{sig.json./plan_id}{sig.json./subscription_id}" +
				"{sig.json./subscription_status}{sig.json./timestamp}{sig.secret}",
		}},
		eventType:   "/event | /transaction/transaction_status",
		interactive: "All notifications: Praxis wants an answer that is signed with the merchant secret.",
	},
	{
		id: "paypro-global", name: "PayPro Global", docs: "https://developers.payproglobal.com/docs/integrate-with-paypro-global/webhook-ipn/", secret: "the validation key", sender: true,
		scheme: &signed{sig: "form:SIGNATURE", alg: plainSHA256, message: []string{
			"{sig.form.ORDER_ID}{sig.form.ORDER_STATUS}{sig.form.ORDER_TOTAL_AMOUNT}{sig.form.CUSTOMER_EMAIL}{sig.secret}{sig.form.TEST_MODE}{sig.form.IPN_TYPE_NAME}",
		}},
		eventType: "form:IPN_TYPE_NAME", accepted: Answer{Status: 200}, traps: "Seven fields are signed, the rest of the body is not.",
	},
	{
		id: "quoter", name: "Quoter", docs: "https://help.quoter.com/hc/en-us/articles/32085971955355-Integrate-with-Webhooks", secret: "the hash key",
		scheme: &signed{sig: "form:hash", ts: "form:timestamp", alg: plainMD5, message: []string{"{sig.secret}{sig.timestamp}{sig.form.data}"}}, once: true,
		traps: "A plain MD5 digest, the weakest proof here; limit the senders' addresses too.",
	},
	{
		id: "midtrans", name: "Midtrans", unconfirmed: true, docs: "https://docs.midtrans.com/docs/https-notification-webhooks", secret: "the server key", sender: true,
		scheme:  &signed{sig: "/signature_key", alg: plainSHA512, message: []string{"{sig.json./order_id}{sig.json./status_code}{sig.json./gross_amount}{sig.secret}"}},
		eventID: "/transaction_id + /transaction_status", eventType: "/transaction_status", traps: "Three fields are signed, the rest of the body is not.",
	},
}
