package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

const docsPath = "../../docs/redis.md"

// docsBlocks are the blocks of one language in the document, by the comment in their first line.
func docsBlocks(t testing.TB, language string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, rest := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, ended := strings.Cut(rest, "\n```\n")
		title, body, _ := strings.Cut(block, "\n")
		title, isComment := strings.CutPrefix(title, "# ")
		if !ended || !isComment || blocks[title] != "" {
			t.Fatalf("a block of %s does not end, has no title or one that is there already: %q", docsPath, title)
		}
		blocks[title] = body + "\n"
	}
	return blocks
}

// docsServerArgs are the settings of the document's redis.conf as arguments.
func docsServerArgs(t *testing.T, moreRights string) []string {
	t.Helper()
	var args []string
	for line := range strings.Lines(docsBlocks(t, "conf")["redis.conf"]) {
		words := strings.Fields(line)
		if words[0] == "user" {
			words = append(words, strings.Fields(moreRights)...)
		}
		args = append(append(args, "--"+words[0]), words[1:]...)
	}
	if !slices.Contains(args, "--user") {
		t.Fatalf("the redis.conf of %s has no user", docsPath)
	}
	return args
}

const docsPassword = "a-long-password"

// documented is one of the document's Caddyfiles with its addresses replaced by those of the test.
func (c *instance) documented(title string, up *upstream, addresses ...string) string {
	c.t.Helper()
	text, ok := docsBlocks(c.t, "caddyfile")[title]
	if !ok {
		c.t.Fatalf("%s has no Caddyfile %q", docsPath, title)
	}
	pairs := slices.Concat(addresses, []string{
		"hooks.example.com", c.site, "http://localhost:3000", up.url(), "http://app.internal:3000", up.url(), "admin localhost:2021", "",
	})
	for i := 0; i < len(pairs); i += 2 {
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	if strings.Contains(text, ".internal") || strings.Contains(text, " /var/") {
		c.t.Fatalf("an address or a path of the document is left in\n%s", text)
	}
	c.env = append(c.env, "GITHUB_WEBHOOK_SECRET="+githubSecret, "REDIS_PASSWORD="+docsPassword, "SENTINEL_PASSWORD="+docsPassword)
	own := fmt.Sprintf("{\n\tadmin 127.0.0.1:%d\n\tpersist_config off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n", c.ports.admin)
	return own + strings.TrimPrefix(text, "{\n")
}

func (c *instance) startDocumented(title string, up *upstream, addresses ...string) {
	c.t.Helper()
	c.start(c.documented(title, up, addresses...))
}

func postAsGitHub(t testing.TB, c *instance, body []byte) string {
	t.Helper()
	var r response
	// The documented time limits are shorter than a busy machine may stand still.
	waitFor(t, time.Minute, "a webhook being accepted", func() bool {
		var err error
		r, err = send(c.site+"/github", body, "X-Hub-Signature-256", sign(githubSecret, body))
		if err != nil || r.status != http.StatusAccepted && r.Error != "store_unavailable" {
			t.Fatalf("got %d %s, %v, want 202", r.status, r.body, err)
		}
		return r.status == http.StatusAccepted
	})
	return r.JobID
}

// allOf does everything that an operator can, so that a user who lacks a right is found out.
func allOf(t *testing.T, c *instance, up *upstream) {
	t.Helper()
	first := postAsGitHub(t, c, hook(1))
	up.wait(1, time.Minute)
	c.waitState(first, "delivered", time.Minute)
	if postAsGitHub(t, c, hook(1)) != first {
		t.Error("a duplicate has another job")
	}
	if status, _, reason := c.replay(first, true); status != http.StatusOK {
		t.Errorf("replay answered %d %s", status, reason)
	}
	up.wait(2, time.Minute)
	c.settled(time.Minute)
	c.cancel(first)
	c.event(c.job(first).EventID)
	if jobs, events := c.jobs(""), c.events(""); len(jobs) != 2 || len(events) != 1 {
		t.Errorf("there are %d jobs and %d events, want 2 and 1", len(jobs), len(events))
	}
}

// nothingDenied fails the test when a server has refused a user something.
func nothingDenied(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		if denied, _ := s.Do("ACL", "LOG").([]any); len(denied) > 0 {
			t.Errorf("the server has refused: %v", denied)
		}
	}
}

