// Package capture reads a raw HTTP request that somebody has saved, for looking at it again.
package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// maxHead is what net/http allows a head by default.
const maxHead = 1 << 20

// Capture is a saved request.
type Capture struct {
	verify.Request
	// Notes say what looks odd about it and can make a genuine request fail.
	Notes []string
}

// Read reads a request: a request line and header fields, whose lines end with LF or CR LF, an empty line, and the body,
// which is every byte from there to the end. Content-Length does not count: an editor may have changed the body, and that
// is for the signature to say.
//
// sentTo is the URL as the sender saw it; empty takes it from the request, with https unless the request says otherwise.
// Where only the request has a query, it counts.
//
// Errors: what cannot be read as a request, or has a body of more than maxBody bytes.
func Read(in io.Reader, sentTo string, maxBody int64) (*Capture, error) {
	b := bufio.NewReader(io.LimitReader(in, maxHead+maxBody+1))
	h := &head{in: b, left: maxHead}
	c := &Capture{}
	target, err := h.requestLine(&c.Request)
	if err != nil {
		return nil, err
	}
	if err := h.fields(&c.Request); err != nil {
		return nil, err
	}
	if h.ended {
		c.note("no empty line ends the head, so the body is empty; was it saved with its body?")
	}
	if c.Body, err = io.ReadAll(io.LimitReader(b, maxBody+1)); err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	if int64(len(c.Body)) > maxBody {
		return nil, fmt.Errorf("the body has more than %d bytes, the most that can be verified", maxBody)
	}
	if err := c.setURL(target, sentTo); err != nil {
		return nil, err
	}
	c.aboutBody()
	// As in net/http, where the host is no header.
	c.Header.Del("Host")
	return c, nil
}

func (c *Capture) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

func (c *Capture) setURL(target, sentTo string) error {
	if sentTo == "" {
		sentTo = target
		if !strings.Contains(target, "://") {
			host := c.Header.Get("Host")
			if host == "" {
				c.note("neither the request nor --url says which host it was sent to")
			}
			scheme := c.Header.Get("X-Forwarded-Proto")
			if scheme != "http" {
				scheme = "https"
			}
			sentTo = scheme + "://" + host + target
		}
		c.URL = sentTo
		return nil
	}
	u, err := url.Parse(sentTo)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--url %q is not the URL that the sender has: write it whole, as in https://hooks.example.com/in?a=b", sentTo)
	}
	c.URL = sentTo
	if _, query, ok := strings.Cut(target, "?"); ok && !strings.Contains(sentTo, "?") {
		c.URL += "?" + query
	}
	return nil
}

func (c *Capture) aboutBody() {
	have := strconv.Itoa(len(c.Body))
	if want := strings.TrimSpace(c.Header.Get("Content-Length")); want != "" && want != have {
		c.note("Content-Length says %.20s, but %s bytes of body are here: was the body changed when it was saved?", want, have)
	}
	if strings.Contains(strings.ToLower(c.Header.Get("Transfer-Encoding")), "chunked") {
		c.note("the body was sent in chunks: leave out their sizes, since only what they hold is signed")
	}
}

// head reads the lines before the body.
type head struct {
	in    *bufio.Reader
	left  int
	line  int
	ended bool // by the end of the input
}

var errHeadTooLong = fmt.Errorf("the head has more than %d bytes; is this a saved HTTP request?", maxHead)

// next returns a line without its end; an empty one also at the end of the input.
func (h *head) next() (string, error) {
	h.line++
	var text []byte
	for {
		part, err := h.in.ReadSlice('\n')
		if h.left -= len(part); h.left < 0 {
			return "", errHeadTooLong
		}
		text = append(text, part...)
		switch {
		case err == nil:
			return strings.TrimSuffix(string(text[:len(text)-1]), "\r"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			h.ended = true
			return string(text), nil
		default:
			return "", fmt.Errorf("reading the request: %w", err)
		}
	}
}

func (h *head) requestLine(r *verify.Request) (target string, err error) {
	line, err := h.next()
	if err != nil {
		return "", err
	}
	if line == "" && h.ended {
		return "", errors.New("the request is empty")
	}
	// A byte order mark is an editor's, and no method begins with one.
	line = strings.TrimPrefix(line, "\ufeff")
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !httpguts.ValidHeaderFieldName(parts[0]) || !strings.HasPrefix(parts[2], "HTTP/") ||
		!strings.HasPrefix(parts[1], "/") && !strings.Contains(parts[1], "://") {
		return "", errors.New("line 1 is not the first line of an HTTP request, as in: POST /path HTTP/1.1")
	}
	r.Method = parts[0]
	return parts[1], nil
}

func (h *head) fields(r *verify.Request) error {
	r.Header = http.Header{}
	for !h.ended {
		line, err := h.next()
		if err != nil {
			return err
		}
		if line == "" {
			return nil
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("line %d is not a header field, as in \"Name: value\"; an empty line ends the head", h.line)
		}
		r.Header.Add(name, value)
	}
	return nil
}
