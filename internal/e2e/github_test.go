package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func githubSite(u *upstream) string {
	return fmt.Sprintf("\tanvil /hooks/github github {\n\t\tverify github %q\n\t\tdeliver %s\n\t}", githubSecret, u.addr())
}

func TestGitHubsOwnPayloadsArriveByteForByte(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, githubSite(up))
	files, err := filepath.Glob("testdata/github/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d payloads: %v", len(files), err)
	}
	for i, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := send(c.site+"/hooks/github", body,
			"Content-Type", "application/json", "User-Agent", "GitHub-Hookshot/044aadd", "X-GitHub-Event", name,
			"X-GitHub-Delivery", fmt.Sprintf("72d3162e-cc78-11e3-81ab-4c9367dc09%02d", i),
			"X-Hub-Signature-256", sign(githubSecret, body))
		if err != nil || r.status != http.StatusAccepted {
			t.Fatalf("%s: got %d %s %v", name, r.status, r.body, err)
		}
		h := up.wait(i+1, patience)[i]
		if !bytes.Equal(h.body, body) {
			t.Errorf("%s: the upstream got other bytes", name)
		}
		if sign(githubSecret, h.body) != h.header("X-Hub-Signature-256") {
			t.Errorf("%s: the upstream cannot verify what it got", name)
		}
		if h.header("X-GitHub-Event") != name || h.header("Anvil-Event-Type") != name {
			t.Errorf("%s: event type came as %q and %q", name, h.header("X-GitHub-Event"), h.header("Anvil-Event-Type"))
		}
	}
}

func TestGitHubsDocumentedVectorIsAcceptedAndItsForgeryIsNot(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, githubSite(up))
	const good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	body := []byte("Hello, World!")
	for _, bad := range []string{
		"", "sha256=", good[:len(good)-1] + "6", good[:len(good)-1], good + "0", strings.TrimPrefix(good, "sha256="),
		"sha256= " + strings.TrimPrefix(good, "sha256="), "sha1=" + strings.TrimPrefix(good, "sha256="),
		"sha256=" + strings.Repeat("z", 64), strings.Repeat("x", 10_000), "sha256=é" + strings.Repeat("0", 62),
	} {
		r, err := send(c.site+"/hooks/github", body, "X-Hub-Signature-256", bad)
		if err != nil || r.status != http.StatusUnauthorized || r.Error != "invalid_signature" {
			t.Errorf("signature %.80q: got %d %s %v, want 401 invalid_signature", bad, r.status, r.body, err)
		}
	}
	r, err := send(c.site+"/hooks/github", body)
	if err != nil || r.status != http.StatusUnauthorized {
		t.Errorf("no signature: got %d %v, want 401", r.status, err)
	}
	for _, other := range []string{"X-Signature", "X-Hub-Signature"} {
		r, err := send(c.site+"/hooks/github", body, other, good)
		if err != nil || r.status != http.StatusUnauthorized {
			t.Errorf("the digest under %s: got %d %v, want 401", other, r.status, err)
		}
	}
	if n := len(c.events("")); n != 0 {
		t.Errorf("%d forged events were stored", n)
	}
	r, err = send(c.site+"/hooks/github", body, "X-Hub-Signature-256", good)
	if err != nil || r.status != http.StatusAccepted {
		t.Fatalf("got %d %s %v", r.status, r.body, err)
	}
	up.wait(1, patience)
}

func TestAFormEncodedGitHubWebhookKeepsItsBytesAndType(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, githubSite(up))
	body := []byte("payload=%7B%22a%22%3A1%7D&x=%2B+")
	r, err := send(c.site+"/hooks/github", body,
		"Content-Type", "application/x-www-form-urlencoded", "X-Hub-Signature-256", sign(githubSecret, body))
	if err != nil || r.status != http.StatusAccepted {
		t.Fatalf("got %d %s %v", r.status, r.body, err)
	}
	h := up.wait(1, patience)[0]
	if !bytes.Equal(h.body, body) || h.header("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("the upstream got %q of type %q", h.body, h.header("Content-Type"))
	}
}

// X-GitHub-Delivery is not signed: whoever captured a request could give it a fresh one.
func TestAFreshDeliveryIDDoesNotMakeACapturedRequestNew(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, githubSite(up))
	body := []byte(`{"action":"opened"}`)
	var first string
	for i := range 5 {
		r, err := send(c.site+"/hooks/github", body, "X-GitHub-Event", "issues",
			"X-GitHub-Delivery", fmt.Sprintf("delivery-%d", i), "X-Hub-Signature-256", sign(githubSecret, body))
		if err != nil || r.status != http.StatusAccepted {
			t.Fatalf("got %d %s %v", r.status, r.body, err)
		}
		if i == 0 {
			first = r.JobID
		}
		if r.JobID != first || r.Replayed != (i > 0) {
			t.Errorf("copy %d: got job %s replayed %v, want job %s", i, r.JobID, r.Replayed, first)
		}
	}
	c.settled(patience)
	if n := up.count(); n != 1 {
		t.Errorf("the upstream has %d requests, want 1", n)
	}
}

func TestSecretsAreTakenAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	for name, text := range map[string]string{"plain": "file secret, quite long", "lf": "file secret, quite long\n", "crlf": "file secret, quite long\r\n"} {
		c.write(name, text)
	}
	c.start(c.caddyfile("", fmt.Sprintf(`	anvil /two two {
		verify github "old secret of the source" "new secret of the source"
		deliver %[1]s
	}
	anvil /plain plain {
		verify hmac {file.%[2]s/plain}
		deliver %[1]s
	}
	anvil /lf lf {
		verify hmac {file.%[2]s/lf}
		deliver %[1]s
	}
	anvil /crlf crlf {
		verify hmac {file.%[2]s/crlf}
		deliver %[1]s
	}
	anvil /either either {
		verify github "a secret for GitHub alone"
		verify hmac "a secret for the others"
		deliver %[1]s
	}
	anvil /blanks blanks {
		verify hmac "  blanks around this secret "
		deliver %[1]s
	}
	anvil /none none {
		verify github "none"
		deliver %[1]s
	}`, up.addr(), c.dir)))
	body := hook(1)
	for _, try := range []struct{ path, header, secret string }{
		{"/two", "X-Hub-Signature-256", "old secret of the source"},
		{"/two", "X-Hub-Signature-256", "new secret of the source"},
		{"/plain", "X-Signature", "file secret, quite long"},
		{"/lf", "X-Signature", "file secret, quite long"},
		{"/crlf", "X-Signature", "file secret, quite long"},
		{"/either", "X-Hub-Signature-256", "a secret for GitHub alone"},
		{"/either", "X-Signature", "a secret for the others"},
		{"/blanks", "X-Signature", "  blanks around this secret "},
		{"/none", "X-Hub-Signature-256", "none"},
	} {
		r, err := send(c.site+try.path, body, try.header, sign(try.secret, body))
		if err != nil || r.status != http.StatusAccepted {
			t.Errorf("%s by %s with %q: got %d %s %v, want 202", try.path, try.header, try.secret, r.status, r.body, err)
		}
	}
	// A secret that reads like "no secret" must not switch the check off.
	for _, path := range []string{"/either", "/none"} {
		if r, err := send(c.site+path, body); err != nil || r.status != http.StatusUnauthorized {
			t.Errorf("%s without a signature: got %d %v, want 401", path, r.status, err)
		}
	}
}
