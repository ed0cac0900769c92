package anvil

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/caddy-anvil/anvil/internal/provdoc"
	"github.com/caddy-anvil/anvil/internal/verify"
)

type providersFlags struct{ json, markdown bool }

func providersCommand() *cobra.Command {
	f := &providersFlags{}
	cmd := &cobra.Command{
		Use:   "providers [<id>]",
		Short: "Lists the providers that verify knows, or tells all about one",
		Long: `
Lists what verify takes as provider: the id, the provider's name, the kind of
scheme, and the default dedupe rule. Those marked with * are not confirmed by
the provider's own documentation. With an id, everything about that one, and a
line for the Caddyfile.`,
		Example: `  caddy anvil providers
  caddy anvil providers stripe
  caddy anvil providers --json`,
		RunE: f.run,
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&f.markdown, "markdown", false, "print the list as a document")
	return cmd
}

func (f *providersFlags) run(cmd *cobra.Command, args []string) error {
	out, all := cmd.OutOrStdout(), verify.Providers()
	var err error
	switch {
	case len(args) > 1 || f.markdown && (f.json || len(args) > 0):
		return unusable(cmd, errors.New("give one provider or none, and --json or --markdown; --markdown is for all"))
	case len(args) == 1:
		p, ok := verify.Lookup(args[0])
		if !ok {
			return unusable(cmd, unknownProvider(args[0]))
		}
		if f.json {
			err = printJSON(out, provdoc.Describe(p))
		} else {
			err = printProvider(out, p)
		}
	case f.markdown:
		err = provdoc.Write(out, all)
	case f.json:
		entries := make([]provdoc.Entry, len(all))
		for i, p := range all {
			entries[i] = provdoc.Describe(p)
		}
		err = printJSON(out, entries)
	default:
		err = printProviders(out, all)
	}
	if err != nil {
		return unusable(cmd, fmt.Errorf("printing providers: %w", err))
	}
	return nil
}

func printProviders(w io.Writer, all []*verify.Provider) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tSCHEME\tDEDUPE")
	for _, p := range all {
		mark := ""
		if p.Unconfirmed {
			mark = "*"
		}
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\n", p.ID, mark, p.Name, p.Family, p.Dedupe)
	}
	return table.Flush()
}

func printProvider(w io.Writer, p *verify.Provider) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s (%s)\n", p.ID, p.Name, p.Family)
	if p.Docs != "" {
		fmt.Fprintln(&b, p.Docs)
	}
	fmt.Fprintln(&b)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range provdoc.Rows(p) {
		fmt.Fprintf(table, "%s\t%s\n", r.Label, strings.NewReplacer("`", "", "**", "").Replace(r.Text))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nanvil /%s %s {\n\t%s\n\tdeliver http://localhost:3000\n}\n", p.ID, p.ID, strings.ReplaceAll(provdoc.Example(p), "\n", "\n\t"))
	_, err := b.WriteTo(w)
	return err
}
