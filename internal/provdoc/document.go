package provdoc

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caddy-anvil/anvil/internal/verify"
)

var (
	//go:embed head.md
	head string
	//go:embed own.md
	own string
)

// families are in the order of the document.
var families = []struct {
	family verify.Family
	title  string
	says   string
}{
	{
		verify.FamilyBody, "HMAC over the body",
		"A header holds an HMAC of the exact body. No time is signed, so a captured request stays genuine: the dedupe key is what stops it.",
	},
	{
		verify.FamilyTimed, "HMAC over a time and the body",
		"A time, or an id, is signed with the body, so that a captured request is refused after a while. The provider signs each delivery anew.",
	},
	{
		verify.FamilyStandard, "Standard Webhooks and Svix",
		"An id, a time and the body are signed as [standardwebhooks.com](https://www.standardwebhooks.com) says. A secret begins with `whsec_` and is " +
			"base64. The id is signed and the same at each delivery.",
	},
	{
		verify.FamilyURL, "HMAC over the URL",
		"The URL is signed as the provider has it. Behind a proxy that changes scheme, host or path, set `public_url`, or `trusted_proxies` in Caddy.",
	},
	{
		verify.FamilyFields, "A signature over some fields",
		"Only some fields are signed, so others can be changed by whoever carries the request: trust no field that is not said to be signed.",
	},
	{
		verify.FamilyPublicKey, "Public keys",
		"Signed with Ed25519, ECDSA or RSA. What you configure is the public key, which is no secret; several lines come from a file.",
	},
	{
		verify.FamilyJWT, "JSON Web Tokens",
		"A token proves the sender. It covers the body only where a claim holds the body's hash.",
	},
	{
		verify.FamilyToken, "Shared tokens and basic authentication",
		"The secret itself is in every request, and nothing covers the body. Headers and query parameters with it are cut before the webhook is stored.",
	},
	{
		verify.FamilyCertificate, "Certificates",
		"The request names a certificate, which is fetched from the provider's own hosts over https and checked. `certificate {file./path.pem}` pins one instead.",
	},
	{
		verify.FamilyNone, "Nothing is proved",
		"These providers do not sign: whoever knows the URL can send. Make the path hard to guess, or filter by address in Caddy (`@provider remote_ip …`).",
	},
}

// Write writes the document about the providers, in Markdown.
func Write(w io.Writer, providers []*verify.Provider) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, len(providers))
	index(&b, providers)
	for _, f := range families {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", f.title, f.says)
		for _, p := range providers {
			if p.Family == f.family {
				details(&b, p)
			}
		}
	}
	options(&b)
	b.WriteString("\n" + own)
	_, err := b.WriteTo(w)
	return err
}

func index(b *bytes.Buffer, providers []*verify.Provider) {
	byName := slices.Clone(providers)
	slices.SortFunc(byName, func(a, b *verify.Provider) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	titles := map[verify.Family]string{}
	for _, f := range families {
		titles[f.family] = f.title
	}
	b.WriteString("| Provider | `verify` | How | Dedupe |\n|---|---|---|---|\n")
	for _, p := range byName {
		mark := ""
		if p.Unconfirmed {
			mark = " *"
		}
		fmt.Fprintf(b, "| %s%s | [`%s`](#%s) | %s | %s |\n", escape(p.Name), mark, p.ID, p.ID, titles[p.Family], p.Dedupe)
	}
}

func details(b *bytes.Buffer, p *verify.Provider) {
	fmt.Fprintf(b, "\n### %s\n\n%s", p.ID, escape(p.Name))
	if p.Docs != "" {
		fmt.Fprintf(b, " ([documentation](%s))", p.Docs)
	}
	fmt.Fprintf(b, "\n\n```caddyfile\n%s\n```\n\n", Example(p))
	for _, r := range Rows(p) {
		fmt.Fprintf(b, "- %s: %s\n", r.Label, escape(r.Text))
	}
}

func options(b *bytes.Buffer) {
	b.WriteString("\n## Options\n\nThey stand in the block of `verify`. A provider takes those that are listed with it, and `report_only` is for all that sign: it lets in and marks\n" +
		"what would be refused.\n\n| Word | |\n|---|---|\n")
	for _, w := range verify.OptionWords() {
		fmt.Fprintf(b, "| `%s %s` | %s |\n", w.Name, strings.ReplaceAll(w.Value, "|", "\\|"), escape(strings.ReplaceAll(w.Says, "|", "\\|")))
	}
}

// escape keeps what is no code from being taken for HTML or emphasis.
func escape(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("<", "&lt;", "_", "\\_").Replace(parts[i])
	}
	return strings.Join(parts, "`")
}
