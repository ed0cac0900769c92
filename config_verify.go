package anvil

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// providerNone is the word for accepting webhooks that prove nothing. Unlike the providers that prove nothing either, it
// says nothing about who sends.
const providerNone = "none"

var errVerifyMissing = errors.New("verify is missing; write verify <provider> <secret>, or verify none to accept webhooks without proof")

func checkVerify(all []VerifyConfig) error {
	if len(all) == 0 {
		return errVerifyMissing
	}
	for i := range all {
		if err := all[i].validate(); err != nil {
			return err
		}
		if len(all) > 1 && !proves(all[i].Provider) {
			return fmt.Errorf("verify %s must be the only verify: beside it the others prove nothing", all[i].Provider)
		}
	}
	return nil
}

// proves reports whether the provider's webhooks are checked at all.
func proves(provider string) bool {
	p, ok := verify.Lookup(provider)
	return ok && p.Proves
}

func (v *VerifyConfig) validate() error {
	switch v.Provider {
	case "":
		return errors.New("verify needs a provider")
	case providerNone:
		if len(v.Secrets) > 0 || len(v.Options) > 0 || v.ReportOnly {
			return errors.New("verify none takes no secret and no options")
		}
		return nil
	}
	p, ok := verify.Lookup(v.Provider)
	switch {
	case !ok:
		return unknownProvider(v.Provider)
	case len(v.Secrets) == 0 && !p.SecretOptional:
		what := "a secret"
		if p.Secret != "the signing secret" {
			what = p.Secret
		}
		return fmt.Errorf("verify %s needs %s; is an environment variable empty?", v.Provider, what)
	case len(v.Secrets) > 0 && !p.Proves:
		return fmt.Errorf("verify %s takes no secret: this provider does not sign", v.Provider)
	case v.ReportOnly && !p.Proves:
		return fmt.Errorf("verify %s has nothing to report: this provider does not sign", v.Provider)
	}
	for i, secret := range v.Secrets {
		if strings.TrimSpace(secret) == "" {
			return fmt.Errorf("secret %d of verify %s is empty; is an environment variable unset?", i+1, v.Provider)
		}
		// In a site block Caddy has turned {path} and {file.name} into placeholders of the request, which has no say in
		// what our secret is.
		if strings.Contains(secret, "{http.") {
			return fmt.Errorf("secret %d of verify %s holds a placeholder of the request; use {env.NAME} or {file./absolute/path}",
				i+1, v.Provider)
		}
	}
	return v.checkOptions()
}

func unknownProvider(name string) error {
	known := []string{providerNone}
	for _, p := range verify.Providers() {
		known = append(append(known, p.ID), p.Aliases...)
	}
	// There are too many to name them all.
	return fmt.Errorf("unknown provider '%s'%s", name, cmp.Or(meant(name, known), "; caddy anvil providers lists all, and hmac describes one of your own"))
}

// checkOptions leaves values with placeholders to the loading of the configuration.
func (v *VerifyConfig) checkOptions() error {
	var later []string
	for _, word := range slices.Sorted(maps.Keys(v.Options)) {
		value := v.Options[word]
		switch {
		case strings.Contains(value, "{http.") && word == optionTemplate:
			return errors.New("template holds a placeholder of the request; its own are written {sig.body}, {sig.timestamp}, {sig.id}, {sig.method} and {sig.path}")
		case strings.Contains(value, "{http."):
			return fmt.Errorf("%s of verify %s holds a placeholder of the request; use {env.NAME} or {file./absolute/path}", word, v.Provider)
		case word != optionTemplate && strings.Contains(value, "{"):
			later = append(later, word)
		}
	}
	return verify.CheckOptions(v.Provider, plainOptions(v.Options), later...)
}

// The words of options that are more than a text to hand on.
const (
	optionTemplate  = "template" // its placeholders are not Caddy's
	optionTolerance = "tolerance"
	optionPrefix    = "prefix" // may be empty
)

// plainOptions takes durations as Caddy does, so that tolerance knows days as every other duration here.
func plainOptions(given map[string]string) verify.Options {
	out := verify.Options{}
	for word, value := range given {
		if word == optionTolerance {
			if d, err := caddy.ParseDuration(value); err == nil {
				value = d.String()
			}
		}
		out[word] = value
	}
	return out
}

// optionWords are the words that a provider's block takes, those that it needs first.
func optionWords(p *verify.Provider) []string {
	words := slices.Clone(p.Needs)
	for _, w := range p.Options {
		if !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	if p.Proves {
		words = append(words, "report_only")
	}
	return words
}
