// Package jsonptr reads values at JSON pointers (RFC 6901) out of a document without decoding or copying it. Names match
// exactly, unlike encoding/json's, and of members with the same name the last one counts, as it does for most applications.
package jsonptr

import (
	"errors"
	"fmt"
	"strings"
)

// Pointer is a parsed JSON pointer: the names and indexes on the way to a value.
type Pointer []string

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// Parse reads a pointer. The empty one, which means the whole document, is an error.
func Parse(s string) (Pointer, error) {
	if s == "" {
		return nil, errors.New(`json pointer "" means the whole body; use dedupe body for that`)
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("json pointer %q must begin with /, as in /%s", s, s)
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return nil, fmt.Errorf("json pointer %q has a ~ that is not part of ~0 (for ~) or ~1 (for /)", s)
		}
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		tokens[i] = pointerEscapes.Replace(t)
	}
	return tokens, nil
}
