package anvil

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/verify"
)

// ran is what a subcommand did.
type ran struct {
	exit     int
	out, err string
}

// runCommand runs caddy anvil with arguments, as Caddy does.
func runCommand(t testing.TB, stdin string, args ...string) ran {
	t.Helper()
	root, cmd := &cobra.Command{Use: "caddy", SilenceUsage: true}, &cobra.Command{Use: "anvil"}
	command().CobraFunc(cmd)
	root.AddCommand(cmd)
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{"anvil"}, args...))
	r := ran{}
	switch err := root.ExecuteContext(t.Context()); {
	case err == nil:
	case errors.Is(err, errNo):
		r.exit = exitNo
	case err.Error() == "exiting with status 2":
		r.exit = exitUnusable
	default:
		t.Fatalf("%q: %v", args, err)
	}
	r.out, r.err = out.String(), errs.String()
	return r
}

func (r ran) json(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), into); err != nil {
		t.Fatalf("%v in %s %s", err, r.out, r.err)
	}
}

func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// savedVector is a vector of internal/verify as the command gets it.
type savedVector struct {
	Provider, Name, Secret, Method, URL string
	Headers                             map[string]string
	Body                                []byte `json:"body_base64"`
	Now                                 int64  `json:"now_unix"`
	Valid                               bool
	Extra                               struct {
		Kind           string
		ResponseStatus int    `json:"response_status"`
		ResponseBody   string `json:"response_body"`
		Algorithm      string
		Encoding       string
		SecretEncoding string `json:"secret_encoding"`
		Header         string
		Audience       string
		ServiceAccount string `json:"service_account"`
		Cert           string `json:"signing_cert_pem"`
	}
}

func readVectors(t testing.TB) []*savedVector {
	t.Helper()
	text, err := os.ReadFile("internal/verify/testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []*savedVector
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		v := &savedVector{}
		if err := json.Unmarshal(lines.Bytes(), v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// saved is the request with the line ends given in its head.
func (v *savedVector) saved(lineEnd string) string {
	scheme, rest, _ := strings.Cut(v.URL, "://")
	host, target := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, target = rest[:i], rest[i:]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1%sHost: %s%sX-Forwarded-Proto: %s%s", v.Method, target, lineEnd, host, lineEnd, scheme, lineEnd)
	for name, value := range v.Headers {
		fmt.Fprintf(&b, "%s: %s%s", name, value, lineEnd)
	}
	return b.String() + lineEnd + string(v.Body)
}

func (v *savedVector) args(t testing.TB) []string {
	t.Helper()
	args := []string{"verify", "--json", "--provider", v.Provider, "--at", strconv.FormatInt(v.Now, 10), "--url", v.URL}
	if v.Secret != "" {
		args = append(args, "--secret", v.Secret)
	}
	x := v.Extra
	if v.Provider == "google-pubsub" && x.Audience == "" {
		x.Audience, x.ServiceAccount = "https://hooks.example.test/in", "push@p.iam.gserviceaccount.com"
	}
	if v.Provider == "cloudinary" {
		x.Algorithm = ""
	}
	for word, value := range map[string]string{
		"algorithm": x.Algorithm, "encoding": x.Encoding, "secret_encoding": x.SecretEncoding, "header": x.Header, "audience": x.Audience,
		"service_account": x.ServiceAccount,
	} {
		if value != "" {
			args = append(args, "--option", word+"="+value)
		}
	}
	if x.Cert != "" {
		args = append(args, "--cert", writeFile(t, "cert.pem", x.Cert))
	}
	return args
}

func TestVerifyJudgesSavedVectorsAsTheyAre(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Provider+"/"+v.Name, func(t *testing.T) {
			if v.Provider == "discord" && v.Secret == "" {
				return // an example of the documentation, without the signature that is demanded
			}
			for name, lineEnd := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
				r := runCommand(t, v.saved(lineEnd), v.args(t)...)
				var got verdict
				r.json(t, &got)
				want := map[bool]int{true: 0, false: exitNo}[v.Valid]
				if r.exit != want || got.Valid != v.Valid || got.Valid == (got.Reason != "") {
					t.Fatalf("%s: exit %d, %s %s", name, r.exit, r.out, r.err)
				}
				switch shook := got.Handshake; {
				case v.Extra.Kind == "handshake" && (shook == nil || shook.Status != v.Extra.ResponseStatus || shook.Body != v.Extra.ResponseBody):
					t.Errorf("%s: answered %+v", name, shook)
				case got.Verdict == "valid" && v.Provider != "dropbox" && (got.Dedupe == nil || len(got.Dedupe.Key) != 64): // its bodies are all alike
					t.Errorf("%s: no dedupe key in %s", name, r.out)
				}
				if secret := v.Secret; len(secret) > 7 && strings.Contains(r.out+r.err, secret) && v.Provider != "ebay" {
					t.Errorf("%s: the secret is printed", name)
				}
			}
		})
	}
}

