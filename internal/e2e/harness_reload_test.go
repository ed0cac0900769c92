package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// reload hands the running server a new Caddyfile, as `caddy reload` does, and returns when only the servers of the ruling
// configuration take connections.
func (c *instance) reload(caddyfile string) error {
	c.t.Helper()
	err := c.load(caddyfile)
	// Caddy answers while it still closes the listeners of the servers before. A connection that one of those has taken, or
	// that a sender has kept, may be reset before its request is read, and a POST is not sent twice on its own.
	waitFor(c.t, patience, "the listeners before the reload being closed", func() bool {
		return listeners(c.ports.admin) <= 1 && listeners(c.ports.site) <= 1
	})
	client.CloseIdleConnections()
	return err
}

func (c *instance) load(caddyfile string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.admin+"/load", strings.NewReader(caddyfile))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	// /load closes the admin server that answers it; a kept connection would be a dead one.
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return nil
}

func (c *instance) mustReload(caddyfile string) {
	c.t.Helper()
	if err := c.reload(caddyfile); err != nil {
		c.t.Fatalf("reloading: %v", err)
	}
}

// listeners counts the sockets that listen on a TCP port, as far as this system tells.
func listeners(port int) (n int) {
	text, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(text)) {
		// The number of the line, the local address, the remote one, and the state; 0A is a listener's.
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			n++
		}
	}
	return n
}
