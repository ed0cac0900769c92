package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is Caddy with the plugin, built by TestMain.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: -short leaves the end-to-end tests out")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	binary = os.Getenv("ANVIL_E2E_BINARY")
	if binary == "" {
		dir, err := os.MkdirTemp("", "anvil-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "creating the build folder:", err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "caddy")
		if err := build(binary); err != nil {
			fmt.Fprintln(os.Stderr, "building ./cmd/caddy:", err)
			return 1
		}
	}
	return m.Run()
}

// build takes no flags beyond the user's own, so that it shares the cache with go build and go run.
func build(out string) error {
	args := []string{"build", "-o", out}
	if os.Getenv("ANVIL_E2E_RACE") == "1" {
		args = append(args, "-race")
	}
	text, err := exec.Command("go", append(args, "github.com/caddy-anvil/anvil/cmd/caddy")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}
