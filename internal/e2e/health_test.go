package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func healthSite(u *upstream) string {
	return simpleSite(u) + "\n\tanvil_health /ready\n\tanvil_health /live live"
}

func TestHealthAnswersLiveAndReady(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, healthSite(up))
	for _, path := range []string{"/live", "/ready"} {
		r, err := sendVia(client, http.MethodGet, c.site+path, nil)
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, r.status, r.body, err)
		}
		if !json.Valid(r.body) || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: body %s, Cache-Control %q", path, r.body, r.header.Get("Cache-Control"))
		}
		if strings.Contains(string(r.body), c.dir) {
			t.Errorf("%s shows a path: %s", path, r.body)
		}
		r, err = sendVia(client, http.MethodHead, c.site+path, nil)
		if err != nil || r.status != http.StatusOK {
			t.Errorf("HEAD %s: %d %v", path, r.status, err)
		}
		r, err = sendVia(client, http.MethodPost, c.site+path, nil)
		if err != nil || r.status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d %v, want 405", path, r.status, err)
		}
	}
}

func TestAReceiverWithoutWorkersIsReady(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	c.start(c.caddyfile("\t\tworkers off", healthSite(up)))
	if r, err := sendVia(client, http.MethodGet, c.site+"/ready", nil); err != nil || r.status != http.StatusOK {
		t.Errorf("got %d %s %v, want 200", r.status, r.body, err)
	}
}

// While it drains the server still serves (shutdown_delay), and says that it is on its way out.
func TestADrainingServerIsAliveAndNotReady(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(int, hit) answer { return answer{hang: true} })
	c := newInstance(t)
	conf := c.caddyfile("\t\tdrain_timeout 10m", healthSite(up))
	c.start(strings.Replace(conf, "{\n", "{\n\tshutdown_delay 10m\n", 1))
	accepted(t, c.site+"/hooks", hook(1))
	up.wait(1, patience)
	c.signalTerm()
	waitFor(t, patience, "readiness turning to 503", func() bool {
		r, err := sendVia(client, http.MethodGet, c.site+"/ready", nil)
		return err == nil && r.status == http.StatusServiceUnavailable
	})
	if r, err := sendVia(client, http.MethodGet, c.site+"/live", nil); err != nil || r.status != http.StatusOK {
		t.Errorf("liveness: %d %v, want 200", r.status, err)
	}
	c.kill9() // both delays are longer than anybody would wait
}
