package anvil

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// What the subcommands of caddy anvil exit with.
const (
	exitNo       = 1 // the request is refused
	exitUnusable = 2 // it could not be tried
)

// errNo makes Caddy exit with exitNo. It is never shown.
var errNo = errors.New("refused")

// command is what `caddy anvil` offers. It needs no running Caddy and no configuration.
func command() caddycmd.Command {
	return caddycmd.Command{
		Name:  "anvil",
		Short: "Tries out webhooks: verifies saved requests, sends signed ones, lists providers",
		Long: `
Tools for setting up webhooks. They verify and sign by the same code as the
directive, and take nothing from a configuration: give the provider and its
secret on the command line.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
				return unusable(cmd, fmt.Errorf("%w; %s --help tells all", err, cmd.CommandPath()))
			})
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return cmd.Help()
				}
				names := []string{"verify", "send", "providers"}
				return unusable(cmd, fmt.Errorf("caddy anvil has no command '%s'%s", args[0], suggest(args[0], names)))
			}
			cmd.AddCommand(verifyCommand(), sendCommand(), providersCommand())
		},
	}
}

// unusable shows what is wrong with the input and makes Caddy exit with exitUnusable. Caddy's own way to show an error is a
// line of its log.
func unusable(cmd *cobra.Command, err error) error {
	fmt.Fprintln(cmd.ErrOrStderr(), "Error: "+err.Error())
	cmd.SilenceErrors = true
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exitUnusable, nil })(cmd, nil)
}

// done ends a command whose answer is yes or no and has been shown.
func done(cmd *cobra.Command, yes bool) error {
	if yes {
		return nil
	}
	cmd.SilenceErrors = true
	return errNo
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// whoHelp ends the help of the commands that need a provider.
const whoHelp = `
A secret is given as it is, as @file, or as env:NAME. Every line of a file is
a secret, but keys in PEM and JSON stay whole. Other users of this machine may
see the command line, so prefer a file or a variable. What the secret of a
provider is, and which options it takes, tells: caddy anvil providers <id>`

// who is whom a command verifies or signs as.
type who struct {
	provider *verify.Provider
	secrets  []string
	options  verify.Options
	// notes say what looks odd. They are shown, and change nothing.
	notes []string
}

// whoFlags are bound to variables, since reading a list by its name would change line ends and drop empty texts.
type whoFlags struct {
	provider                string
	secrets, options, certs []string
	json                    bool
}

func (f *whoFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.provider, "provider", "", "who signs; required")
	flags.StringArrayVar(&f.secrets, "secret", nil, "the secret: text, @file or env:NAME; may be repeated, and any may match")
	flags.StringArrayVar(&f.options, "option", nil, "an option of verify, as key=value; may be repeated, also for several values of one")
	flags.StringArrayVar(&f.certs, "cert", nil, "a file with the signing certificate, in PEM, instead of the one that the request names")
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// read reads what the flags name. keyed is true when something else than the secret signs.
func (f *whoFlags) read(keyed bool) (*who, error) {
	if f.provider == "" {
		return nil, errors.New("--provider is missing; caddy anvil providers lists them")
	}
	w := &who{provider: &verify.Provider{ID: providerNone}, options: verify.Options{}}
	if f.provider != providerNone {
		p, ok := verify.Lookup(f.provider)
		if !ok {
			return nil, unknownProvider(f.provider)
		}
		w.provider = p
	}
	for _, text := range f.secrets {
		secrets, err := readSecrets("--secret", text)
		if err != nil {
			return nil, err
		}
		w.secrets = append(w.secrets, secrets...)
	}
	if len(w.secrets) == 0 && !keyed && w.provider.Proves && !w.provider.SecretOptional {
		return nil, fmt.Errorf("--secret is missing; for %s it is %s", w.provider.ID, w.provider.Secret)
	}
	for _, text := range f.options {
		if err := w.readOption(text); err != nil {
			return nil, err
		}
	}
	for _, file := range f.certs {
		pem, err := readSmall(file)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate: %w", err)
		}
		w.options["certificate"] += string(pem)
	}
	w.options = plainOptions(w.options)
	w.lookAtSecrets()
	return w, nil
}

// fileMax is far above any secret or chain of certificates. Without it a device file would be read for ever.
const fileMax = 1 << 20

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err == nil && len(content) > fileMax {
		err = fmt.Errorf("%s has more than %d bytes and is no file of secrets", path, fileMax)
	}
	return content, err
}

// readSecrets reads a secret where it is said to be. Errors never show a secret.
func readSecrets(flag, text string) ([]string, error) {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		secret := os.Getenv(name)
		if secret == "" {
			return nil, fmt.Errorf("%s: the variable %s is empty or not set", flag, name)
		}
		return []string{secret}, nil
	}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		content, err := readSmall(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		secrets := secretsOfFile(string(content))
		if len(secrets) == 0 {
			return nil, fmt.Errorf("%s: no line of %s holds a secret", flag, path)
		}
		return secrets, nil
	}
	if text == "" {
		return nil, fmt.Errorf("%s is empty; is a variable unset?", flag)
	}
	return []string{text}, nil
}

func (w *who) readOption(text string) error {
	word, value, ok := strings.Cut(text, "=")
	if !ok || word == "" {
		return fmt.Errorf("--option '%s' has not the form key=value", text)
	}
	word = strings.ReplaceAll(word, "-", "_")
	known := slices.IndexFunc(verify.OptionWords(), func(o verify.OptionWord) bool { return o.Name == word })
	if known >= 0 && verify.OptionWords()[known].Secret {
		values, err := readSecrets("--option "+word, value)
		if err != nil {
			return err
		}
		if len(values) > 1 {
			return fmt.Errorf("--option %s has %d values, and one is allowed", word, len(values))
		}
		value = values[0]
	}
	before, twice := w.options[word]
	switch {
	case !twice:
		w.options[word] = value
	case known >= 0 && verify.OptionWords()[known].List:
		w.options[word] = before + " " + value
	default:
		return fmt.Errorf("--option %s is given twice", word)
	}
	return nil
}

func (w *who) lookAtSecrets() {
	public := w.provider.Family == verify.FamilyPublicKey || w.provider.Family == verify.FamilyCertificate
	for i, s := range w.secrets {
		if utf8.RuneCountInString(s) < minSecret && !public && w.provider.Proves {
			w.notes = append(w.notes, fmt.Sprintf("secret %d has fewer than %d characters and may be guessed", i+1, minSecret))
		}
		if strings.TrimSpace(s) != s {
			w.notes = append(w.notes, fmt.Sprintf("secret %d begins or ends with white space, which is taken as part of it", i+1))
		}
	}
}

func showNotes(w io.Writer, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(w, "note: "+n)
	}
}