func vectorOf(t testing.TB, provider string, valid bool) *savedVector {
	t.Helper()
	all := readVectors(t)
	i := slices.IndexFunc(all, func(v *savedVector) bool {
		return v.Provider == provider && v.Valid == valid && v.Extra.Kind == "" && len(v.Body) > 20
	})
	if i < 0 {
		t.Fatalf("no vector of %s", provider)
	}
	return all[i]
}

func TestVerifyExplainsInWords(t *testing.T) {
	const body = `{"id":"evt_1","type":"invoice.paid"}`
	genuine := "POST /in HTTP/1.1\nHost: h\nX-Signature: " + sign(body) + "\n\n" + body
	hmac := []string{"verify", "--provider", "hmac", "--option", "event-id=/id", "--option", "event_type=/type", "--secret"}
	for _, c := range []struct {
		name, request string
		args          []string
		exit          int
		out, err      []string
	}{
		{
			name: "genuine", request: genuine, args: append(hmac, "another-secret-made-up", "--secret", testSecret),
			out: []string{"verdict      valid\n", "secret       2 matches\n", "event id     evt_1\n", "event type   invoice.paid\n", "dedupe       signature, 168h\n", "dedupe key   "},
		},
		{
			name: "line break added", request: genuine + "\n", args: append(hmac, testSecret), exit: exitNo,
			out: []string{"verdict      refused\n", "reason       no_match: ", "(body_trailing_newline)"},
		},
		{
			name: "white space in the secret", request: genuine, args: append(hmac, testSecret+" "), exit: exitNo,
			out: []string{"(secret_white_space)"}, err: []string{"note: secret 1 begins or ends with white space"},
		},
		{
			name: "short secret", request: genuine, args: append(hmac, "short"), exit: exitNo,
			out: []string{"no_match"}, err: []string{"note: secret 1 has fewer than 16 characters"},
		},
		{
			name: "not a delivery's method", request: "PUT" + strings.TrimPrefix(genuine, "POST"), args: append(hmac, testSecret),
			out: []string{"valid"}, err: []string{"note: the directive refuses PUT with 405"},
		},
		{
			name: "old", request: vectorOf(t, "stripe", true).saved("\n"), args: []string{"verify", "--provider", "stripe", "--secret", vectorOf(t, "stripe", true).Secret},
			exit: exitNo, out: []string{"too_old", "(clock)"}, err: []string{"note: the time is compared with now; --at"},
		},
		{
			name: "a handshake", request: "POST / HTTP/1.1\nHost: h\nX-Hook-Secret: 0123456789abcdef\n\n", args: []string{"verify", "--provider", "asana"},
			out: []string{"verdict      handshake\n", "answer       200 \n", "X-Hook-Secret: (the secret that is handed over)"},
		},
		{
			name: "a refused handshake", request: "GET /?hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong HTTP/1.1\nHost: h\n\n",
			args: []string{"verify", "--provider", "meta", "--secret", testSecret, "--option", "verify_token=right-token"}, exit: exitNo,
			out: []string{"refused", "handshake", "answer       403"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runCommand(t, c.request, c.args...)
			if r.exit != c.exit {
				t.Fatalf("exit %d: %s %s", r.exit, r.out, r.err)
			}
			for _, want := range c.out {
				if !strings.Contains(r.out, want) {
					t.Errorf("no %q in\n%s", want, r.out)
				}
			}
			for _, want := range c.err {
				if !strings.Contains(r.err, want) {
					t.Errorf("no %q in\n%s", want, r.err)
				}
			}
			if strings.Contains(r.out+r.err, testSecret) || strings.Contains(r.out+r.err, sign(body)[7:]) || strings.Contains(r.out+r.err, `"evt_1"`) {
				t.Errorf("a secret, signature or body in\n%s%s", r.out, r.err)
			}
		})
	}
}

// The key is the one that the directive stores.
func TestVerifyPrintsTheKeyOfTheDirective(t *testing.T) {
	const body = `{"id":"evt_1"}`
	var got verdict
	runCommand(t, "POST / HTTP/1.1\nHost: h\nX-Signature: "+sign(body)+"\n\n"+body, "verify", "--json", "--provider", "hmac", "--secret", testSecret).json(t, &got)
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\n}", "")
	if answer := s.post(body); answer.status != http.StatusAccepted {
		t.Fatalf("answered %d %s", answer.status, answer.body)
	}
	to := openEngines()[0].store
	events, _, err := to.Events(t.Context(), store.EventFilter{Limit: 10})
	if err != nil || len(events) != 1 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	stored, _, err := to.Event(t.Context(), events[0].ID)
	if err != nil || len(stored.Keys) != 1 || stored.Keys[0] != got.Dedupe.Key {
		t.Errorf("printed %s, stored %s %v", got.Dedupe.Key, stored.Keys, err)
	}
}

