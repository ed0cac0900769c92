package verify

import (
	"cmp"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// twilioScheme signs the URL, and the fields of a form; of another body the URL holds a digest.
var twilioScheme = &signed{
	sig: "X-Twilio-Signature", alg: hmacSHA1, enc: base64Encoding, message: []string{"{sig.url}{sig.built}"},
	urls: twilioURLs, prepare: twilioBody, shape: shapeTwilio,
}

const twilioSettings = "X-Twilio-Webhooks-Signature-Settings"

// twilioBody builds what follows the URL.
func twilioBody(in *input) Reason {
	in.built = []byte{}
	if lines := in.r.Header[twilioSettings]; len(lines) > 0 {
		if len(lines) > 1 {
			return ReasonRepeated
		}
		if in.alg = twilioAlgorithm(lines[0]); in.alg == nil {
			return ReasonUnsupported
		}
	}
	if sums := queryValues(in.url, "bodySHA256"); len(sums) > 0 {
		sum := sha256.Sum256(in.r.Body)
		given, ok := decodeHex(nil, sums[0])
		// The parameter is signed with the URL, so a wrong one is a changed body and nothing that a time could tell about.
		if len(sums) > 1 || !ok || string(given) != string(sum[:]) {
			return ReasonNoMatch
		}
		return ""
	}
	mediaType, _, _ := strings.Cut(in.r.Header.Get("Content-Type"), ";")
	if len(in.r.Body) == 0 {
		return ""
	}
	// Without the parameter a body that is no form would not be covered at all.
	if mediaType = strings.ToLower(strings.TrimSpace(mediaType)); mediaType != "application/x-www-form-urlencoded" {
		return ReasonMissing
	}
	return sortedFormWith(in, compareUTF16, true)
}

func twilioAlgorithm(settings string) *algorithm {
	alg := hmacSHA1
	for item := range strings.SplitSeq(settings, ",") {
		if key, value, _ := strings.Cut(strings.TrimSpace(item), "="); strings.EqualFold(key, "algorithm") {
			switch value {
			case "HMAC_SHA1":
			case "HMAC_SHA256":
				alg = hmacSHA256
			default:
				return nil
			}
		}
	}
	return alg
}

// twilioURLs are the spellings that Twilio's libraries accept: without a port and with the scheme's own one, each also
// with the query re-encoded in the two ways that senders have.
func twilioURLs(rawURL string) []string {
	rawURL, _, _ = strings.Cut(rawURL, "#")
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return []string{rawURL}
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	user := ""
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	host := authority
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		host = authority[:colon]
	}
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	var urls []string
	add := func(path string) {
		for _, u := range []string{scheme + "://" + user + host + path, scheme + "://" + user + host + port + path, scheme + "://" + user + authority + path} {
			if !slices.Contains(urls, u) {
				urls = append(urls, u)
			}
		}
	}
	add(path)
	if before, query, ok := strings.Cut(path, "?"); ok {
		add(before + "?" + normalQuery(query))
		if again, ok := regroupQuery(query); ok {
			add(before + "?" + again)
		}
	}
	return urls
}

// normalQuery escapes what the WHATWG URL standard does in a query.
func normalQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>'", c) >= 0 {
			b.WriteString(percentByte(c))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// regroupQuery parses and writes a query as Node's querystring does: values of a name that is repeated come together.
func regroupQuery(query string) (string, bool) {
	pairs, ok := formPairs([]byte(query))
	if !ok {
		return "", false
	}
	var names []string
	values := map[string][]string{}
	for _, p := range pairs {
		if values[p.key] == nil {
			names = append(names, p.key)
		}
		values[p.key] = append(values[p.key], p.value)
	}
	var items []string
	for _, name := range names {
		for _, value := range values[name] {
			items = append(items, nodeEscape(name)+"="+nodeEscape(value))
		}
	}
	return strings.Join(items, "&"), true
}

// nodeEscape escapes as JavaScript's encodeURIComponent does.
func nodeEscape(s string) string {
	return escapeExcept(s, "-_.!~*'()")
}

// escapeExcept percent-encodes all bytes but letters, digits and those given.
func escapeExcept(s, keep string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString(percentByte(c))
		}
	}
	return b.String()
}

func percentByte(c byte) string {
	const digits = "0123456789ABCDEF"
	return string([]byte{'%', digits[c>>4], digits[c&15]})
}

// sortedForm builds the names and values of a form in the order of their names, as they are decoded.
func sortedForm(in *input) Reason { return sortedFormWith(in, strings.Compare, false) }

