package capture_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/capture"
)

const most = 1 << 20

func read(t *testing.T, text, url string) *capture.Capture {
	t.Helper()
	c, err := capture.Read(strings.NewReader(text), url, most)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLinesOfTheHeadEndWithLFOrCRLFAndTheBodyStaysAsItIs(t *testing.T) {
	head := "PUT /in?a=%20b HTTP/1.1\nHost: hooks.example.test\nx-signature:  abc \nX-Twice: 1\nX-Twice: 2\nX-Empty:\n\n"
	body := "\r\n{\n \"a\":1}\r\n\n\xff\x00"
	for name, text := range map[string]string{"LF": head, "CRLF": strings.ReplaceAll(head, "\n", "\r\n")} {
		t.Run(name, func(t *testing.T) {
			// One byte at a time, as a pipe may bring it.
			c, err := capture.Read(iotest.OneByteReader(strings.NewReader(text+body)), "", most)
			if err != nil {
				t.Fatal(err)
			}
			if c.Method != http.MethodPut || c.URL != "https://hooks.example.test/in?a=%20b" || string(c.Body) != body || len(c.Notes) != 0 {
				t.Errorf("%s %s %q %q", c.Method, c.URL, c.Body, c.Notes)
			}
			want := http.Header{"X-Signature": {"abc"}, "X-Twice": {"1", "2"}, "X-Empty": {""}}
			if diff := cmp.Diff(want, c.Header); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheURLIsTheSenders(t *testing.T) {
	for _, c := range []struct{ name, head, url, want string }{
		{"https is what providers use", "POST /a HTTP/1.1\nHost: h:8443\n\n", "", "https://h:8443/a"},
		{"a proxy says http", "POST /a HTTP/1.1\nHost: h\nX-Forwarded-Proto: http\n\n", "", "http://h/a"},
		{"absolute request line", "POST http://other/a HTTP/1.1\nHost: h\n\n", "", "http://other/a"},
		{"given", "POST /b HTTP/2\nHost: h\n\n", "http://x/A%2f?q", "http://x/A%2f?q"},
		{"given without the query", "POST /b?c=d&e HTTP/1.1\nHost: h\n\n", "https://x/a", "https://x/a?c=d&e"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := read(t, c.head, c.url).URL; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWhatLooksOddIsNoted(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"length", "POST / HTTP/1.1\nHost: h\nContent-Length: 3\n\nabcd", "Content-Length says 3, but 4 bytes"},
		{"chunks", "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: Chunked\n\n1\na\n0\n", "chunks"},
		{"no body", "POST / HTTP/1.1\nHost: h\nX-A: b", "no empty line"},
		{"no host", "POST / HTTP/1.1\n\nx", "which host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(t, c.text, "")
			if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], c.want) {
				t.Errorf("notes %q, want %q", got.Notes, c.want)
			}
		})
	}
	if c := read(t, "POST / HTTP/1.1\nHost: h\nX-A: b", ""); c.Header.Get("X-A") != "b" || len(c.Body) != 0 {
		t.Errorf("the last field of a head without end is lost: %v %q", c.Header, c.Body)
	}
	if c := read(t, "\ufeffPOST / HTTP/1.1\nHost: h\n\nx", ""); c.Method != http.MethodPost {
		t.Errorf("method %q", c.Method)
	}
}

func TestWhatIsNoRequestIsRefused(t *testing.T) {
	const head = "POST / HTTP/1.1\nHost: h\n"
	for _, c := range []struct{ name, text, url, want string }{
		{"nothing", "", "", "empty"},
		{"a body alone", `{"id":1}`, "", "line 1"},
		{"a response", "HTTP/1.1 200 OK\n\n", "", "line 1"},
		{"no path", "POST HTTP/1.1\n\n", "", "line 1"},
		{"curl -v", "> POST / HTTP/1.1\n", "", "line 1"},
		{"field without colon", head + "X-A\n\nb", "", "line 3"},
		{"folded field", head + "X-A: b\n c: d\n\nb", "", "line 4"},
		{"control character", head + "X-A: b\x00c\n\nb", "", "line 3"},
		{"long head", head + "X-A: " + strings.Repeat("a", 1<<20), "", "more than 1048576 bytes"},
		{"long body", head + "\n" + strings.Repeat("a", most+1), "", "more than 1048576 bytes, the most"},
		{"relative url", head + "\n", "/in", "--url"},
		{"odd url", head + "\n", "ftp://h/in", "--url"},
		{"broken url", head + "\n", "https://h/%zz", "--url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := capture.Read(strings.NewReader(c.text), c.url, most); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	broken := errors.New("broken pipe")
	for _, before := range []string{"", "POST / HTTP/1.1\nX-", head + "\nbody"} {
		in := io.MultiReader(strings.NewReader(before), iotest.ErrReader(broken))
		if _, err := capture.Read(in, "", most); !errors.Is(err, broken) {
			t.Errorf("after %q: %v", before, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("POST /in HTTP/1.1\r\nHost: h\r\n\r\nbody"))
	f.Add([]byte("GET http://h/?a HTTP/2\nA: b\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := capture.Read(strings.NewReader(string(text)), "", most)
		if err == nil && !strings.HasSuffix(string(text), string(c.Body)) {
			t.Errorf("the body %q is not the end of the input", c.Body)
		}
	})
}
