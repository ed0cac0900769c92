package verify_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// Schemes of providers that have a row of their own, described by options alone: each must accept what the row signs.
func TestOptionsDescribeAnyScheme(t *testing.T) {
	for provider, o := range map[string]verify.Options{
		"github":         {"signature_header": "X-Hub-Signature-256"},
		"intercom":       {"signature_header": "X-Hub-Signature", "algorithm": "sha1"},
		"paystack":       {"prefix": "", "signature_header": "x-paystack-signature", "algorithm": "sha512"},
		"shopify":        {"signature_header": "Shopify-Hmac-Sha256", "encoding": "base64"},
		"typeform":       {"signature_header": "Typeform-Signature", "encoding": "base64", "prefix": "sha256="},
		"stripe":         {"signature_header": "Stripe-Signature", "signature_key": "v1", "timestamp_key": "t", "template": "{sig.timestamp}.{sig.body}"},
		"paddle":         {"signature_header": "Paddle-Signature", "separator": ";", "signature_key": "h1", "timestamp_key": "ts", "template": "{sig.timestamp}:{sig.body}"},
		"slack":          {"signature_header": "X-Slack-Signature", "prefix": "v0=", "timestamp_header": "X-Slack-Request-Timestamp", "template": "v0:{sig.timestamp}:{sig.body}"},
		"zendesk":        {"signature_header": "X-Zendesk-Webhook-Signature", "encoding": "base64", "timestamp_header": "X-Zendesk-Webhook-Signature-Timestamp", "timestamp_unit": "rfc3339", "template": "{sig.timestamp}{sig.body}"},
		"airwallex":      {"prefix": "", "signature_header": "X-Signature", "timestamp_header": "X-Timestamp", "timestamp_unit": "ms", "template": "{sig.timestamp}{sig.body}"},
		"pagerduty":      {"signature_header": "X-PagerDuty-Signature", "prefix": "v1=", "separator": ","},
		"twitch":         {"signature_header": "Twitch-Eventsub-Message-Signature", "prefix": "sha256=", "id_header": "Twitch-Eventsub-Message-Id", "timestamp_header": "Twitch-Eventsub-Message-Timestamp", "timestamp_unit": "rfc3339", "tolerance": "10m", "template": "{sig.id}{sig.timestamp}{sig.body}"},
		"square":         {"signature_header": "X-Square-Hmacsha256-Signature", "encoding": "base64", "template": "{sig.url}{sig.body}"},
		"tebex":          {"prefix": "", "signature_header": "X-Signature", "template": "{sig.body_sha256}"},
		"airtable":       {"signature_header": "X-Airtable-Content-MAC", "prefix": "hmac-sha256=", "key_encoding": "base64"},
		"adyen-platform": {"signature_header": "HmacSignature", "encoding": "base64", "key_encoding": "hex"},
		"sanity":         {"signature_header": "Sanity-Webhook-Signature", "signature_key": "v1", "timestamp_key": "t", "timestamp_unit": "ms", "encoding": "base64url", "template": "{sig.timestamp}.{sig.body}"},
	} {
		t.Run(provider, func(t *testing.T) {
			p, _ := verify.Lookup(provider)
			g, _ := makeGenuine(t, p)
			v := newVerifier(t, "hmac", o, g.secret)
			if got := v.Verify(t.Context(), g.request, someTime); !got.OK {
				t.Errorf("refused: %+v", got)
			}
			changed := g.clone()
			changed.Body[3] ^= 1
			if v.Verify(t.Context(), changed, someTime).OK {
				t.Error("another body is accepted")
			}
			signed := &verify.Request{Method: http.MethodPost, URL: someURL, Header: http.Header{}, Body: []byte(someBody)}
			if err := verify.Sign("hmac", verify.SignKeys{Secret: g.secret}, o, signed, someTime); err != nil {
				t.Fatal(err)
			}
			if got := g.verifier.Verify(t.Context(), signed, someTime); !got.OK {
				t.Errorf("the provider's own row refuses what the options sign: %+v", got)
			}
		})
	}
}

