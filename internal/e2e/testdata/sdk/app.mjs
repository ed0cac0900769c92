// The SDKs of providers on both sides of a gateway: as the provider that signs, and as the application that checks.
//
// It talks in lines of JSON. First it says where its application listens, and the secrets of all providers. For the line
// {"site": "http://host:port"} it signs an event with each SDK that can, and a forgery, sends both to /<provider> there, and
// tells the answers. For every request that reaches the application it tells whether the provider's SDK takes it for genuine.
import crypto from "node:crypto";
import http from "node:http";
import readline from "node:readline";
import { createRequire } from "node:module";

import * as line from "@line/bot-sdk";
import * as octokit from "@octokit/webhooks-methods";
import { Environment, Paddle } from "@paddle/paddle-node-sdk";
import * as sanity from "@sanity/webhook";
import sendgrid from "@sendgrid/eventwebhook";
import { Receiver } from "@upstash/qstash";
import braintree from "braintree";
import { v2 as cloudinary } from "cloudinary";
import { verifyKey } from "discord-interactions";
import Pusher from "pusher";
import Razorpay from "razorpay";
import { WebhooksHelper } from "square";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as SvixWebhook } from "svix";
import twilio from "twilio";

const require = createRequire(import.meta.url);
const { verifySlackRequest } = require("@slack/bolt/dist/receivers/verify-request.js");

const text = "0123456789abcdef0123456789abcdef";
const whsec = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const seed = Buffer.alloc(32, 7);
const ed25519 = crypto.createPrivateKey({ key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]), format: "der", type: "pkcs8" });
const ed25519Public = crypto.createPublicKey(ed25519).export({ format: "der", type: "spki" }).subarray(12).toString("hex");
const p256 = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
const seconds = () => Math.floor(Date.now() / 1000);
const event = () => JSON.stringify({ id: "evt_" + crypto.randomUUID(), type: "made.up", note: "ç 😀 </script>", amount: 19.9 });
const gateway = new braintree.BraintreeGateway({ environment: braintree.Environment.Sandbox, merchantId: "m", publicKey: "public", privateKey: "private-made-up" });
const pusher = new Pusher({ appId: "1", key: "key-made-up", secret: text, cluster: "eu" });
const paddle = new Paddle("made-up", { environment: Environment.sandbox });
cloudinary.config({ cloud_name: "made-up", api_key: "1", api_secret: text });

