package anvil

import (
	"encoding/json"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Health answers health checks. Whoever asks learns whether the store works and the workers run, and how many jobs wait for
// an endpoint; the reason of a failure is in the log only.
type Health struct {
	HealthConfig

	app *App
}

// CaddyModule returns the Caddy module information.
func (*Health) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.anvil_health", New: func() caddy.Module { return new(Health) }}
}

// Provision gets the app.
func (h *Health) Provision(ctx caddy.Context) error {
	if err := h.validate(); err != nil {
		return err
	}
	var err error
	h.app, err = appOf(ctx)
	return err
}

// healthReport is the body of an answer.
type healthReport struct {
	Status string        `json:"status"`
	Stores []storeHealth `json:"stores,omitempty"`
	// Workers is on, off, stopping at the process's end, or stopped when they should run and do not.
	Workers string `json:"workers,omitempty"`
	// Unrouted counts pending jobs whose endpoint is not configured.
	Unrouted *int64 `json:"unrouted,omitempty"`
}

type storeHealth struct {
	Store  string `json:"store"`
	Status string `json:"status"`
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	}
	report := healthReport{Status: "live"}
	if h.Kind != "live" {
		report = h.readiness()
	}
	status := http.StatusOK
	if report.Status == "unready" {
		status = http.StatusServiceUnavailable
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(report)
}

func (h *Health) readiness() healthReport {
	report := healthReport{Status: "ready", Stores: []storeHealth{{Store: h.app.module.kind(), Status: "ok"}}, Workers: "on"}
	e := h.app.openEngine()
	if e == nil {
		report.Status, report.Stores[0].Status = "unready", "closed"
		return report
	}
	found := e.check()
	report.Unrouted = &found.unrouted
	if found.err != nil {
		report.Status, report.Stores[0].Status = "unready", "failing"
		h.app.flood.Error("the store does not work", zap.String("store", e.store.Describe()), zap.Error(found.err))
	}
	switch {
	case caddy.Exiting():
		report.Status, report.Workers = "unready", "stopping"
	case !h.app.workersOn():
		report.Workers = "off"
	case !e.worker.Running():
		report.Status, report.Workers = "unready", "stopped"
	}
	return report
}

var (
	_ caddyhttp.MiddlewareHandler = (*Health)(nil)
	_ caddy.Provisioner           = (*Health)(nil)
)
