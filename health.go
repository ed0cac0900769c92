package anvil

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// readyTimeout bounds a health check: one that hangs says less than one that fails.
const readyTimeout = 3 * time.Second

// Health answers health checks. The reason of a failure is in the log; whoever asks learns only that there is one.
type Health struct {
	HealthConfig

	app *App
	log *zap.Logger
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
	h.log = sampled(ctx.Logger())
	var err error
	h.app, err = appOf(ctx)
	return err
}

// healthReport is the body of an answer.
type healthReport struct {
	Status string        `json:"status"`
	Stores []storeHealth `json:"stores,omitempty"`
	// Workers is on, off, or stopped when they should run and do not.
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
		report = h.readiness(r.Context())
	}
	status := http.StatusOK
	if report.Status == "unready" {
		status = http.StatusServiceUnavailable
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(report)
}

func (h *Health) readiness(ctx context.Context) healthReport {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	report := healthReport{Status: "ready", Stores: []storeHealth{{Store: h.app.module.kind(), Status: "ok"}}, Workers: "on"}
	e := h.app.openEngine()
	if e == nil {
		report.Status, report.Stores[0].Status = "unready", "closed"
		return report
	}
	if err := e.check(ctx); err != nil {
		report.Status, report.Stores[0].Status = "unready", "failing"
		h.log.Error("the store does not work", zap.String("store", e.store.Describe()), zap.Error(err))
	}
	switch {
	case !h.app.workersOn():
		report.Workers = "off"
	case !e.worker.Running():
		report.Status, report.Workers = "unready", "stopped"
	}
	if n, err := e.worker.Unrouted(ctx); err == nil {
		report.Unrouted = &n
	}
	return report
}

var (
	_ caddyhttp.MiddlewareHandler = (*Health)(nil)
	_ caddy.Provisioner           = (*Health)(nil)
)
