package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The hook's path stands beside the user's application in each of these sites.
func TestHooksArriveBesideOtherHandlersOfTheSite(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]string{
		"single page application": "\troot * {ROOT}\n\thandle {\n\t\ttry_files {path} /index.html\n\t\tfile_server\n\t}",
		"php":                     "\troot * {ROOT}\n\tphp_fastcgi 127.0.0.1:1",
		"reverse proxy":           "\treverse_proxy 127.0.0.1:1",
		"front controller":        "\troot * {ROOT}\n\thandle {\n\t\trewrite * /index.html?{query}\n\t\tfile_server\n\t}",
		"error pages":             "\thandle_errors {\n\t\trespond \"a page of the site\" 500\n\t}",
		"templates and encode":    "\troot * {ROOT}\n\tencode gzip\n\ttemplates\n\tfile_server",
		"body limit":              "\trequest_body {\n\t\tmax_size 1MB\n\t}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			c := newInstance(t)
			root := filepath.Join(c.dir, "www")
			if err := os.MkdirAll(root, 0o700); err != nil {
				t.Fatal(err)
			}
			c.write("www/index.html", "the application")
			c.start(c.caddyfile("", simpleSite(up)+"\n"+strings.ReplaceAll(around, "{ROOT}", root)))
			accepted(t, c.site+"/hooks", hook(1))
			up.wait(1, patience)
			// A refusal is ours to word, whatever the site does with errors.
			r, err := send(c.site+"/hooks", hook(1), "X-Signature", "sha256=00")
			if err != nil || r.status != http.StatusUnauthorized || r.Error != "invalid_signature" {
				t.Errorf("a forged one got %d %s %v", r.status, r.body, err)
			}
			text, _ := exchange(t, c, c.rawPost(300<<10, "X-Signature: sha256=00"))
			if !strings.HasPrefix(text, "HTTP/1.1 413 ") || !strings.Contains(text, "body_too_large") {
				t.Errorf("a large one got %q", text)
			}
		})
	}
}

func TestTheStoredPathIsTheOneBeforeARewrite(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, "\trewrite /public/* /hooks?rewritten=1\n"+simpleSite(up))
	accepted(t, c.site+"/public/a%20b?x=1", hook(1))
	if h := up.wait(1, patience)[0]; h.uri() != "/public/a%20b?x=1" {
		t.Errorf("the upstream got %q, want the path and query as sent", h.uri())
	}
}

func TestTheAnswerCanBeWordedByTheSource(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf("\tanvil demo {\n\t\tverify hmac %q\n\t\trespond 200 \"[accepted]\"\n\t\tdeliver %s\n\t}", secret, up.addr()))
	r := post(t, c.site, hook(1))
	if r.status != http.StatusOK || string(r.body) != "[accepted]" || r.header.Get("Anvil-Job-Id") == "" {
		t.Errorf("got %d %s %v", r.status, r.body, r.header)
	}
	up.wait(1, patience)
}

func TestOneSourceOnTwoAddressesIsOneSource(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	second := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	conf := c.caddyfile("", simpleSite(up))
	c.start(conf + "\n" + second + " {\n" + simpleSite(up) + "\n}\n")
	id := accepted(t, c.site+"/hooks", hook(1))
	if r := post(t, second+"/hooks", hook(1)); !r.Replayed || r.JobID != id {
		t.Errorf("the other address answered %d %s, want a duplicate of %s", r.status, r.body, id)
	}
}

func TestAGlobalSourceServesADirectiveWithoutBlock(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile(fmt.Sprintf("\t\tsource demo {\n\t\t\tverify hmac %q\n\t\t\tdeliver %s\n\t\t}", secret, up.addr()), "\tanvil demo"))
	c.waitState(accepted(t, c.site, hook(1)), "delivered", patience)
}
