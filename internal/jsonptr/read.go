package jsonptr

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Document returns the text that the other functions read: the body without a byte order mark. It is false when that is
// not one valid JSON text. encoding/json judges it, its nesting included; what remains is to skip through it, which needs
// neither recursion nor a copy, while its decoder would turn a large body into garbage token by token.
func Document(body []byte) ([]byte, bool) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	return body, json.Valid(body)
}

// Text returns what a scalar says: a string without its quotes and escapes, a number or boolean as it is written. Null,
// objects and arrays have none.
func Text(raw []byte) ([]byte, bool) {
	if raw[0] != '"' {
		return Scalar(raw)
	}
	text, ok := unquote(raw)
	if !ok {
		return nil, false
	}
	return text[1:], true
}

// Items returns the raw elements of an array, or false when raw is none. It stops after max elements and is then false
// too: a caller that must see all of them may not take a part for the whole.
func Items(raw []byte, max int) ([][]byte, bool) {
	if raw[0] != '[' {
		return nil, false
	}
	var items [][]byte
	rest := raw[1:]
	for {
		rest = rest[separators(rest):]
		if rest[0] == ']' {
			return items, true
		}
		if len(items) == max {
			return nil, false
		}
		v := element(rest)
		items = append(items, v)
		rest = rest[len(v):]
	}
}

// Scalar returns a value's bytes, such that a string never equals a number or boolean: a string keeps its opening quote.
func Scalar(raw []byte) ([]byte, bool) {
	switch raw[0] {
	case '{', '[', 'n':
		return nil, false
	case '"':
		text, ok := unquote(raw)
		return text, ok && len(text) > 1
	}
	return raw, true
}

// unquote returns a string's text behind an opening quote. A string that is not Unicode is refused, because decoding
// would make one replacement character of all that is wrong in it, and so one id of many.
func unquote(raw []byte) ([]byte, bool) {
	text := raw[:len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, false
		}
		text = append([]byte{'"'}, s...)
	}
	return text, !bytes.ContainsRune(text, utf8.RuneError) // finds invalid bytes too
}

// Find returns the raw value at the pointer. doc must be valid JSON, here and in everything below.
func (p Pointer) Find(doc []byte) ([]byte, bool) {
	value := element(doc)
	for _, token := range p {
		var ok bool
		switch value[0] {
		case '{':
			value, ok = member(value, token)
		case '[':
			value, ok = item(value, token)
		}
		if !ok {
			return nil, false
		}
	}
	return value, true
}

// member returns the last member of an object that has the name.
func member(object []byte, name string) (value []byte, ok bool) {
	rest := object[1:]
	for {
		rest = rest[separators(rest):]
		if rest[0] == '}' {
			return value, ok
		}
		key := element(rest)
		rest = rest[len(key):]
		v := element(rest[separators(rest):])
		rest = rest[separators(rest)+len(v):]
		if nameIs(key, name) {
			value, ok = v, true
		}
	}
}

func nameIs(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key[1:len(key)-1]) == name
	}
	text, ok := unquote(key)
	return ok && string(text[1:]) == name
}

// item returns an array's element by its index, which has no sign and no leading zero.
func item(array []byte, index string) ([]byte, bool) {
	n, err := strconv.ParseUint(index, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != index {
		return nil, false
	}
	rest := array[1:]
	for ; ; n-- {
		rest = rest[separators(rest):]
		if rest[0] == ']' {
			return nil, false
		}
		v := element(rest)
		if n == 0 {
			return v, true
		}
		rest = rest[len(v):]
	}
}

// separators counts the bytes before the next element. In valid JSON a comma or colon tells no more than a blank.
func separators(s []byte) int {
	for i, c := range s {
		switch c {
		case ' ', '\t', '\n', '\r', ',', ':':
		default:
			return i
		}
	}
	return len(s)
}

// element returns the value that s begins with, after blanks.
func element(s []byte) []byte {
	s = s[separators(s):]
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i += stringEnd(s[i+1:])
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ' ', '\t', '\n', '\r', ',', ':':
			continue
		default:
			i += scalarEnd(s[i:]) - 1
		}
		if depth == 0 {
			return s[:i+1]
		}
	}
	return s
}

// stringEnd returns the index of the closing quote plus one, counted from behind the opening one.
func stringEnd(s []byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// scalarEnd returns the length of the number or word that s begins with.
func scalarEnd(s []byte) int {
	for i, c := range s {
		switch c {
		case ' ', '\t', '\n', '\r', ',', ']', '}':
			return i
		}
	}
	return len(s)
}

// Decoded is Text for strings in which the replacement character may stand, where what is compared is not an id but the
// whole text.
func Decoded(raw []byte) ([]byte, bool) {
	if raw[0] != '"' {
		return Scalar(raw)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, false
	}
	return []byte(s), true
}
