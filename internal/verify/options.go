package verify

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Options are a provider's options by their words. A list is one text with blanks between its items.
type Options map[string]string

// OptionWord describes a word that some providers take as an option.
type OptionWord struct {
	Name string
	// Value says what follows the word, as in "<duration>".
	Value string
	// List words may have several values.
	List bool
	// Secret values must not be shown.
	Secret bool
	Says   string

	check func(value string) error
}

var optionWords = []OptionWord{
	{Name: "signature_header", Value: "<header>", Says: "the header that holds the signature; X-Signature by default", check: checkHeader},
	{Name: "signature_key", Value: "<key>", Says: "the header is key=value pairs, and signatures are under this key", check: checkToken},
	{Name: "timestamp_key", Value: "<key>", Says: "the signed time is in the signature header, under this key", check: checkToken},
	{Name: "separator", Value: "<text>", Says: "between several signatures or pairs in the header; a comma by default for pairs", check: checkAny},
	{Name: "prefix", Value: "<text>", Says: "what stands before each signature; by default <algorithm>= may, in hex; \"\" for nothing", check: checkPrefix},
	{Name: "algorithm", Value: strings.Join(hmacNames, "|"), Says: "of the HMAC or digest; sha256 by default", check: oneOf(hmacNames)},
	{Name: "encoding", Value: strings.Join(encodingNames, "|"), Says: "of the signature; hex by default", check: oneOf(encodingNames)},
	{Name: "template", Value: "<text>", Says: "what is signed, as in {sig.timestamp}.{sig.body}; {sig.body} by default", check: checkTemplate},
	{Name: "timestamp_header", Value: "<header>", Says: "the header that holds the signed time", check: checkHeader},
	{Name: "timestamp_unit", Value: strings.Join(timeUnitNames, "|"), Says: "of the signed time; s by default", check: oneOf(timeUnitNames)},
	{Name: "tolerance", Value: "<duration>", Says: "how far the signed time may be from now, either way; 5m by default", check: checkTolerance},
	{Name: "id_header", Value: "<header>", Says: "the header that holds the message's signed id", check: checkHeader},
	{Name: "key_encoding", Value: strings.Join(keyFormNames, "|"), Says: "of the secret; utf8 by default, which takes it as it is", check: oneOf(keyFormNames)},
	{Name: "header", Value: "<header>", Says: "the header that holds the token", check: checkHeader},
	{Name: "query", Value: "<parameter>", Says: "the query parameter that holds the token", check: checkToken},
	{Name: "algorithms", Value: "<algorithm>...", List: true, Says: "of the JWT that are accepted, as in RS256", check: checkJWTAlgorithms},
	{Name: "issuer", Value: "<text>...", List: true, Says: "the iss claim must be one of these", check: checkAny},
	{Name: "audience", Value: "<text>...", List: true, Says: "the aud claim must hold one of these", check: checkAny},
	{Name: "service_account", Value: "<e-mail>...", List: true, Says: "the email claim must be one of these, and verified", check: checkAny},
	{Name: "body_claim", Value: "<claim>", Says: "the claim that holds the body's SHA-256 in hex, base64 or base64url", check: checkToken},
	{Name: "jwks_url", Value: "<https URL>", Says: "where the public keys are fetched", check: checkHTTPS},
	{Name: "certificate", Value: "<PEM>", Says: "the signing certificate, instead of the one that the request names", check: checkCertificate},
	{Name: "verify_token", Value: "<text>", Secret: true, Says: "the token that the registration request must carry", check: checkAny},
	{Name: "verify_header", Value: "<text>", Secret: true, Says: "the token to answer the registration request with", check: checkPrefix},
	{Name: "app_key", Value: "<text>", Says: "the key of the application, which is signed too", check: checkAny},
	{Name: "user_id", Value: "<text>", Says: "the account at the provider that requests must come from", check: checkAny},
	{Name: "legacy", Value: "on|off", Says: "accept the provider's older scheme instead", check: oneOf([]string{"on", "off"})},
	{Name: "event_id", Value: "<place>", Says: "where the event's id stands: a header, /json/pointer, form:field or query:parameter", check: checkPlace},
	{Name: "event_type", Value: "<place>", Says: "where the event's type stands, as for event_id", check: checkPlace},
}

// optionAliases are words that people carry over from elsewhere.
var optionAliases = map[string]string{"secret_encoding": "key_encoding"} //nolint:gosec // words, no credentials

// OptionWords returns all words that any provider takes.
func OptionWords() []OptionWord { return slices.Clone(optionWords) }

func wordOf(name string) *OptionWord {
	for i := range optionWords {
		if optionWords[i].Name == name {
			return &optionWords[i]
		}
	}
	return nil
}

// takes lists the words that the row takes, in the order of the table of words.
func (r *row) takes() []string {
	var words []string
	timed := r.takesTolerance()
	for _, w := range optionWords {
		if slices.Contains(r.options, w.Name) || slices.Contains(r.needs, w.Name) || timed && w.Name == "tolerance" {
			words = append(words, w.Name)
		}
	}
	return words
}

// takesTolerance reports whether the scheme signs a time whose distance it compares. Of a JWT's times that is for each row to
// say in its options.
func (r *row) takesTolerance() bool {
	if _, ok := r.scheme.(jwtScheme); ok {
		return false
	}
	d, ok := r.scheme.(described)
	if !ok {
		return false
	}
	var p Provider
	d.describe(&p)
	return p.Past != 0
}

