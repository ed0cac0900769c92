package anvil

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var update = flag.Bool("update", false, "write what the adapter answers into testdata/adapt; review the difference")

const adaptSeparator = "----------\n"

// Each file is a Caddyfile, a line of dashes, and the JSON or the error that it becomes. Every line of an expected error
// must be found in the message.
func TestAdapt(t *testing.T) {
	t.Setenv("ANVIL_TEST_SECRET", "secret from the environment")
	files, err := filepath.Glob(filepath.Join("testdata", "adapt", "*.caddyfiletest"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".caddyfiletest")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, ok := strings.Cut(string(data), adaptSeparator)
			if !ok {
				t.Fatal("the line of dashes is missing")
			}
			if formatted := string(caddyfile.Format([]byte(input))); formatted != input {
				t.Errorf("the Caddyfile is not formatted (-want +got):\n%s", cmp.Diff(formatted, input))
			}
			got, err := adapt(t, input)
			if *update {
				answer := string(got)
				if err != nil {
					answer = err.Error()
				}
				if err := os.WriteFile(file, []byte(input+adaptSeparator+answer+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !strings.HasPrefix(want, "{") {
				wantError(t, err, want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decode(t, []byte(want)), decode(t, got)); diff != "" {
				t.Errorf("adapted JSON (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrderInSite(t *testing.T) {
	const hook = "anvil /hooks/github github {\n verify github some-secret-for-tests\n}\n"
	tests := []struct {
		name string
		site string
		want []string
	}{
		{
			name: "after templates and before handle, wherever it is written",
			site: "respond 404\nhandle /app/* {\n reverse_proxy app:3000\n}\n" + hook + "templates\n",
			want: []string{"templates", "anvil", "reverse_proxy", "static_response"},
		},
		{
			name: "health before anvil",
			site: hook + "anvil_health /ready\nreverse_proxy app:3000\n",
			want: []string{"anvil_health", "anvil", "reverse_proxy"},
		},
		{
			name: "before a catch-all handle",
			site: "handle {\n reverse_proxy app:3000\n}\n" + hook,
			want: []string{"anvil", "reverse_proxy"},
		},
		{
			name: "after authentication",
			site: hook + "forward_auth auth:9000 {\n uri /check\n}\nreverse_proxy app:3000\n",
			want: []string{"reverse_proxy", "anvil", "reverse_proxy"},
		},
		{
			name: "single-page application: try_files at the site's level runs first",
			site: "root /srv\n" + hook + "try_files {path} /index.html\nfile_server\n",
			want: []string{"vars", "rewrite", "anvil", "file_server"},
		},
		{
			name: "single-page application: inside handle, anvil sees the path as sent",
			site: "handle /hooks/* {\n" + hook + "}\nhandle {\n root /srv\n try_files {path} /index.html\n file_server\n}\n",
			want: []string{"anvil", "vars", "rewrite", "file_server"},
		},
		{
			name: "front controller: a rewrite at the site's level runs first",
			site: hook + "rewrite /index.php?{query}\nreverse_proxy app:3000\n",
			want: []string{"rewrite", "anvil", "reverse_proxy"},
		},
		{
			name: "front controller that exempts the path of the hooks",
			site: hook + "@app not path /hooks/*\nrewrite @app /index.php?{query}\nreverse_proxy app:3000\n",
			want: []string{"rewrite", "anvil", "reverse_proxy"},
		},
		{
			name: "php_fastcgi: its own rewrite comes after anvil",
			site: "root /srv\nphp_fastcgi app:9000\nfile_server\n" + hook,
			want: []string{"vars", "anvil", "static_response", "rewrite", "reverse_proxy", "file_server"},
		},
		{
			name: "route keeps the written order",
			site: "route {\n respond /early 200\n" + hook + "}\n",
			want: []string{"static_response", "anvil"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := adapt(t, string(caddyfile.Format([]byte(":8080 {\n"+tt.site+"}\n"))))
			if err != nil {
				t.Fatal(err)
			}
			var config struct {
				Apps struct {
					HTTP struct {
						Servers map[string]struct {
							Routes []route `json:"routes"`
						} `json:"servers"`
					} `json:"http"`
				} `json:"apps"`
			}
			if err := json.Unmarshal(got, &config); err != nil {
				t.Fatal(err)
			}
			names := handlerNames(config.Apps.HTTP.Servers["srv0"].Routes)
			// How Caddy wraps a handle or route is not ours to say.
			names = slices.DeleteFunc(names, func(n string) bool { return n == "subroute" })
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("order of handlers (-want +got):\n%s", diff)
			}
		})
	}
}

type route struct {
	Handle []struct {
		Handler string  `json:"handler"`
		Routes  []route `json:"routes"`
	} `json:"handle"`
}

func handlerNames(routes []route) []string {
	var names []string
	for _, r := range routes {
		for _, h := range r.Handle {
			names = append(names, h.Handler)
			names = append(names, handlerNames(h.Routes)...)
		}
	}
	return names
}

// adapt fails the test for any warning, since a warning is all that Caddy gives for some mistakes.
func adapt(t *testing.T, input string) ([]byte, error) {
	t.Helper()
	got, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
	if len(warnings) > 0 {
		t.Errorf("unexpected warnings: %v", warnings)
	}
	if err != nil {
		return nil, err
	}
	var indented strings.Builder
	enc := json.NewEncoder(&indented)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(json.RawMessage(got)); err != nil {
		t.Fatal(err)
	}
	return []byte(strings.TrimSpace(indented.String())), nil
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if strings.TrimSpace(want) == "" {
		t.Fatal("the test expects neither JSON nor an error")
	}
	if err == nil {
		t.Fatalf("no error, want:\n%s", want)
	}
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); !strings.Contains(err.Error(), line) {
			t.Errorf("error is\n%s\nwant\n%s", err, line)
		}
	}
}

func decode(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