func TestOptionErrors(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		options        verify.Options
		want           string
	}{
		{"an option of a preset", "github", verify.Options{"signature_header": "X-Sig"}, "it takes no signature_header, its scheme is fixed; use hmac for a scheme of your own"},
		{"an option of another scheme", "stripe", verify.Options{"prefix": "x"}, "it takes no prefix; it takes tolerance"},
		{"an unknown word", "jwt", verify.Options{"alg": "x"}, "it takes no alg; it takes tolerance, header, algorithms, issuer, audience, body_claim, jwks_url, event_id, event_type"},
		{"header name", "hmac", verify.Options{"signature_header": "X Sig"}, `signature_header: "X Sig" is not a header name`},
		{"algorithm", "hmac", verify.Options{"algorithm": "md5"}, `algorithm: "md5" is unknown; choose from sha256, sha1, sha384, sha512`},
		{"encoding", "hmac", verify.Options{"encoding": "Hex"}, `encoding: "Hex" is unknown; choose from hex, base64, base64url`},
		{"prefix with a line break", "hmac", verify.Options{"prefix": "a\n"}, `prefix: "a\n" cannot stand in a header`},
		{"prefix with a leading blank", "hmac", verify.Options{"prefix": " v1="}, "prefix: it begins with a blank, which HTTP takes off header values"},
		{"tolerance", "stripe", verify.Options{"tolerance": "5"}, `tolerance: "5" is not a positive duration such as 5m`},
		{"negative tolerance", "stripe", verify.Options{"tolerance": "-5m"}, `tolerance: "-5m" is not a positive duration such as 5m`},
		{"a template without the body", "hmac", verify.Options{"template": "{sig.timestamp}"}, "template: it does not hold {sig.body} or a digest of it, so that anyone could change the body"},
		{"an unknown placeholder", "hmac", verify.Options{"template": "{sig.bdy}"}, "template: unknown placeholder {sig.bdy}; known are body, body_sha256, body_sha256_base64, body_sha256_raw, host, id, method, path, path_query, query, timestamp, url, header.NAME, query.NAME, form.NAME, json./POINTER, raw./POINTER"},
		{"an open placeholder", "hmac", verify.Options{"template": "{sig.body"}, `template: "{sig.body" has a {sig. without a }`},
		{"the secret in a template", "hmac", verify.Options{"template": "{sig.secret}{sig.body}"}, "template: it may not hold {sig.secret}, {sig.built} or {sig.option.…}"},
		{"an option that is needed", "tiktok-shop", nil, "it needs app_key: the key of the application, which is signed too"},
		{"a password in jwks_url", "jwt", verify.Options{"jwks_url": "https://user:pw@x.test/"}, "jwks_url: it holds a user or password; write the URL without it"},
		{"jwks_url without TLS", "jwt", verify.Options{"jwks_url": "http://x.test/"}, `jwks_url: "http://x.test/" is not an https URL`},
		{"a JWT algorithm", "jwt", verify.Options{"algorithms": "none"}, "algorithms: none is unknown; choose from HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512, EdDSA"},
		{"a certificate", "aws-sns", verify.Options{"certificate": "x"}, "certificate: it is not PEM text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := "configuring provider " + c.provider + ": " + c.want
			if err := verify.CheckOptions(c.provider, c.options); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if v, err := verify.New(c.provider, []string{strings.Repeat("s", 32)}, c.options, nil); err == nil || v != nil {
				t.Errorf("New: got %v, %v, want an error and no verifier", v, err)
			}
		})
	}
}