func TestVerifyNeedsUsableInput(t *testing.T) {
	t.Setenv("ANVIL_TEST_EMPTY", "")
	const request = "POST / HTTP/1.1\nHost: h\n\nx"
	github := []string{"verify", "--provider", "github"}
	ready := slices.Concat(github, []string{"--secret", testSecret})
	for _, c := range []struct {
		name, request string
		args          []string
		want          string
	}{
		{"no provider", request, []string{"verify"}, "--provider is missing"},
		{"unknown provider", request, []string{"verify", "--provider", "githup"}, "did you mean 'github'"},
		{"none", request, []string{"verify", "--provider", "none"}, "proves nothing"},
		{"no secret", request, github, "--secret is missing; for github it is the signing secret"},
		{"empty secret", request, append(github, "--secret", ""), "--secret is empty"},
		{"empty variable", request, append(github, "--secret", "env:ANVIL_TEST_EMPTY"), "ANVIL_TEST_EMPTY is empty or not set"},
		{"no file", request, append(github, "--secret", "@/not/there"), "/not/there"},
		{"empty file", request, append(github, "--secret", "@"+writeFile(t, "s", "\n \n")), "no line of"},
		{"secret of another form", request, []string{"verify", "--provider", "adyen", "--secret", "not hex, and quite long"}, "configuring provider adyen"},
		{"secret where none is taken", request, []string{"verify", "--provider", "docker-hub", "--secret", testSecret}, "takes no secret"},
		{"unknown option", request, append(ready, "--option", "prefix=x"), "it takes no prefix"},
		{"option without value", request, append(ready, "--option", "prefix"), "key=value"},
		{"option twice", request, []string{"verify", "--provider", "hmac", "--secret", testSecret, "--option", "prefix=x", "--option", "prefix=y"}, "prefix is given twice"},
		{"needed option", request, []string{"verify", "--provider", "google-pubsub"}, "it needs audience"},
		{"no certificate", request, append(ready, "--cert", "/not/there.pem"), "/not/there.pem"},
		{"certificate where none is taken", request, append(ready, "--cert", writeFile(t, "c", "x")), "takes no certificate"},
		{"odd time", request, append(ready, "--at", "yesterday"), "--at 'yesterday'"},
		{"milliseconds", request, append(ready, "--at", "1767225600000"), "--at '1767225600000'"},
		{"odd url", request, append(ready, "--url", "/in"), "--url"},
		{"no request", "", ready, "the request is empty"},
		{"no such request", "", append(ready, "/not/there.http"), "/not/there.http"},
		{"two requests", request, append(ready, "a", "b"), "one request at a time"},
		{"body only", `{"a":1}`, ready, "line 1"},
		{"unknown flag", request, append(ready, "--secrets", "x"), "unknown flag: --secrets"},
		{"unknown command", request, []string{"verifi"}, "did you mean 'verify'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runCommand(t, c.request, c.args...)
			if r.exit != exitUnusable || r.out != "" || !strings.HasPrefix(r.err, "Error: ") || !strings.Contains(r.err, c.want) || strings.Contains(r.err, testSecret) {
				t.Errorf("exit %d, %q, %q, want %q", r.exit, r.out, r.err, c.want)
			}
		})
	}
}

func TestSecretsComeFromFilesAndVariables(t *testing.T) {
	v := vectorOf(t, "github", true)
	t.Setenv("ANVIL_TEST_SECRET", v.Secret)
	request := writeFile(t, "saved.http", v.saved("\r\n"))
	for _, secret := range []string{
		v.Secret, "env:ANVIL_TEST_SECRET", "@" + writeFile(t, "lf", v.Secret+"\n"), "@" + writeFile(t, "crlf", v.Secret+"\r\n"),
		"@" + writeFile(t, "two", "the-newer-secret-made-up\n\n"+v.Secret),
	} {
		if r := runCommand(t, "", "verify", "--provider", "github", "--secret", secret, request); r.exit != 0 || r.err != "" {
			t.Errorf("%s: exit %d %s %s", secret, r.exit, r.out, r.err)
		}
	}
	key := vectorOf(t, "wise", true)
	pem := "@" + writeFile(t, "key.pem", key.Secret)
	if r := runCommand(t, key.saved("\n"), "verify", "--provider", "wise", "--secret", pem, "--at", strconv.FormatInt(key.Now, 10), "-"); r.exit != 0 {
		t.Errorf("PEM: exit %d %s %s", r.exit, r.out, r.err)
	}
}

