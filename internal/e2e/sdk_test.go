package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sdkLine is a line of testdata/sdk/app.mjs, which tells what it is for.
type sdkLine struct {
	Port                  int
	Providers             []sdkProvider
	Sent, Forged, Arrived string
	Status                int
	Job, Error            string
	Genuine, Done         bool
}

type sdkProvider struct {
	ID, Secret, Private string
	Signs               bool
}

// installSDKs installs what the lock file names into a folder of its own, or skips the test, see lacks.
func installSDKs(t *testing.T) (dir string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			lacks(t, "ANVIL_NEED_NODE", "the SDKs of providers need node and npm: %v", err)
		}
	}
	dir = t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "app.mjs"} {
		text, err := os.ReadFile(filepath.Join("testdata", "sdk", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		for _, ours := range []string{"EUSAGE", "EINTEGRITY"} { // the lock file is not right
			if strings.Contains(string(out), ours) {
				t.Fatalf("npm ci: %v\n%s", err, out)
			}
		}
		lacks(t, "ANVIL_NEED_NODE", "npm cannot install the SDKs of providers: %v\n%s", err, out)
	}
	return dir
}

// The SDKs stand on both sides: what they sign must be accepted, and what is delivered they must take for genuine, whether
// they or caddy anvil send have signed it.
func TestTheSDKsOfProvidersAgreeWithUs(t *testing.T) {
	t.Parallel()
	lines, say := startSDKs(t, installSDKs(t))
	hello := nextLine(t, lines)
	var site strings.Builder
	for _, p := range hello.Providers {
		fmt.Fprintf(&site, "\tanvil /%[1]s %[1]s {\n\t\tverify %[1]s %[2]q\n\t\tdeliver 127.0.0.1:%[3]d\n\t}\n", p.ID, p.Secret, hello.Port)
	}
	c := startCaddy(t, site.String())
	want, signing := map[string]bool{}, 0 // jobs that must arrive
	for _, p := range hello.Providers {
		if p.Signs {
			signing++
		}
		want[c.sendSigned(p.ID, p.Secret, p.Private)] = true
	}
	if _, err := fmt.Fprintf(say, "{\"site\":%q}\n", c.site); err != nil {
		t.Fatal(err)
	}
	accepted, forged, late, arrived := 0, 0, 0, map[string]bool{}
	for done := false; !done || len(arrived) < len(want); {
		switch l := nextLine(t, lines); {
		case l.Done:
			done = true
		case l.Sent != "":
			accepted++
			want[l.Job] = true
			if l.Status < 200 || l.Status > 299 || l.Job == "" {
				t.Errorf("%s: what its SDK signed got %d, job %q %s", l.Sent, l.Status, l.Job, l.Error)
			}
		case l.Forged != "":
			forged++
			if l.Status != http.StatusUnauthorized || l.Job != "" {
				t.Errorf("%s: a forgery got %d, job %q", l.Forged, l.Status, l.Job)
			}
		case l.Arrived != "":
			arrived[l.Job] = true
			switch {
			case l.Genuine:
			case l.Arrived == "paddle" && late < 5: // what is five seconds old by now, its SDK does not take
				late++
				i := slices.IndexFunc(hello.Providers, func(p sdkProvider) bool { return p.ID == l.Arrived })
				want[c.sendSigned(l.Arrived, hello.Providers[i].Secret, "")] = true
			default:
				t.Errorf("%s: its SDK does not take what was delivered for genuine: %s", l.Arrived, l.Error)
			}
		}
	}
	if signing < 8 || accepted != signing || forged != signing {
		t.Errorf("%d SDKs sign, of which %d have sent and %d forged", signing, accepted, forged)
	}
	for job := range want {
		if !arrived[job] {
			t.Errorf("job %s has not arrived", job)
		}
	}
}

// startSDKs runs the script until the end of the test.
func startSDKs(t *testing.T, dir string) (<-chan sdkLine, io.Writer) {
	t.Helper()
	node := exec.CommandContext(t.Context(), "node", "app.mjs")
	node.Dir = dir
	errs := newLogBuffer()
	in, err1 := node.StdinPipe()
	out, err2 := node.StdoutPipe()
	stderr, err3 := node.StderrPipe()
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan sdkLine, 1000)
	read := make(chan struct{})
	go func() {
		defer close(lines)
		text := bufio.NewScanner(out)
		for text.Scan() {
			var l sdkLine
			if json.Unmarshal(text.Bytes(), &l) == nil { // libraries print, too
				lines <- l
			}
		}
	}()
	go func() {
		defer close(read)
		errs.fill(stderr)
	}()
	t.Cleanup(func() {
		in.Close()
		for range lines {
		}
		<-read
		_ = node.Wait() // what it did wrong, the test has seen
		if t.Failed() {
			t.Logf("node says:\n%s", errs.tail(30))
		}
	})
	return lines, in
}

func nextLine(t *testing.T, lines <-chan sdkLine) sdkLine {
	t.Helper()
	select {
	case l, ok := <-lines:
		if !ok {
			t.Fatal("node has ended")
		}
		return l
	case <-time.After(60 * time.Second):
		t.Fatal("node has said nothing for a minute")
	}
	return sdkLine{}
}

// sendSigned sends a webhook by caddy anvil send, and returns the id of its job.
func (c *instance) sendSigned(provider, secret, private string) string {
	c.t.Helper()
	args := []string{"anvil", "send", "--json", c.site + "/" + provider, "--provider", provider, "--secret", secret}
	if private != "" {
		args = append(args, "--private-key", private)
	}
	out, err := c.command(args...).Output()
	var answer struct {
		Requests []struct {
			JobID string `json:"job_id"`
		}
	}
	if json.Unmarshal(out, &answer) != nil || err != nil || len(answer.Requests) != 1 || answer.Requests[0].JobID == "" {
		c.t.Errorf("sending as %s: %v %s", provider, err, out)
		return ""
	}
	return answer.Requests[0].JobID
}

// The exit codes are of the real process, which tests within Caddy's own package cannot see.
func TestTheExitCodesOfVerify(t *testing.T) {
	t.Parallel()
	c := newInstance(t)
	body := hook(1)
	request := c.write("saved.http", "POST /in HTTP/1.1\r\nHost: h\r\nX-Signature: "+sign(secret, body)+"\r\n\r\n"+string(body))
	for _, try := range []struct {
		exit int
		args []string
		says string
	}{
		{0, []string{"--provider", "hmac", "--secret", secret, request}, "valid"},
		{1, []string{"--provider", "hmac", "--secret", "another secret of some length", request}, "no_match"},
		{2, []string{"--provider", "hmac", "--secret", secret, "not-there.http"}, "not-there.http"},
		{2, []string{"--provider", "hmac", "--sekret", secret, request}, "unknown flag"},
	} {
		cmd := c.command(append([]string{"anvil", "verify"}, try.args...)...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != try.exit || !strings.Contains(string(out), try.says) {
			t.Errorf("%q: exit %d, want %d: %s", try.args, got, try.exit, out)
		}
	}
}