func TestEveryCaddyfileOfTheRedisDocumentIsRun(t *testing.T) {
	t.Parallel()
	runs := map[string]func(t *testing.T, c *instance, up *upstream){
		"one server": func(t *testing.T, c *instance, up *upstream) {
			r := redistest.Start(t, docsServerArgs(t, "")...)
			c.startDocumented("one server", up, "redis.internal:6379", r.Addr())
			allOf(t, c, up)
			nothingDenied(t, r)
			if r.Info("persistence", "aof_enabled") != "1" {
				t.Error("the documented redis.conf does not turn on the append-only file")
			}
			for _, part := range []string{"maxmemory-policy", "appendonly"} {
				if line, found := c.wholeLog().find(part); found {
					t.Errorf("the documented redis.conf is warned of: %s", line)
				}
			}
		},
		"unix socket": func(t *testing.T, c *instance, up *upstream) {
			dir, err := os.MkdirTemp("", "redis") //nolint:usetesting // t.TempDir may be longer than the path of a socket may
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			socket := filepath.Join(dir, "redis.sock")
			redistest.Start(t, "--unixsocket", socket)
			c.startDocumented("unix socket", up, "/run/redis/redis.sock", socket)
		},
		"tls": func(t *testing.T, c *instance, up *upstream) {
			ca, cert, key := certificates(t)
			port := strconv.Itoa(freePort(t))
			redistest.Start(t, append(docsServerArgs(t, ""), "--tls-port", port, "--tls-ca-cert-file", ca,
				"--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "yes")...)
			c.startDocumented("tls", up, "redis.internal:6379", "127.0.0.1:"+port, "/etc/caddy/redis-ca.pem", ca,
				"/etc/caddy/redis-client.pem", cert, "/etc/caddy/redis-client.key", key,
				"/run/secrets/redis_password", c.write("redis_password", docsPassword+"\n"))
		},
		"sentinel": func(t *testing.T, c *instance, up *upstream) {
			g := redistest.StartSentinelWithPassword(t, docsPassword, "--requirepass", docsPassword)
			c.startDocumented("sentinel", up, "mymaster", g.MasterName(), "sentinel-1.internal", g.Addrs()[0],
				"sentinel-2.internal", g.Addrs()[1], "sentinel-3.internal", g.Addrs()[2])
		},
		"cluster": func(t *testing.T, c *instance, up *upstream) {
			cl := redistest.StartCluster(t, docsServerArgs(t, "+cluster|slots")...)
			c.startDocumented("cluster", up, "redis-1.internal", cl.Addrs()[0], "redis-2.internal", cl.Addrs()[1],
				"redis-3.internal", cl.Addrs()[2])
			allOf(t, c, up)
			nothingDenied(t, cl.Servers...)
		},
		"receiver": func(t *testing.T, c *instance, up *upstream) {
			r := redistest.Start(t)
			c.startDocumented("receiver", up, "redis.internal", r.Addr())
			newInstance(t).startDocumented("worker", up, "redis.internal", r.Addr())
		},
		"the old store, until it is empty": func(t *testing.T, c *instance, up *upstream) {
			sqlite := filepath.Join(t.TempDir(), "anvil.db")
			r := redistest.Start(t)
			conf := c.documented("receiver", up, "store redis redis://redis.internal", "store sqlite "+sqlite)
			c.start(conf)
			left := hook(100)
			postAsGitHub(t, c, left)
			c.mustReload(c.documented("one server", up, "redis.internal:6379", r.Addr(), "username anvil", "", "password {env.REDIS_PASSWORD}", ""))
			old := newInstance(t)
			old.startDocumented("the old store, until it is empty", up, "/var/lib/caddy/anvil/anvil.db", sqlite)
			if got := up.wait(1, time.Minute)[0].body; string(got) != string(left) {
				t.Errorf("got %s, want the webhook that the old store had", got)
			}
			old.settled(time.Minute)
		},
	}
	for title := range docsBlocks(t, "caddyfile") {
		if runs[title] == nil && title != "worker" { // that one runs with the receiver
			t.Errorf("nothing runs the Caddyfile %q", title)
		}
	}
	for title, run := range runs {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			c := newInstance(t)
			run(t, c, up)
			before := up.count()
			postAsGitHub(t, c, hook(0))
			if got := up.wait(before+1, time.Minute)[before].body; string(got) != string(hook(0)) {
				t.Errorf("the upstream got %s, want %s", got, hook(0))
			}
			c.term() // before the Redis that was started after it
		})
	}
}

// certificates makes an authority and, signed by it, one certificate for both sides of a connection on the loopback
// interface. It returns the files' paths.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		}
	}
	sign := func(template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	keys := make([]*ecdsa.PrivateKey, 2)
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	authority := template(1, "test authority")
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign
	leaf := template(2, "redis")
	leaf.IPAddresses, leaf.KeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	private, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	return write("ca.pem", "CERTIFICATE", sign(authority, authority, &keys[0].PublicKey, keys[0])),
		write("cert.pem", "CERTIFICATE", sign(leaf, authority, &keys[1].PublicKey, keys[0])),
		write("key.pem", "PRIVATE KEY", private)
}
