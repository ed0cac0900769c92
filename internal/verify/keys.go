package verify

import (
	"crypto/sha1" //nolint:gosec // a provider derives its HMAC key with it
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// keyForm is how the configured secret becomes the bytes of a key.
type keyForm struct {
	name string
	read func(secret string) ([]byte, error)
}

var (
	utf8Key   = &keyForm{"utf8", func(s string) ([]byte, error) { return []byte(s), nil }}
	hexKey    = &keyForm{"hex", readHexKey}
	base64Key = &keyForm{"base64", readBase64Key}
	// whsecKey is Standard Webhooks' form; the prefix may be missing, and so may the padding.
	whsecKey = &keyForm{"whsec", func(s string) ([]byte, error) { return readBase64Key(strings.TrimPrefix(s, "whsec_")) }}
	// whsecOrText takes a secret without the prefix as it is.
	whsecOrText = &keyForm{"whsec or utf8", func(s string) ([]byte, error) {
		if rest, ok := strings.CutPrefix(s, "whsec_"); ok {
			return readBase64Key(rest)
		}
		return []byte(s), nil
	}}
	// afterUnderscore takes the base64 text behind the last underscore.
	afterUnderscore = &keyForm{"whsec", func(s string) ([]byte, error) { return readBase64Key(s[strings.LastIndexByte(s, '_')+1:]) }}
	// versionedWhsec is "v1,whsec_…".
	versionedWhsec = &keyForm{"v1,whsec", func(s string) ([]byte, error) {
		return readBase64Key(strings.TrimPrefix(strings.TrimPrefix(s, "v1,"), "whsec_"))
	}}
	nfkdKey      = &keyForm{"utf8, NFKD", func(s string) ([]byte, error) { return norm.NFKD.Bytes([]byte(s)), nil }}
	wordpressKey = &keyForm{"utf8, entities decoded", func(s string) ([]byte, error) { return []byte(decodeWordPress(s)), nil }}
	sha1Key      = &keyForm{"SHA-1 of the private key", func(s string) ([]byte, error) {
		sum := sha1.Sum([]byte(s)) //nolint:gosec // as the provider's libraries do
		return sum[:], nil
	}}

	keyForms     = []*keyForm{utf8Key, hexKey, base64Key}
	keyFormNames = namesOf(keyForms, func(k *keyForm) string { return k.name })
)

func keyFormByName(name string) *keyForm {
	for _, k := range keyForms {
		if k.name == name {
			return k
		}
	}
	return nil
}

func readHexKey(s string) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) == 0 {
		return nil, errors.New("is not hexadecimal; copy it exactly as the provider shows it")
	}
	return b, nil
}

func readBase64Key(s string) ([]byte, error) {
	s = strings.TrimRight(s, "=")
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawURLEncoding.DecodeString(s)
	}
	if err != nil || len(b) == 0 || strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("is not base64; copy it exactly as the provider shows it")
	}
	return b, nil
}

// wordPressEntities are the spellings that WordPress decodes, after decimal and hexadecimal forms have lost or gained
// leading zeroes; html.UnescapeString knows many more, with which another key would come out.
var wordPressEntities = strings.NewReplacer(
	"&#039;", "'", "&#x27;", "'",
	"&quot;", `"`, "&#034;", `"`, "&#x22;", `"`,
	"&lt;", "<", "&#060;", "<",
	"&gt;", ">", "&#062;", ">",
	"&amp;", "&", "&#038;", "&", "&#x26;", "&",
)

// decodeWordPress does what wp_specialchars_decode does to a stored WooCommerce secret before it signs.
func decodeWordPress(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	var b strings.Builder
	for s != "" {
		i := strings.Index(s, "&#")
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		end := strings.IndexByte(s, ';')
		normal, ok := "", false
		if end > 0 {
			normal, ok = normalEntity(s[2:end])
		}
		if !ok {
			b.WriteString("&#")
			s = s[2:]
			continue
		}
		b.WriteString(normal)
		s = s[end+1:]
	}
	b.WriteString(s)
	return wordPressEntities.Replace(b.String())
}

// normalEntity gives a numeric entity the zeroes that WordPress looks for.
func normalEntity(number string) (string, bool) {
	if number != "" && (number[0] == 'x' || number[0] == 'X') {
		switch digits := strings.TrimLeft(number[1:], "0"); digits {
		case "22", "26", "27":
			return "&#x" + digits + ";", true
		}
		return "", false
	}
	switch digits := strings.TrimLeft(number, "0"); digits {
	case "34", "38", "39", "60", "62":
		return "&#0" + digits + ";", true
	}
	return "", false
}

func secretError(i int, problem string) error { return fmt.Errorf("secret %d %s", i+1, problem) }