func TestSchemesThatProtectFromNothingAreRefused(t *testing.T) {
	for name, o := range map[string]verify.Options{
		"a time that is not signed":         {"timestamp_header": "X-Time"},
		"a signed time that is not sent":    {"template": "{sig.timestamp}.{sig.body}"},
		"a time in two places":              {"timestamp_header": "X-Time", "signature_key": "v1", "timestamp_key": "t", "template": "{sig.timestamp}.{sig.body}"},
		"a key for the time only":           {"timestamp_key": "t", "template": "{sig.timestamp}.{sig.body}"},
		"an id that is not signed":          {"id_header": "X-Id"},
		"a signed id that is not sent":      {"template": "{sig.id}.{sig.body}"},
		"a tolerance without a signed time": {"tolerance": "5m"},
	} {
		if _, err := verify.New("hmac", []string{secret}, o, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAnOptionIsWrittenOnceByOneOfItsNames(t *testing.T) {
	for _, c := range []struct {
		options verify.Options
		want    string
	}{
		{verify.Options{"header": "X-A"}, ""},
		{verify.Options{"secret_encoding": "hex"}, ""},
		{
			verify.Options{"header": "X-A", "signature_header": "X-B"},
			"configuring provider hmac: header and signature_header are two names of one option: write one of them",
		},
		{
			verify.Options{"key_encoding": "hex", "secret_encoding": "hex"},
			"configuring provider hmac: key_encoding and secret_encoding are two names of one option: write one of them",
		},
	} {
		got := ""
		if err := verify.CheckOptions("hmac", c.options); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: got %s, want %s", c.options, got, c.want)
		}
	}
}

// Whoever mistypes a placeholder is shown those that a template may hold, and no other.
func TestThePlaceholdersThatAreOfferedAreTaken(t *testing.T) {
	err := verify.CheckOptions("hmac", verify.Options{"template": "{sig.bodi}"})
	if err == nil {
		t.Fatal("no error")
	}
	_, list, _ := strings.Cut(err.Error(), "known are ")
	names := strings.Split(list, ", ")
	for _, want := range []string{"body", "raw./POINTER", "json./POINTER", "header.NAME"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %s", want, list)
		}
	}
	for _, name := range names {
		o := verify.Options{"template": "{sig." + name + "}.{sig.body}"}
		switch name {
		case "timestamp":
			o["timestamp_header"] = "X-Time"
		case "id":
			o["id_header"] = "X-Id"
		}
		if err := verify.CheckOptions("hmac", o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPrivateKeyOfStandardWebhooksMayHaveBlanksAroundIt(t *testing.T) {
	seed := make([]byte, ed25519.SeedSize)
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	v := newVerifier(t, "standard-webhooks", nil, "whpk_"+base64.StdEncoding.EncodeToString(public))
	for _, private := range []string{"whsk_" + base64.StdEncoding.EncodeToString(seed), " whsk_" + base64.StdEncoding.EncodeToString(seed) + "\n"} {
		r := post(someBody)
		if err := verify.Sign("standard-webhooks", verify.SignKeys{Private: private}, nil, r, someTime); err != nil {
			t.Errorf("%q: %v", private, err)
			continue
		}
		if got := v.Verify(t.Context(), r, someTime); !got.OK {
			t.Errorf("%q: got %+v", private, got)
		}
	}
}

func TestSecretErrors(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		secrets        []string
		want           string
	}{
		{"unknown provider", "gitub", []string{secret}, `choosing verification: unknown provider "gitub"`},
		{"none", "github", nil, "configuring provider github: it needs at least one secret"},
		{"empty", "github", []string{secret, ""}, "configuring provider github: secret 2 is empty; is its variable or file set?"},
		{"WooCommerce signs with an empty one", "woocommerce", []string{""}, "configuring provider woocommerce: secret 1 is empty; is its variable or file set?"},
		{"not hex", "adyen", []string{"xyz"}, "configuring provider adyen: secret 1 is not hexadecimal; copy it exactly as the provider shows it"},
		{"not base64", "svix", []string{"whsec_!"}, "configuring provider svix: secret 1 is not base64; copy it exactly as the provider shows it"},
		{"cut short", "contentful", []string{"abc"}, "configuring provider contentful: secret 1 has fewer than 64 characters; copy it exactly as the provider shows it"},
		{"no colon", "basic", []string{"password"}, "configuring provider basic: secret 1 has no colon; write it as user:password"},
		{"no public key", "discord", []string{"xyz"}, "configuring provider discord: secret 1 is not a public key; give it as PEM, base64 of DER, JWK, or for Ed25519 its 32 bytes in hex or base64"},
		{"a short public key", "discord", []string{"d6b93a45"}, "configuring provider discord: secret 1 is not a public key; give it as PEM, base64 of DER, JWK, or for Ed25519 its 32 bytes in hex or base64"},
		{"a comma too many", "qstash", []string{"current-key,"}, "configuring provider qstash: secret 1 has an empty part; write the keys with one comma between them"},
		{"no topic", "aws-sns", []string{"MyTopic"}, "configuring provider aws-sns: secret 1 is not the ARN of a topic, as in arn:aws:sns:us-east-1:123456789012:name"},
		{"a secret for none", "docker-hub", []string{"x"}, "configuring provider docker-hub: it takes no secret: this provider does not sign"},
		{"a PEM key of another kind", "discord", []string{publicOf(t, testKeys().private[2])}, "configuring provider discord: secret 1 is a public key of another kind than this provider's, which is Ed25519"},
		{"a symmetric JWK for a public key", "fal", []string{`{"kty":"oct","k":"c2VjcmV0"}`}, "configuring provider fal: secret 1 holds no public key of this provider's kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := verify.New(c.provider, c.secrets, nil, nil)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if v != nil {
				t.Error("a verifier came with the error")
			}
		})
	}
}

func TestAToleranceIsForBothDirections(t *testing.T) {
	p, _ := verify.Lookup("stripe")
	g, _ := makeGenuine(t, p)
	v := newVerifier(t, "stripe", verify.Options{"tolerance": "1h"}, g.secret)
	for offset, want := range map[time.Duration]verify.Reason{
		time.Hour: "", -time.Hour: "", time.Hour + time.Second: verify.ReasonTooOld, -time.Hour - time.Second: verify.ReasonTooNew,
	} {
		if got := v.Verify(t.Context(), g.request, someTime.Add(offset)); got.Reason != want {
			t.Errorf("%v: got %+v, want %q", offset, got, want)
		}
	}
}

func TestMillisecondsWhereSecondsBelongAreATimeError(t *testing.T) {
	o := verify.Options{"timestamp_header": "X-Time", "timestamp_unit": "ms", "template": "{sig.timestamp}.{sig.body}"}
	r := &verify.Request{Method: http.MethodPost, URL: someURL, Header: http.Header{}, Body: []byte(body)}
	if err := verify.Sign("hmac", verify.SignKeys{Secret: secret}, o, r, someTime); err != nil {
		t.Fatal(err)
	}
	if got := newVerifier(t, "hmac", o, secret).Verify(t.Context(), r, someTime); !got.OK {
		t.Errorf("as milliseconds: %+v", got)
	}
	o["timestamp_unit"] = "s"
	v := newVerifier(t, "hmac", o, secret)
	if got := v.Verify(t.Context(), r, someTime); got.Reason != verify.ReasonTooNew {
		t.Errorf("as seconds: %+v", got)
	}
	if hints := v.Explain(t.Context(), r, someTime, nil); len(hints) == 0 || hints[0].Code != "clock" {
		t.Errorf("hints: %+v", hints)
	}
}

func TestTimesAreReadStrictly(t *testing.T) {
	for _, text := range []string{"", " 1767225600", "+1767225600", "-1", "1767225600.5", "0x69", "1767225600 ", "12345678901234567", "1e9", "١٧٦٧", "now"} {
		r := &verify.Request{Header: http.Header{"X-Slack-Signature": {"v0=" + strings.Repeat("0", 64)}, "X-Slack-Request-Timestamp": {text}}}
		want := verify.ReasonBadTimestamp
		if text == "" {
			want = verify.ReasonMissing
		}
		if got := newVerifier(t, "slack", nil, secret).Verify(t.Context(), r, someTime); got.Reason != want {
			t.Errorf("%q: got %+v, want %s", text, got, want)
		}
	}
}
