package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSecretsAndBodiesStayOutOfLogsConfigAndAnswers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(_ int, h hit) answer {
		if bytes.Contains(h.body, []byte("good")) {
			return answer{body: "canary-answer"}
		}
		return answer{status: 500, body: "canary-answer"}
	})
	c := newInstance(t)
	const hidden = "canary-secret-0123456789"
	c.env = []string{"ANVIL_E2E_SECRET=" + hidden}
	c.start(c.caddyfile("", fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac {env.ANVIL_E2E_SECRET}\n\t\tdeliver %s {\n\t\t\tretry 50ms\n\t\t}\n\t}", up.url()+"/x?token=canary-token")))
	var said strings.Builder // everything that senders and operators were told
	try := func(body []byte, sig string) int {
		r, err := send(c.site+"/hooks?key=canary-query", body, "X-Signature", sig,
			"Authorization", "Bearer canary-authorization", "Proxy-Authorization", "Basic canary-proxy", "Cookie", "s=canary-cookie", "X-Mail", "canary-header@example.org")
		if err != nil {
			t.Fatal(err)
		}
		said.Write(r.body)
		return r.status
	}
	body := []byte(`{"mail":"canary-body@example.org"}`)
	if got := try(body, "sha256=canary-signature"); got != http.StatusUnauthorized {
		t.Errorf("a forged one got %d", got)
	}
	if got := try(body, sign(secret, body)); got != http.StatusUnauthorized {
		t.Errorf("a forged one got %d", got)
	}
	if got := try(body, sign(hidden, body)); got != http.StatusAccepted {
		t.Fatalf("a good one got %d", got)
	}
	text, _ := exchange(t, c, c.rawPost(1<<20, "X-Signature: sha256=canary-signature", "Authorization: Bearer canary-authorization")+"canary-large")
	if !strings.HasPrefix(text, "HTTP/1.1 413 ") {
		t.Errorf("a large one got %q", text)
	}
	said.WriteString(text)
	dead := up.wait(2, patience)[0].jobID()
	good := []byte(`{"good":"canary-body@example.org"}`)
	if got := try(good, sign(hidden, good)); got != http.StatusAccepted {
		t.Errorf("another good one got %d", got)
	}
	for _, h := range up.wait(3, patience) {
		c.waitState(h.jobID(), map[bool]string{true: "dead", false: "delivered"}[h.jobID() == dead], patience)
	}
	j := c.waitState(dead, "dead", patience)
	c.logged("job is dead", dead)

	event := c.get("/anvil/events/" + j.EventID)
	for _, canary := range []string{"canary-authorization", "canary-proxy", "canary-cookie", hidden} {
		if strings.Contains(event, canary) {
			t.Errorf("the stored event has %s", canary)
		}
	}
	// What the endpoint answered is what the ledger is for.
	ledger := strings.ReplaceAll(c.get("/anvil/jobs/"+dead), "canary-answer", "")
	lists := c.get("/anvil/jobs") + ledger + c.get("/anvil/stats") + c.get("/anvil/events") + c.get("/metrics")
	for where, text := range map[string]string{
		"the log":              c.wholeLog().tail(1 << 20),
		"an answer":            said.String(),
		"/config":              strings.ReplaceAll(c.get("/config/"), "token=canary-token", ""), // a URL is configuration, not a secret by placeholder
		"lists and statistics": lists,
	} {
		for _, line := range strings.Split(text, "\n") {
			// Caddy itself logs the configuration's file name and admin requests, nothing of ours.
			if strings.Contains(line, "canary") {
				t.Errorf("%s has %.400q", where, line)
			}
		}
	}
	for _, h := range up.hits() {
		for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
			if len(h.headers(name)) > 0 {
				t.Errorf("the upstream got %s", name)
			}
		}
	}
}

