package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// One source in front of one upstream: the smallest site that does everything.
func simpleSite(u *upstream) string {
	return fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s\n\t}", secret, u.addr())
}

func TestAFiveLineSiteTakesASignedWebhookToItsUpstream(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t\tdeliver %s\n\t}", secret, up.url()))

	body := []byte("{ \"b\":1,\n  \"a\" : 2.0, \"s\":\"caf\u00e9 \U0001FAE8\" }\xff\x00\r\n")
	r := post(t, c.site+"/any/path?x=%2F&x=2", body,
		"Content-Type", "application/vnd.demo+json; charset=utf-8", "X-Twice", "one", "X-Twice", "two",
		"X-Forwarded-For", "198.51.100.9", "X-Forwarded-Host", "evil.example",
		"Forwarded", "for=198.51.100.9", "X-Real-Ip", "198.51.100.9", "Anvil-Job-Id", "forged", "Anvil-Verified", "forged",
		"Authorization", "Bearer canary", "Cookie", "s=canary", "Te", "trailers")

	if r.status != http.StatusAccepted || r.Replayed || len(r.JobID) != 36 {
		t.Fatalf("got %d %s, want a 202 with a job id", r.status, r.body)
	}
	if got := r.header.Get("Anvil-Job-Id"); got != r.JobID {
		t.Errorf("header Anvil-Job-Id is %q, want %q", got, r.JobID)
	}
	h := up.wait(1, patience)[0]
	if !bytes.Equal(h.body, body) {
		t.Errorf("the upstream got the body %q, want %q", h.body, body)
	}
	if h.line != "POST /any/path?x=%2F&x=2 HTTP/1.1" {
		t.Errorf("request line %q does not carry the path and query as sent", h.line)
	}
	for name, want := range map[string]string{
		"Host":              up.addr(),
		"Content-Type":      "application/vnd.demo+json; charset=utf-8",
		"X-Signature":       sign(secret, body),
		"Content-Length":    strconv.Itoa(len(body)),
		"Anvil-Job-Id":      r.JobID,
		"Anvil-Attempt":     "1",
		"Anvil-Source":      "demo",
		"Anvil-Verified":    "true",
		"X-Forwarded-For":   "127.0.0.1",
		"X-Forwarded-Proto": "http",
	} {
		if got := h.headers(name); len(got) != 1 || got[0] != want {
			t.Errorf("header %s is %q, want only %q", name, got, want)
		}
	}
	if got := h.headers("X-Twice"); len(got) != 2 || got[0] != "one" || got[1] != "two" {
		t.Errorf("repeated header came as %q", got)
	}
	if _, err := time.Parse(time.RFC3339, h.header("Anvil-Received-At")); err != nil || !strings.HasSuffix(h.header("Anvil-Received-At"), "Z") {
		t.Errorf("Anvil-Received-At is %q, want RFC 3339 in UTC", h.header("Anvil-Received-At"))
	}
	if len(h.header("Anvil-Event-Id")) != 36 {
		t.Errorf("Anvil-Event-Id is %q", h.header("Anvil-Event-Id"))
	}
	for _, name := range []string{"Forwarded", "X-Real-Ip", "Authorization", "Cookie", "Te", "Transfer-Encoding"} {
		if got := h.headers(name); len(got) != 0 {
			t.Errorf("header %s came through: %q", name, got)
		}
	}
	j := c.waitState(r.JobID, "delivered", patience)
	if len(j.Ledger) != 1 || j.Ledger[0].Number != 1 || j.Ledger[0].Status != 200 {
		t.Errorf("ledger is %+v, want one row, number 1, status 200", j.Ledger)
	}
	info, err := os.Stat(c.storePath())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the store at its default place: %v, %v; want mode 0600", info, err)
	}
	if n := up.count(); n != 1 {
		t.Errorf("the upstream has %d requests, want 1", n)
	}
}

func TestTheDocumentedSignatureVectorIsAccepted(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, "\tanvil demo {\n\t\tverify hmac 0123456789abcdef\n\t\tdeliver "+up.addr()+"\n\t}")
	r, err := send(c.site+"/", []byte(`{"id":"evt_1"}`),
		"X-Signature", "sha256=058d37e5c6599b17f2260c5d771a650b4005c603b5b3f6e1134e79f85adacdea")
	if err != nil || r.status != http.StatusAccepted {
		t.Fatalf("got %d %s %v", r.status, r.body, err)
	}
	e := c.event(up.wait(1, patience)[0].header("Anvil-Event-Id"))
	const key = "ed470e2fc65a6832898c775d0ad6467c9cf144df7ae8e51588c49bebdfded85c"
	if len(e.Keys) != 1 || e.Keys[0] != key {
		t.Errorf("the event's keys are %q, want %q", e.Keys, key)
	}
}

func TestAnEmptySignedBodyIsAnEvent(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	accepted(t, c.site+"/hooks", nil)
	h := up.wait(1, patience)[0]
	if len(h.body) != 0 || h.header("Content-Length") != "0" {
		t.Errorf("the upstream got %q with length %q", h.body, h.header("Content-Length"))
	}
}

func TestAnAcceptIsDeliveredAtOnceAfterAnIdleTime(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	// The engine looks by itself a second after it has looked last, at a delivery for example. A webhook that does not
	// wake it waits for the most of a second, each time. A busy machine may delay many, but not all.
	c.waitState(accepted(t, c.site+"/hooks", hook(0)), "delivered", patience)
	fastest := time.Hour
	for i := 1; i <= 12 && fastest > 400*time.Millisecond; i++ {
		holds(t, 2200*time.Millisecond, "nothing to do", func() bool { return up.count() == i })
		start := time.Now()
		id := accepted(t, c.site+"/hooks", hook(i))
		fastest = min(fastest, up.wait(i+1, patience)[i].at.Sub(start))
		c.waitState(id, "delivered", patience)
	}
	if fastest > 400*time.Millisecond {
		t.Errorf("the upstream waited %s at least; an idle worker must be woken by the accept", fastest)
	}
}