func sortedFormWith(in *input, compare func(a, b string) int, distinct bool) Reason {
	pairs, ok := formPairs(in.r.Body)
	if !ok {
		return ReasonMalformed
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		if c := compare(a.key, b.key); c != 0 || !distinct {
			return c
		}
		return compare(a.value, b.value)
	})
	if distinct {
		pairs = slices.Compact(pairs)
	}
	in.built = []byte{}
	for _, p := range pairs {
		in.built = append(append(in.built, p.key...), p.value...)
	}
	return ""
}

// compareUTF16 orders as JavaScript does, by UTF-16 code units.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			return cmp.Compare(rankUTF16(x), rankUTF16(y))
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// rankUTF16 puts the last of the characters of one unit behind those of two, which begin with a lower unit.
func rankUTF16(c rune) rune {
	if c >= 0xe000 && c <= 0xffff {
		return c + utf8.MaxRune
	}
	return c
}

// hubspotURLs are the URL as it is, as HubSpot's libraries sign it, and with the twelve escapes decoded that its
// documentation names.
func hubspotURLs(rawURL string) []string {
	decoded := hubspotEscapes.Replace(rawURL)
	if decoded == rawURL {
		return []string{rawURL}
	}
	return []string{rawURL, decoded}
}

var hubspotEscapes = strings.NewReplacer(
	"%3A", ":", "%3a", ":", "%2F", "/", "%2f", "/", "%3F", "?", "%3f", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'",
	"%28", "(", "%29", ")", "%2A", "*", "%2a", "*", "%2C", ",", "%2c", ",", "%3B", ";", "%3b", ";",
)

// contentfulMessage builds the lines before the body: method, path, and the headers that the request names.
func contentfulMessage(in *input) Reason {
	names, reason := one(in.r.Header["X-Contentful-Signed-Headers"])
	if reason != "" {
		return reason
	}
	covered := false
	headers, reason := headersNamed(func(yield func(string) bool) {
		for name := range strings.SplitSeq(names, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			covered = covered || name == "x-contentful-timestamp"
			if !yield(name) {
				return
			}
		}
	}, in.r.Header)
	if reason != "" {
		return reason
	}
	if !covered {
		// A time that is not among the signed headers could be anything.
		return ReasonMalformed
	}
	// By name alone: of lines with their values, x-team-name would stand before x-team.
	slices.SortStableFunc(headers, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	lines := make([]string, len(headers))
	for i, h := range headers {
		lines[i] = h.key + ":" + strings.TrimSpace(h.value)
	}
	_, uri := splitURL(in.url)
	path, query, _ := strings.Cut(uri, "?")
	if query != "" {
		// Contentful's library escapes the query as one text, and then once more with the path.
		path += "?" + nodeEscape(query)
	}
	in.built = []byte(in.r.Method + "\n" + encodeURI(path) + "\n" + strings.Join(lines, ";") + "\n")
	return ""
}

// encodeURI escapes as JavaScript's encodeURI does, which escapes percent signs once more.
func encodeURI(s string) string { return escapeExcept(s, "-_.!~*'();/?:@&=+$,#") }

// sortedQuery builds the query with its parameters sorted and escaped anew.
func sortedQuery(in *input) Reason {
	pairs, ok := formPairs([]byte(queryOf(in.url)))
	if !ok {
		return ReasonMalformed
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	items := make([]string, len(pairs))
	for i, p := range pairs {
		items[i] = nodeEscape(p.key) + "=" + nodeEscape(p.value)
	}
	in.built = []byte(strings.Join(items, "&"))
	return ""
}

// plivoMessage builds the URL with its query sorted, and for a form its fields sorted.
func plivoMessage(in *input) Reason {
	if _, reason := one(in.r.Header["X-Plivo-Signature-V3-Nonce"]); reason != "" {
		return reason
	}
	built, query, _ := strings.Cut(in.url, "?")
	if query != "" {
		pairs, ok := formPairs([]byte(query))
		if !ok {
			return ReasonMalformed
		}
		slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.value, b.value)) })
		items := make([]string, len(pairs))
		for i, p := range pairs {
			items[i] = p.key + "=" + p.value
		}
		built += "?" + strings.Join(items, "&")
	}
	if in.r.Method == http.MethodPost && len(in.r.Body) > 0 {
		if reason := sortedFormWith(in, strings.Compare, true); reason != "" {
			return reason
		}
		// Plivo writes the dot only behind a query.
		if query != "" {
			built += "."
		} else {
			built += "?"
		}
		built += string(in.built)
	}
	in.built = []byte(built)
	return ""
}
