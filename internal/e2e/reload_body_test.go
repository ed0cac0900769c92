package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// slowSite gives the second half of a body all the time that reloads take.
func slowSite(u *upstream) string {
	return strings.Replace(simpleSite(u), "\t\tdeliver", "\t\tread_timeout 10m\n\t\tdeliver", 1)
}

// half sends the head and the first half of a signed webhook, and returns when the server reads the body.
func half(t *testing.T, c *instance, body []byte) net.Conn {
	t.Helper()
	conn := dial(t, c.site)
	_, _ = io.WriteString(conn, c.rawPost(len(body), "X-Signature: "+sign(secret, body), "Expect: 100-continue"))
	r := bufio.NewReader(conn)
	for _, want := range []string{"HTTP/1.1 100 Continue", ""} {
		if line, err := readLine(r); err != nil || line != want {
			t.Fatalf("got %q, %v; want %q", line, err, want)
		}
	}
	_, _ = conn.Write(body[:len(body)/2])
	return conn
}

// rest sends the second half and returns the answer.
func rest(t *testing.T, conn net.Conn, body []byte) response {
	t.Helper()
	_, _ = conn.Write(body[len(body)/2:])
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("the sender of a body during a reload got no answer: %v", err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return response{status: res.StatusCode, header: res.Header, body: text}
}

func TestAWebhookWhoseBodyComesDuringAReloadIsTakenAndDelivered(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	site := slowSite(up)
	c.start(c.caddyfile("", site))
	body := hook(1)
	conn := half(t, c, body)
	for _, load := range []string{"1", "2"} {
		c.mustReload(c.caddyfile("", "\theader X-Load "+load+"\n"+site))
	}
	if r := rest(t, conn, body); r.status != http.StatusAccepted || !strings.Contains(string(r.body), `"replayed":false`) {
		t.Fatalf("got %d %s, want a fresh 202", r.status, r.body)
	}
	if h := up.wait(1, patience)[0]; string(h.body) != string(body) {
		t.Errorf("the upstream got %q", h.body)
	}
	c.settled(patience)
	if r := post(t, c.site+"/hooks", body); !r.Replayed {
		t.Errorf("the new configuration answers %s, want a duplicate", r.body)
	}
}

// The store that the request began with is closed by then; what matters is that no 2xx is given for nothing.
func TestAWebhookWhoseBodyComesAfterItsStoreHasGoneIsRefusedForNow(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tstore sqlite "+c.dir+"/first.db", slowSite(up)))
	body := hook(1)
	conn := half(t, c, body)
	c.mustReload(c.caddyfile("\t\tstore sqlite "+c.dir+"/second.db", slowSite(up)))
	waitFor(t, patience, "the first store being closed", func() bool {
		_, handles := c.openFiles("first.db")
		return handles == 0
	})
	r := rest(t, conn, body)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, Retry-After %q; want 503 with a time", r.status, r.body, r.header.Get("Retry-After"))
	}
	c.delivers("/hooks", body, patience)
	if n := up.count(); n != 1 {
		t.Errorf("the upstream has %d requests, want the repetition only", n)
	}
}
