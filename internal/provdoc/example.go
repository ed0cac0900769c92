// Package provdoc describes the providers for people: an example of each for the Caddyfile, its facts in short rows, and
// all of them as a document. Everything comes from the table that verification itself uses.
package provdoc

import (
	"slices"
	"strings"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// Example is what a Caddyfile needs to verify the provider, to stand in the block of a source: one line, or a line with a
// block.
func Example(p *verify.Provider) string {
	line := "verify " + p.ID
	if secret := exampleSecret(p); secret != "" {
		line += " " + secret
	}
	var block []string
	if words, ok := genericExamples[p.ID]; ok {
		block = words
	} else {
		for _, word := range p.Options {
			if value := exampleOption(p, word); value != "" {
				block = append(block, word+" "+value)
			}
		}
	}
	if len(block) == 0 {
		return line
	}
	return line + " {\n\t" + strings.Join(block, "\n\t") + "\n}"
}

// genericExamples show what the schemes without a provider of their own are usually told.
var genericExamples = map[string][]string{
	"hmac": {
		"signature_header X-Signature", "timestamp_header X-Timestamp", "template {sig.timestamp}.{sig.body}", "event_id /id", "event_type /type",
	},
	"ed25519": {"signature_header X-Signature", "timestamp_header X-Timestamp", "template {sig.timestamp}.{sig.body}"},
	"jwt": {
		"header Authorization", "algorithms RS256", "issuer https://issuer.example.com", "audience https://hooks.example.com/jwt",
		"body_claim body_sha256", "jwks_url https://issuer.example.com/.well-known/jwks.json",
	},
	"token": {"header X-Token"},
}

// exampleSecret says where a secret is read from: keys that take many lines from a file, the others from a variable.
func exampleSecret(p *verify.Provider) string {
	file := "{file./etc/caddy/" + p.ID
	switch {
	case !p.Proves, p.ID == "jwt":
		return ""
	case p.ID == "ebay":
		return file + ".pem} {env.EBAY_VERIFICATION_TOKEN}"
	case p.ID == "aws-sns":
		return "arn:aws:sns:us-east-1:123456789012:orders"
	case p.ID == "paypal":
		return "{env.PAYPAL_WEBHOOK_ID}"
	case strings.Contains(p.Secret, "own are fetched"), strings.Contains(p.Secret, "own is fetched"):
		return ""
	case strings.Contains(p.Secret, "JSON") || strings.Contains(p.Secret, "JWK") && !p.Generic:
		return file + ".json}"
	case strings.Contains(p.Secret, "PEM") && !p.Generic:
		return file + ".pem}"
	case strings.HasPrefix(p.Secret, "user:password"):
		return "{env." + variable(p) + "_USER_PASSWORD}"
	case strings.Contains(p.Secret, "public key") && !strings.Contains(p.Secret, "private"):
		return "{env." + variable(p) + "_PUBLIC_KEY}"
	}
	return "{env." + variable(p) + "_SECRET}"
}

// exampleOption is empty for options that are better left alone until they are needed.
func exampleOption(p *verify.Provider, word string) string {
	switch word {
	case "verify_token", "app_key":
		return "{env." + variable(p) + "_" + strings.ToUpper(word) + "}"
	case "audience":
		return "https://hooks.example.com/" + p.ID
	case "service_account":
		return "push@project.iam.gserviceaccount.com"
	case "header":
		if slices.Contains(p.Needs, word) {
			return "X-Signature"
		}
	}
	return ""
}

func variable(p *verify.Provider) string {
	return strings.ToUpper(strings.ReplaceAll(p.ID, "-", "_"))
}
