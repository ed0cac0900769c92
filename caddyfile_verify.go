package anvil

import (
	"cmp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func (c *SourceConfig) parseVerify(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return errArgs
	}
	line := *d
	v := VerifyConfig{Provider: d.Val(), Secrets: d.RemainingArgs()}
	if err := v.parseOptions(d); err != nil {
		return err
	}
	if err := v.validate(); err != nil {
		return line.WrapErr(err)
	}
	c.Verify = append(c.Verify, v)
	if err := checkVerify(c.Verify); err != nil {
		return line.WrapErr(err)
	}
	return nil
}

// parseOptions reads the block by the words that the provider takes, so that the error about any other can name them.
func (v *VerifyConfig) parseOptions(d *caddyfile.Dispenser) error {
	p, ok := verify.Lookup(v.Provider)
	if !ok {
		if v.Provider != providerNone {
			return d.WrapErr(unknownProvider(v.Provider))
		}
		p = &verify.Provider{ID: providerNone}
	}
	all, takes := verify.OptionWords(), optionWords(p)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if name == "report_only" {
			if v.ReportOnly {
				return d.Errf("%s already specified", name)
			}
			v.ReportOnly = true
			if err := endOfLine(d, name); err != nil {
				return err
			}
			continue
		}
		word := verify.WordMeant(v.Provider, name)
		i := slices.IndexFunc(all, func(w verify.OptionWord) bool { return w.Name == word })
		_, again := v.Options[word]
		switch {
		case i >= 0 && again:
			return d.Errf("%s already specified", name)
		case i >= 0 && slices.Contains(takes, word):
		case len(takes) == 0:
			return d.Errf("verify %s takes no options, and so no '%s'", v.Provider, name)
		case i >= 0 && len(p.Options) == 0:
			return d.Errf("verify %s takes no %s: its scheme is fixed; use hmac to describe one of your own", v.Provider, name)
		case i >= 0:
			return d.Errf("verify %s takes no %s; it takes: %s", v.Provider, name, strings.Join(takes, ", "))
		default:
			return d.Errf("unrecognized subdirective '%s'%s", name, cmp.Or(meant(name, takes), "; verify "+v.Provider+" takes: "+strings.Join(takes, ", ")))
		}
		if err := v.parseOption(d, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (v *VerifyConfig) parseOption(d *caddyfile.Dispenser, w *verify.OptionWord) error {
	name, form := d.Val(), w.Name+" "+w.Value
	args := d.RemainingArgs()
	switch {
	case len(args) == 0, len(args) > 1 && !w.List:
		return d.Errf("wrong number of arguments, the form is: %s", form)
	case len(args) == 1 && args[0] == "" && w.Name != optionPrefix:
		return d.Errf("%s is empty; is an environment variable unset?", name)
	}
	for _, arg := range args {
		if w.List && (arg == "" || strings.ContainsAny(arg, " \t\r\n")) {
			return d.Errf("%s: '%s' is no item of a list: it is empty, or has blanks in it", name, arg)
		}
	}
	if v.Options == nil {
		v.Options = map[string]string{}
	}
	v.Options[w.Name] = strings.Join(args, " ")
	return endOfLine(d, form)
}
