package anvil

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// Whatever is written, parsing answers with an error or with a configuration that the JSON side accepts as well and reads
// back as the same.
func FuzzCaddyfile(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "adapt", "*.caddyfiletest"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		input, _, _ := strings.Cut(string(data), adaptSeparator)
		f.Add(lineWithBlock(input, "anvil"))
	}
	f.Fuzz(func(t *testing.T, input string) {
		tokens, err := caddyfile.Tokenize([]byte(input), "Caddyfile")
		if err != nil {
			return
		}
		dispenser := func() *caddyfile.Dispenser {
			// The parser cuts the tokens in place, so each gets its own.
			return caddyfile.NewDispenser(append([]caddyfile.Token(nil), tokens...))
		}
		if got, err := parseDirective(httpcaddyfile.Helper{Dispenser: dispenser(), State: map[string]any{}}); err == nil {
			cfg := got.(*Handler).SourceConfig
			sameAsJSON(t, &cfg, cfg.validate)
		}
		if got, err := parseHealthDirective(httpcaddyfile.Helper{Dispenser: dispenser(), State: map[string]any{}}); err == nil {
			cfg := got.(*Health).HealthConfig
			sameAsJSON(t, &cfg, cfg.validate)
		}
		if got, err := parseGlobalOption(dispenser(), nil); err == nil {
			var cfg AppConfig
			if err := caddy.StrictUnmarshalJSON(got.(httpcaddyfile.App).Value, &cfg); err != nil {
				t.Fatal(err)
			}
			sameAsJSON(t, &cfg, cfg.validate)
		}
	})
}

func sameAsJSON[T any](t *testing.T, cfg *T, validate func() error) {
	t.Helper()
	if err := validate(); err != nil {
		t.Fatalf("the Caddyfile allows what JSON refuses: %v", err)
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := caddy.StrictUnmarshalJSON(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cfg, &back); diff != "" {
		t.Errorf("read back from JSON (-want +got):\n%s", diff)
	}
}

// lineWithBlock cuts the first line that begins with word, and its block, out of a formatted Caddyfile.
func lineWithBlock(input, word string) string {
	var out strings.Builder
	indent := ""
	for line := range strings.Lines(input) {
		text := strings.TrimLeft(line, "\t")
		switch {
		case out.Len() == 0 && strings.HasPrefix(text, word):
			indent = strings.TrimSuffix(line, text)
			out.WriteString(text)
		case out.Len() > 0:
			if !strings.HasPrefix(line, indent) || strings.HasPrefix(line, indent+"}") {
				return out.String() + "}\n"
			}
			out.WriteString(text)
		}
	}
	return out.String()
}
