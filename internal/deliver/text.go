package deliver

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is the most bytes of an error or of a response that the ledger keeps.
const maxText = 512

const redacted = "[redacted]"

var (
	userinfo = regexp.MustCompile(`(://)[^\s/?#"'<>]*@`)
	// Long words count anywhere in a parameter's name, short ones only as a part between separators, so that `code` is
	// hidden and `zipcode` is not. U+FFFD stands for what was a control character: an environment has a NUL between two.
	credential = regexp.MustCompile(`(?i)((?:^|[?&;\s,"'(<\x{FFFD}])(?:` +
		`[\w.~%\[\]-]*(?:token|secret|signature|passw|passphrase|credential|session|key)[\w.~%\[\]-]*|` +
		`(?:[\w.~%\[\]-]*[._\[-])?(?:sig|auth|authorization|code|pass|pwd|jwt|otp|hmac)(?:[._\]-][\w.~%\[\]-]*)?` +
		`)=)[^&;#\s"'<>)]+`)
)

// clean makes text from outside fit for the ledger, for logs and for a terminal: without credentials, valid UTF-8,
// without control characters, at most maxText bytes and never half a character.
func clean(s string) string {
	return truncate(scrub(printable(s)))
}

// scrub hides user names and passwords in URLs, and the values of parameters that look like credentials.
func scrub(s string) string {
	if strings.Contains(s, "@") {
		s = userinfo.ReplaceAllString(s, "${1}"+redacted+"@")
	}
	if strings.Contains(s, "=") {
		s = credential.ReplaceAllString(s, "${1}"+redacted)
	}
	return s
}

func printable(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, s)
}

func truncate(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// trimPartialRune cuts an incomplete character that a read limit has left at the end.
func trimPartialRune(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
