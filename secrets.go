package anvil

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// resolveSecrets replaces placeholders. Errors never show the text: an unknown placeholder may be a secret with braces.
func resolveSecrets(c *VerifyConfig) ([]string, error) {
	repl := caddy.NewReplacer()
	var all []string
	for i, raw := range c.Secrets {
		secret, err := repl.ReplaceOrErr(raw, true, true)
		if err != nil || secret == "" {
			return nil, fmt.Errorf("verify %s: secret %d%s is empty, or holds an unknown placeholder; is its variable or file set? (a literal brace is written \\{)",
				c.Provider, i+1, nameOfPlaceholder(raw))
		}
		if !strings.HasPrefix(raw, "{file.") || strings.Index(raw, "}") != len(raw)-1 {
			all = append(all, secret)
			continue
		}
		found := secretsOfFile(secret)
		if len(found) == 0 {
			return nil, fmt.Errorf("verify %s: the file of secret %d has no line with a secret", c.Provider, i+1)
		}
		all = append(all, found...)
	}
	return all, nil
}

// secretsOfFile takes each line for a secret, but keeps together what has several lines by its nature: PEM and JSON keys.
func secretsOfFile(content string) []string {
	content = strings.TrimPrefix(content, byteOrderMark)
	if strings.HasPrefix(strings.TrimSpace(content), "{") && json.Valid([]byte(content)) {
		return []string{strings.TrimSpace(content)}
	}
	var all []string
	if strings.Contains(content, "-----BEGIN ") {
		for block, rest := pem.Decode([]byte(content)); block != nil; block, rest = pem.Decode(rest) {
			all = append(all, strings.TrimSpace(string(pem.EncodeToMemory(block))))
		}
		return all
	}
	for line := range strings.Lines(content) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			all = append(all, line)
		}
	}
	return all
}

// byteOrderMark is what editors on Windows put first in a file. No secret begins with it.
const byteOrderMark = "\ufeff"

var nothingButPlaceholder = regexp.MustCompile(`^\{(env|file)\.[^{}]+\}$`)

// nameOfPlaceholder shows what was written where that is a variable's or a file's name and cannot be a secret.
func nameOfPlaceholder(raw string) string {
	if nothingButPlaceholder.MatchString(raw) {
		return " " + raw
	}
	return ""
}

// resolveOptions replaces placeholders, in silence about the values as with secrets. A file's last line end is not part of
// a value.
func resolveOptions(c *VerifyConfig) (verify.Options, error) {
	repl := caddy.NewReplacer()
	out := plainOptions(c.Options)
	for _, word := range slices.Sorted(maps.Keys(out)) {
		raw := out[word]
		if word == optionTemplate || !strings.Contains(raw, "{") {
			continue
		}
		value, err := repl.ReplaceOrErr(raw, true, true)
		if err != nil {
			return nil, fmt.Errorf("verify %s: %s%s is empty, or holds an unknown placeholder; is its variable or file set? (a literal brace is written \\{)",
				c.Provider, word, nameOfPlaceholder(raw))
		}
		if strings.HasPrefix(raw, "{file.") {
			value = strings.TrimRight(strings.TrimPrefix(value, byteOrderMark), "\r\n")
		}
		out[word] = value
	}
	return plainOptions(out), nil
}

// hasLiteral reports whether something that must stay secret is written out in the configuration. Public keys need not.
func (v *VerifyConfig) hasLiteral() bool {
	literal := func(text string) bool { return !strings.Contains(text, "{") && !strings.HasPrefix(text, "-----BEGIN ") }
	for _, w := range verify.OptionWords() {
		if value, given := v.Options[w.Name]; given && w.Secret && literal(value) {
			return true
		}
	}
	if p, ok := verify.Lookup(v.Provider); ok && (p.Family == verify.FamilyPublicKey || p.Family == verify.FamilyCertificate) {
		return false
	}
	return slices.ContainsFunc(v.Secrets, literal)
}

// formerSecrets are the secrets of each source before their last change, so that a refusal can say that the sender still
// signs with an old one. They go with the source.
var formerSecrets = struct {
	sync.Mutex
	of map[string]*secretHistory
}{of: map[string]*secretHistory{}}

// secretHistory keeps secrets out of reach of formatting verbs and encoders.
type secretHistory struct{ now, before func() []string }

// secretsBefore returns what tells the secrets before those of a configuration that starts.
func secretsBefore(source string, now []string) (before func() []string) {
	formerSecrets.Lock()
	defer formerSecrets.Unlock()
	h := formerSecrets.of[source]
	if h == nil {
		return func() []string { return nil }
	}
	old := h.now()
	if slices.Equal(old, now) {
		return h.before
	}
	gone := slices.DeleteFunc(slices.Clone(old), func(s string) bool { return slices.Contains(now, s) })
	return func() []string { return gone }
}

// useSecrets notes the secrets of a configuration that is in force.
func useSecrets(source string, now []string) {
	before := secretsBefore(source, now)
	formerSecrets.Lock()
	defer formerSecrets.Unlock()
	formerSecrets.of[source] = &secretHistory{now: func() []string { return now }, before: before}
}

func forgetSecrets(source string) {
	formerSecrets.Lock()
	defer formerSecrets.Unlock()
	delete(formerSecrets.of, source)
}