// Whoever reads the log must not be able to send.
func TestATokenInTheAddressStaysOutOfTheLogAndTheLedger(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, statuses(500))
	c := newInstance(t)
	const token = "canary-token-0123456789"
	c.env = []string{"ANVIL_E2E_SECRET=" + token}
	c.start(c.caddyfile("", fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify token {env.ANVIL_E2E_SECRET} {\n\t\t\tquery key\n\t\t}\n\t\tdeliver %s {\n\t\t\tretry 50ms\n\t\t}\n\t}", up.addr())))
	for query, want := range map[string]int{
		"key=" + token: http.StatusAccepted, "a=1&key=canary-nearly": http.StatusUnauthorized, "key=" + token + "&key=" + token: http.StatusUnauthorized,
	} {
		if r, err := send(c.site+"/hooks?"+query, hook(1)); err != nil || r.status != want {
			t.Errorf("%s got %d %s %v, want %d", query, r.status, r.body, err, want)
		}
	}
	id := up.wait(2, patience)[0].jobID()
	j := c.waitState(id, "dead", patience)
	waitFor(t, patience, "both refusals and the death in the log", func() bool {
		_, died := c.log.find("job is dead", id)
		return died && c.log.count("refused webhook") == 2
	})
	for where, text := range map[string]string{
		"the log": c.log.tail(1 << 20), "the job": c.get("/anvil/jobs/" + id), "the event": c.get("/anvil/events/" + j.EventID),
		"the request at the upstream": up.hits()[0].line,
	} {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "canary") {
				t.Errorf("%s has a token: %s", where, line)
			}
		}
	}
}

func TestTheLogGivesTheOperatorTheExactReason(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	for sig, reason := range map[string]string{"": "missing_header", "sha256=zz": "malformed_signature", sign("another secret of ours", hook(1)): "no_match"} {
		header := []string{"X-Signature", sig}
		if sig == "" {
			header = nil
		}
		if _, err := send(c.site+"/hooks", hook(1), header...); err != nil {
			t.Fatal(err)
		}
		c.logged(reason, `"demo"`)
	}
}

func TestManyBadSignaturesDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	before := c.wholeLog().len()
	for i := range 3000 {
		r, err := send(c.site+"/hooks", hook(i), "X-Signature", sign("no secret of this source", hook(i)))
		if err != nil || r.status != http.StatusUnauthorized {
			t.Fatalf("got %d %v", r.status, err)
		}
	}
	if lines := c.wholeLog().len() - before; lines == 0 || lines > 300 {
		t.Errorf("3000 refusals made %d log lines", lines)
	}
	if got, _ := c.metric("caddy_anvil_requests_total", `outcome="refused"`); got != 3000 {
		t.Errorf("the counter says %v refusals, want 3000", got)
	}
}

func TestManyFailedAttemptsDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, statuses(500))
	c := startCaddy(t, fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tdeliver %s {\n\t\t\tretry 1ms 1ms 1ms 1ms 1ms 1ms 1ms 1ms 1ms 30d\n\t\t}\n\t}", secret, up.addr()))
	start, before := time.Now(), c.wholeLog().len()
	for i := range 200 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	up.wait(2000, 2*time.Minute)
	lines, seconds := c.wholeLog().len()-before, int(time.Since(start).Seconds())
	// Twenty in each second that began, and few of other things.
	if most := 20*(seconds+2) + 100; lines == 0 || lines > most {
		t.Errorf("2000 failed attempts in %d seconds made %d log lines, want at most %d", seconds, lines, most)
	}
}

func TestTheStartIsLoggedByOneLinePerSource(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("", githubSite(up)+fmt.Sprintf("\n\tanvil /open open {\n\t\tverify none\n\t\tdeliver %s\n\t}", up.addr())))
	c.logged("source github: verify github", "dedupe signature 168h", "1 endpoint", "store sqlite "+c.storePath())
	if n := c.wholeLog().count("source github: verify github"); n != 1 {
		t.Errorf("%d start lines of one source", n)
	}
	c.logged(`"warn"`, "open")
	r, err := send(c.site+"/open", hook(1))
	if err != nil || r.status != http.StatusAccepted {
		t.Fatalf("an unsigned one at an open source: %d %s %v", r.status, r.body, err)
	}
	if h := up.wait(1, patience)[0]; h.header("Anvil-Verified") != "false" {
		t.Errorf("Anvil-Verified is %q", h.header("Anvil-Verified"))
	}
}
