package anvil

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// redisURL is a URL cut into its parts before any placeholder is replaced. A value can therefore never move a border: a
// '/' or '@' in a password from the environment does not make another host.
//
// No error of this file shows a piece of the URL. What a wrong URL seems to say is not what its author meant, and the
// piece may be half of the password.
type redisURL struct {
	tls, socket    bool
	user, password string // empty: not there
	address        string // host[:port], or the path of a socket
	db             string // empty: not there
}

const escapeHint = "; if a password has such a character, percent-encode it or take the password from {env.NAME}"

// slashHint ends errors that are typical of a password with a '/', which ends the address.
const slashHint = "; if a password has a '/', write it %2F or take the password from {env.NAME}"

var (
	errURLScheme = errors.New("url: it must begin with redis://, rediss:// (TLS) or unix://, as in redis://localhost:6379")
	errURLQuery  = errors.New("url: nothing may come after '?' or '#'; options are words of the block, as in: db 2" + escapeHint)

	placeholders = regexp.MustCompile(`\{[^{}]+\}`)
	hostPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
)

// masked is a text beside a copy of the same length in which NULs stand for placeholders. Borders are looked for in the
// copy.
type masked struct{ text, mask string }

func mask(text string) masked {
	return masked{text, placeholders.ReplaceAllStringFunc(text, func(p string) string { return strings.Repeat("\x00", len(p)) })}
}

// cut splits at index i of the mask and drops n bytes there.
func (m masked) cut(i, n int) (before, after masked) {
	return masked{m.text[:i], m.mask[:i]}, masked{m.text[i+n:], m.mask[i+n:]}
}

// splitRedisURL cuts up a URL and checks those parts that hold no placeholder.
func splitRedisURL(text string) (redisURL, error) {
	var u redisURL
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return u, errors.New("url: it holds a control character")
	}
	whole := mask(text)
	i := strings.Index(whole.mask, "://")
	if i < 0 {
		return u, errURLScheme
	}
	scheme, rest := whole.cut(i, len("://"))
	switch strings.ToLower(scheme.mask) {
	case "redis":
	case "rediss":
		u.tls = true
	case "unix":
		u.socket = true
	default:
		return u, errURLScheme
	}
	if strings.ContainsAny(rest.mask, "?#") {
		return u, errURLQuery
	}
	if strings.ContainsAny(rest.mask, "{}\\ ") {
		return u, errors.New("url: it holds a space, a backslash or a brace that is no placeholder's" + escapeHint)
	}
	authority, path := rest, masked{}
	if i = strings.IndexByte(rest.mask, '/'); i >= 0 {
		authority, path = rest.cut(i, 0)
	}
	if i = strings.LastIndexByte(authority.mask, '@'); i >= 0 {
		var userinfo masked
		userinfo, authority = authority.cut(i, 1)
		if err := u.splitUserinfo(userinfo); err != nil {
			return u, err
		}
	}
	if u.socket {
		if authority.text != "" || len(path.text) < 2 {
			return u, errors.New("url: a unix socket is written with its absolute path, as in unix:///run/redis/redis.sock")
		}
		u.address = path.text
	} else {
		u.address, u.db = authority.text, strings.TrimPrefix(path.text, "/")
	}
	_, err := u.resolve(nil) // a literal mistake is found where the Caddyfile's line is still known
	return u, err
}

func (u *redisURL) splitUserinfo(userinfo masked) error {
	user, password := userinfo, masked{}
	i := strings.IndexByte(userinfo.mask, ':')
	if i >= 0 {
		user, password = userinfo.cut(i, 1)
	}
	u.user, u.password = user.text, password.text
	if u.password == "" && (u.user == "" || i >= 0) {
		return errors.New("url: the user or password before '@' is empty; is an environment variable unset?")
	}
	return nil
}

// redisEndpoint is what a redisURL says when its placeholders are replaced.
type redisEndpoint struct {
	user, password, address string
	db                      int
}

// resolve replaces the placeholders in each part. Without replace it only checks those parts that have none.
func (u *redisURL) resolve(replace func(string) (string, error)) (redisEndpoint, error) {
	var e redisEndpoint
	var db string
	for _, part := range []struct {
		to   *string
		text string
	}{{&e.user, u.user}, {&e.password, u.password}, {&e.address, u.address}, {&db, u.db}} {
		if replace == nil && placeholders.MatchString(part.text) {
			continue
		}
		var err error
		if *part.to, err = expand(part.text, replace); err != nil {
			return e, err
		}
	}
	var err error
	if later := replace == nil && placeholders.MatchString(u.address); !later && !u.socket {
		if e.address, err = redisAddress(e.address, redisPort); err != nil {
			return e, fmt.Errorf("url: the address %w%s", err, slashHint)
		}
	}
	if db != "" {
		if e.db, err = parseDB(db); err != nil {
			return e, fmt.Errorf("url: what follows the address %w, as in redis://localhost:6379/2%s", err, slashHint)
		}
	}
	return e, nil
}

// expand decodes what is written and replaces placeholders. Their values are taken as they are.
func expand(text string, replace func(string) (string, error)) (string, error) {
	var out strings.Builder
	decode := func(literal string) error {
		s, err := url.PathUnescape(literal)
		if err != nil || strings.ContainsRune(s, 0) {
			return errors.New("url: it has a '%' that is not followed by two hexadecimal digits of a character; write %25 for the sign itself")
		}
		out.WriteString(s)
		return nil
	}
	last := 0
	for _, at := range placeholders.FindAllStringIndex(text, -1) {
		if err := decode(text[last:at[0]]); err != nil {
			return "", err
		}
		value, err := replace(text[at[0]:at[1]])
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		last = at[1]
	}
	if err := decode(text[last:]); err != nil {
		return "", err
	}
	return out.String(), nil
}

// redisAddress gives host and port the form of net.Dial.
func redisAddress(text, defaultPort string) (string, error) {
	if text == "" {
		return "", errors.New("has no host")
	}
	host, port := text, defaultPort
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:i], text[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if ip, err := netip.ParseAddr(inner); !ok || err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", errors.New("has no IPv6 address in its brackets")
		}
		host = inner
	} else if !hostPattern.MatchString(host) {
		return "", errors.New("is not host:port, or [IPv6]:port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errors.New("has a port that is not a number from 1 to 65535")
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

func parseDB(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("is not the number of a database")
	}
	return int(n), nil
}
