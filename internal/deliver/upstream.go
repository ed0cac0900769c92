package deliver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/caddy-anvil/anvil/internal/event"
)

// ParseUpstream returns the URL that an upstream argument stands for. Allowed are `http(s)://host[:port][/path][?query]`,
// `host:port`, and `:port` for a port of this machine; the last two mean plain http. A URL without a path takes the path
// and query of each event; a query makes the path `/` when none is written, because it fixes the target. Errors say what
// is allowed and never repeat the argument, which may hold a password.
func ParseUpstream(s string) (string, error) {
	u, err := parseUpstream(s)
	if err != nil {
		return "", fmt.Errorf("parsing upstream: %w; allowed are http://host[:port][/path][?query], the same with https, "+
			"host:port and :port", err)
	}
	return u.String(), nil
}

func parseUpstream(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("it is empty")
	}
	if !strings.Contains(s, "://") {
		host, port, err := net.SplitHostPort(s)
		switch {
		case strings.ContainsAny(s, "/?"):
			return nil, errors.New("a path or query needs a full URL that begins with http:// or https://")
		case err != nil:
			return nil, errors.New("it is neither a URL nor host:port")
		case host == "":
			host = "localhost"
		}
		s = "http://" + net.JoinHostPort(host, port)
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("the URL is malformed; check host, port and percent signs")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %q is not supported", u.Scheme)
	case u.User != nil:
		return nil, errors.New("a user name or password in the URL is not supported")
	case strings.Contains(s, "#"):
		return nil, errors.New("a fragment (#…) is never sent and not supported")
	case u.Hostname() == "":
		return nil, errors.New("the host is missing")
	case !validHost(u):
		return nil, errors.New("the host is not a name or an IP address")
	case !validPort(u):
		return nil, errors.New("the port is not a number from 1 to 65535")
	}
	if u.Path == "" && (u.RawQuery != "" || u.ForceQuery) {
		u.Path = "/"
	}
	return u, nil
}

func validHost(u *url.URL) bool {
	if strings.HasPrefix(u.Host, "[") {
		_, err := netip.ParseAddr(u.Hostname())
		ascii := !strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r <= ' ' || r >= 0x7f })
		return err == nil && ascii // beyond ASCII a zone would not survive being written and read again
	}
	return !strings.ContainsFunc(u.Hostname(), func(r rune) bool {
		// Underscores are common in names of containers, letters beyond ASCII in international names.
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '-' && r != '.' && r != '_'
	})
}

func validPort(u *url.URL) bool {
	if strings.HasSuffix(u.Host, ":") {
		return false
	}
	if u.Port() == "" {
		return true
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// resolve returns the URL of one attempt: the target as configured when it has a path, else the event's own path and
// query on the target's host. The query of an event without a body is its content, and goes along always, less what the
// target's own query says: many frameworks take the last of two values, and the first is the operator's.
func resolve(target string, p *event.Payload) (*url.URL, error) {
	u, err := parseUpstream(target)
	if err != nil {
		return u, err
	}
	// Parsed as a request line, so that a path of `//evil.example/` stays a path and cannot become a host.
	own, err := url.ParseRequestURI(p.URI)
	if err != nil || !strings.HasPrefix(own.Path, "/") {
		own = &url.URL{Path: "/"} // an event without a usable path goes to the root rather than nowhere
	}
	if u.Path != "" {
		if len(p.Body) == 0 {
			u.RawQuery = joinQueries(u.RawQuery, own.RawQuery)
		}
		return u, nil
	}
	u.Path, u.RawPath, u.RawQuery, u.ForceQuery = own.Path, own.RawPath, own.RawQuery, own.ForceQuery
	return u, nil
}

func joinQueries(first, second string) string {
	fixed, _ := url.ParseQuery(first)
	for pair := range strings.SplitSeq(second, "&") {
		name, _, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if pair == "" || err != nil && len(fixed) > 0 || fixed.Has(plain) {
			continue
		}
		if first != "" {
			first += "&"
		}
		first += pair
	}
	return first
}