// CheckOptions reports what is wrong with options of a provider, without its secrets. Values of the words in later are not
// looked at, because they are only known when the configuration is loaded.
func CheckOptions(provider string, o Options, later ...string) error {
	r, ok := find(provider)
	if !ok {
		return fmt.Errorf("choosing verification: unknown provider %q", provider)
	}
	checked, err := o.check(r, later...)
	if g, ok := r.scheme.(optioned); ok && err == nil && len(later) == 0 {
		err = g.checkOptions(checked)
	}
	if err != nil {
		return fmt.Errorf("configuring provider %s: %w", r.id, err)
	}
	return nil
}

// optioned schemes have options that must fit each other.
type optioned interface{ checkOptions(o Options) error }

// WordMeant returns the word that an alias of it stands for, and any other as it is.
func WordMeant(provider, name string) string {
	r, ok := find(provider)
	if !ok {
		return name
	}
	return meantWord(r.takes(), name)
}

func meantWord(takes []string, name string) string {
	if other := optionAliases[name]; other != "" {
		name = other
	}
	if name == "header" && !slices.Contains(takes, name) && slices.Contains(takes, "signature_header") {
		name = "signature_header"
	}
	return name
}

// check returns the options with their own words instead of aliases.
func (o Options) check(r *row, later ...string) (Options, error) {
	takes := r.takes()
	out, written := Options{}, map[string]string{}
	for _, name := range o.words() {
		value, word := o[name], meantWord(takes, name)
		if other, twice := written[word]; twice {
			return nil, fmt.Errorf("%s and %s are two names of one option: write one of them", other, name)
		}
		written[word] = name
		if !slices.Contains(takes, word) {
			if len(takes) == 0 {
				return nil, fmt.Errorf("it takes no %s, its scheme is fixed; use hmac for a scheme of your own", name)
			}
			return nil, fmt.Errorf("it takes no %s; it takes %s", name, strings.Join(takes, ", "))
		}
		if !slices.Contains(later, name) {
			w := wordOf(word)
			err := w.check(value)
			if err != nil && w.Secret {
				err = errors.New("it is empty, or cannot stand in a header") // without the value
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		out[word] = value
	}
	for _, need := range r.needs {
		if out[need] == "" {
			return nil, fmt.Errorf("it needs %s: %s", need, wordOf(need).Says)
		}
	}
	return out, nil
}

// secret takes the options that must not be shown out of o.
func (o Options) secret() Options {
	hidden := Options{}
	for _, w := range optionWords {
		if value, ok := o[w.Name]; ok && w.Secret {
			hidden[w.Name] = value
			o[w.Name] = "(hidden)"
		}
	}
	return hidden
}

// words returns the words that are set, sorted.
func (o Options) words() []string {
	words := make([]string, 0, len(o))
	for w := range o {
		words = append(words, w)
	}
	slices.Sort(words)
	return words
}

func (o Options) shown(word string) string {
	switch {
	case word == "certificate":
		return "(given)"
	case strings.ContainsAny(o[word], " \t\r\n") || o[word] == "":
		return fmt.Sprintf("%q", o[word])
	}
	return o[word]
}

func checkAny(value string) error {
	if value == "" {
		return errors.New("it is empty; is its variable or file set?")
	}
	return nil
}

func checkHeader(value string) error {
	if !httpguts.ValidHeaderFieldName(value) {
		return fmt.Errorf("%q is not a header name", value)
	}
	return nil
}

func checkToken(value string) error {
	if value == "" || strings.ContainsAny(value, " \t\r\n,;=") {
		return fmt.Errorf("%q is not a name: it is empty, or has blanks or separators in it", value)
	}
	return nil
}

// checkPrefix refuses what can never stand at the start of a header value, where every request would be refused.
func checkPrefix(value string) error {
	if !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("%q cannot stand in a header", value)
	}
	if strings.TrimLeft(value, " \t") != value {
		return errors.New("it begins with a blank, which HTTP takes off header values")
	}
	return nil
}

func checkTemplate(value string) error {
	t, err := parseTemplate(value, nil)
	if err != nil {
		return err
	}
	if t.has(secretPart) || t.has(builtPart) || t.has(optionPart) {
		return errors.New("it may not hold {sig.secret}, {sig.built} or {sig.option.…}")
	}
	if slices.ContainsFunc([]partKind{bodyPart, bodySHA256Part, bodySHA256Base64Part, bodySHA256RawPart}, t.has) {
		return nil
	}
	return errors.New("it does not hold {sig.body} or a digest of it, so that anyone could change the body")
}

func checkTolerance(value string) error {
	_, err := parseTolerance(value)
	return err
}

func checkHTTPS(value string) error {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q is not an https URL", value)
	case u.User != nil:
		return errors.New("it holds a user or password; write the URL without it")
	}
	return nil
}

func checkPlace(value string) error {
	_, err := parsePlace(value)
	return err
}

func oneOf(from []string) func(string) error {
	return func(value string) error {
		if slices.Contains(from, value) {
			return nil
		}
		return fmt.Errorf("%q is unknown; choose from %s", value, strings.Join(from, ", "))
	}
}