func TestTimesAreGivenInTwoWays(t *testing.T) {
	v := vectorOf(t, "stripe", true)
	for _, at := range []string{strconv.FormatInt(v.Now, 10), "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"} {
		r := runCommand(t, v.saved("\n"), "verify", "--provider", "stripe", "--secret", v.Secret, "--at", at)
		if r.exit != 0 {
			t.Errorf("%s (%d): exit %d %s", at, v.Now, r.exit, r.out)
		}
	}
}

func TestNoReasonIsWithoutWords(t *testing.T) {
	for _, r := range verify.Reasons() {
		if reasonSays[r] == "" {
			t.Errorf("%s has none", r)
		}
	}
}

func TestAnUnconfirmedSubscriptionStaysSo(t *testing.T) {
	f := &lookingFetcher{} // whatever it asked of the one inside would panic
	b, err := f.Fetch(t.Context(), "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=a&Token=b", 0)
	if err != nil || len(b) != 0 || len(f.notes) != 1 {
		t.Errorf("%q %v %q", b, err, f.notes)
	}
}

func TestHelpIsThereForAll(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "Available Commands"},
		{[]string{"verify", "--help"}, "every byte up to the end"},
		{[]string{"send", "--help"}, "--private-key"},
		{[]string{"providers", "--help"}, "caddy anvil providers stripe"},
	} {
		if r := runCommand(t, "", c.args...); r.exit != 0 || !strings.Contains(r.out, c.want) {
			t.Errorf("%q: exit %d %s", c.args, r.exit, r.out)
		}
	}
}

func TestProvidersAreListed(t *testing.T) {
	all := runCommand(t, "", "providers")
	lines := strings.Split(strings.TrimSpace(all.out), "\n")
	if all.exit != 0 || len(lines) != len(verify.Providers())+1 || !strings.Contains(all.out, "\nstripe ") || !strings.Contains(all.out, "\nstrapi* ") {
		t.Errorf("exit %d, %d lines:\n%s", all.exit, len(lines), all.out)
	}
	var entries []struct{ ID, Caddyfile string }
	runCommand(t, "", "providers", "--json").json(t, &entries)
	if len(entries) != len(verify.Providers()) || entries[0].Caddyfile == "" {
		t.Errorf("%d entries", len(entries))
	}
	one := runCommand(t, "", "providers", "facebook")
	for _, want := range []string{"meta: Meta (Facebook", "verify meta {env.META_SECRET} {\n\t\tverify_token {env.META_VERIFY_TOKEN}\n\t}", "X-Hub-Signature-256", "3 MiB"} {
		if !strings.Contains(one.out, want) {
			t.Errorf("no %q in\n%s", want, one.out)
		}
	}
	var entry struct{ ID string }
	if runCommand(t, "", "providers", "--json", "cal_com").json(t, &entry); entry.ID != "cal-com" {
		t.Errorf("got %q", entry.ID)
	}
	for _, args := range [][]string{{"gitub"}, {"a", "b"}, {"--json", "--markdown"}, {"github", "--markdown"}} {
		if r := runCommand(t, "", append([]string{"providers"}, args...)...); r.exit != exitUnusable || r.err == "" {
			t.Errorf("%q: exit %d %s", args, r.exit, r.err)
		}
	}
}

// What the directive is given as lines in the documentation, it takes.
func TestEveryExampleOfTheDocumentationWorks(t *testing.T) {
	text := runCommand(t, "", "providers", "--markdown").out
	blocks := strings.Split(text, "```caddyfile\n")[1:]
	if len(blocks) < len(verify.Providers()) {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		site := example
		if strings.HasPrefix(example, "verify") {
			site = "example.com {\n\tanvil /in shop {\n\t\t" + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n\t\t") + "\n\t\tdeliver http://localhost:3000\n\t}\n}\n"
		}
		if _, err := adapt(t, site); err != nil {
			t.Errorf("%s: %v", example, err)
		}
	}
	for _, p := range verify.Providers() {
		one := runCommand(t, "", "providers", p.ID).out
		_, directive, _ := strings.Cut(one, "\nanvil /")
		site := "example.com {\nanvil /" + directive + "}\n"
		if _, err := adapt(t, string(caddyfile.Format([]byte(site)))); err != nil {
			t.Errorf("%s: %v", p.ID, err)
		}
	}
}