// sign(url) returns {body, headers}. check(body, headers, url) is true, or resolves to it, for a genuine request. send holds
// what `caddy anvil send` needs beside the secret.
const providers = {
  github: {
    secret: text,
    sign: async () => { const body = event(); return { body, headers: { "X-Hub-Signature-256": await octokit.sign(text, body), "X-GitHub-Event": "push" } }; },
    check: (body, h) => octokit.verify(text, body.toString(), h["x-hub-signature-256"]),
  },
  stripe: {
    secret: "whsec_made-up-for-tests",
    sign: () => { const payload = event(); return { body: payload, headers: { "Stripe-Signature": Stripe.webhooks.generateTestHeaderString({ payload, secret: "whsec_made-up-for-tests" }) } }; },
    check: (body, h) => Stripe.webhooks.constructEvent(body, h["stripe-signature"], "whsec_made-up-for-tests").id.startsWith("evt_"),
  },
  svix: {
    secret: whsec,
    sign: () => { const body = event(), at = new Date(), id = "msg_" + crypto.randomUUID(); return { body, headers: { "svix-id": id, "svix-timestamp": String(Math.floor(at / 1000)), "svix-signature": new SvixWebhook(whsec).sign(id, at, body) } }; },
    check: (body, h) => !!new SvixWebhook(whsec).verify(body, h),
  },
  "standard-webhooks": {
    secret: whsec,
    sign: () => { const body = event(), at = new Date(), id = "msg_" + crypto.randomUUID(); return { body, headers: { "webhook-id": id, "webhook-timestamp": String(Math.floor(at / 1000)), "webhook-signature": new StandardWebhook(whsec).sign(id, at, body) } }; },
    check: (body, h) => !!new StandardWebhook(whsec).verify(body, h),
  },
  twilio: {
    secret: text, type: "delivered",
    sign: (url) => { const form = { MessageSid: "SM" + crypto.randomUUID(), MessageStatus: "delivered", Body: "ç 😀 & =+" }; return { body: new URLSearchParams(form).toString(), headers: { "Content-Type": "application/x-www-form-urlencoded", "X-Twilio-Signature": twilio.getExpectedTwilioSignature(text, url, form) } }; },
    check: (body, h, url) => twilio.validateRequest(text, h["x-twilio-signature"], url, Object.fromEntries(new URLSearchParams(body.toString()))),
  },
  braintree: {
    secret: "public:private-made-up",
    sign: () => { const n = gateway.webhookTesting.sampleNotification(braintree.WebhookNotification.Kind.SubscriptionCanceled, crypto.randomUUID()); return { body: new URLSearchParams(n).toString(), headers: { "Content-Type": "application/x-www-form-urlencoded" } }; },
    check: async (body) => {
      const form = new URLSearchParams(body.toString());
      // What was made up by `caddy anvil send` is no XML. The signature is checked before it is read.
      try { await gateway.webhookNotification.parse(form.get("bt_signature"), form.get("bt_payload")); } catch (e) { return e.type !== "invalidSignatureError"; }
      return true;
    },
  },
  sanity: {
    secret: text,
    sign: async () => { const body = event(); return { body, headers: { "sanity-webhook-signature": await sanity.encodeSignatureHeader(body, Date.now(), text) } }; },
    check: (body, h) => sanity.isValidSignature(body.toString(), h["sanity-webhook-signature"], text),
  },
  cloudinary: {
    secret: text,
    sign: () => { const body = event(), at = seconds(); return { body, headers: { "X-Cld-Timestamp": String(at), "X-Cld-Signature": cloudinary.utils.webhook_signature(body, at) } }; },
    check: (body, h) => cloudinary.utils.verifyNotificationSignature(body.toString(), Number(h["x-cld-timestamp"]), h["x-cld-signature"]),
  },
  pusher: {
    secret: text,
    check: (body, h) => pusher.webhook({ headers: { ...h, "x-pusher-key": "key-made-up", "content-type": "application/json" }, rawBody: body.toString() }).isValid(),
  },
  line: { secret: text, check: (body, h) => line.validateSignature(body, text, h["x-line-signature"]) },
  slack: { secret: text, check: (body, h) => { verifySlackRequest({ signingSecret: text, body: body.toString(), headers: h }); return true; } },
  square: { secret: text, check: (body, h, url) => WebhooksHelper.verifySignature({ requestBody: body.toString(), signatureHeader: h["x-square-hmacsha256-signature"], signatureKey: text, notificationUrl: url }) },
  razorpay: { secret: text, check: (body, h) => Razorpay.validateWebhookSignature(body.toString(), h["x-razorpay-signature"], text) },
  paddle: { secret: "pdl_ntfset_" + text, check: (body, h) => paddle.webhooks.isSignatureValid(body.toString(), "pdl_ntfset_" + text, h["paddle-signature"]) },
  qstash: { secret: text + "," + text + "2", check: (body, h, url) => new Receiver({ currentSigningKey: text, nextSigningKey: text + "2" }).verify({ signature: h["upstash-signature"], body: body.toString(), url }) },
  discord: {
    secret: ed25519Public, private: seed.toString("hex"),
    check: (body, h) => verifyKey(body, h["x-signature-ed25519"], h["x-signature-timestamp"], ed25519Public),
  },
  sendgrid: {
    secret: p256.publicKey.export({ format: "der", type: "spki" }).toString("base64"), private: p256.privateKey.export({ format: "pem", type: "pkcs8" }),
    check: (body, h) => {
      const events = new sendgrid.EventWebhook();
      return events.verifySignature(events.convertPublicKeyToECDSA(providers.sendgrid.secret), body, h["x-twilio-email-event-webhook-signature"], h["x-twilio-email-event-webhook-timestamp"]);
    },
  },
};

// changed has one letter or digit of the second half changed, and none of an escape.
const changed = (body) => body.slice(0, body.length / 2) + body.slice(body.length / 2).replace(/(?<!%[0-9A-F]?)[a-z0-9]/, (c) => (c === "a" ? "b" : "a"));
const tell = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const application = http.createServer((req, res) => {
  const chunks = [];
  req.on("data", (c) => chunks.push(c));
  req.on("end", async () => {
    const id = req.url.slice(1), url = `${req.headers["x-forwarded-proto"]}://${req.headers["x-forwarded-host"]}${req.url}`;
    let genuine = false, error;
    const body = Buffer.concat(chunks), check = (b) => providers[id].check(b, req.headers, url);
    try { genuine = await check(body); } catch (e) { error = String(e); }
    // A check that takes anything would prove nothing.
    try { if (await check(Buffer.from(changed(body.toString())))) { genuine = false; error = "it takes a changed body, too"; } } catch { /* as it should */ }
    tell({ arrived: id, genuine, error, job: req.headers["anvil-job-id"] });
    res.end();
  });
});

async function post(url, r) {
  const res = await fetch(url, { method: "POST", body: r.body, headers: { "Content-Type": "application/json", ...r.headers } });
  await res.text();
  return { status: res.status, job: res.headers.get("anvil-job-id") };
}

application.listen(0, "127.0.0.1", () => {
  const all = Object.entries(providers).map(([id, p]) => ({ id, secret: p.secret, private: p.private, signs: !!p.sign }));
  tell({ port: application.address().port, providers: all });
});

readline.createInterface({ input: process.stdin }).on("line", async (request) => {
  const { site } = JSON.parse(request);
  for (const [id, p] of Object.entries(providers)) {
    if (!p.sign) continue;
    const url = `${site}/${id}`;
    try {
      const r = await p.sign(url);
      tell({ sent: id, ...(await post(url, r)) });
      const forged = await p.sign(url);
      forged.body = changed(forged.body);
      tell({ forged: id, ...(await post(url, forged)) });
    } catch (e) { tell({ sent: id, error: String(e) }); }
  }
  tell({ done: true });
}).on("close", () => process.exit());
