package anvil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/admin"
)

// AdminAPI adds replay and inspection of webhooks to Caddy's admin endpoint, under /anvil/. It needs no configuration.
//
// Whoever reaches the admin endpoint may use it: there is no login, as for the rest of that endpoint.
type AdminAPI struct{}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.anvil", New: func() caddy.Module { return new(AdminAPI) }}
}

// Routes returns the routes of the admin API.
func (AdminAPI) Routes() []caddy.AdminRoute { return adminRoutes(activeService) }

// activeService finds the running app. It is asked at each request: after a rejected reload the routes of the rejected
// configuration stay mounted, and whatever they were provisioned with is dead.
func activeService() (*admin.Service, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("anvil")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("anvil does not run: the configuration has no anvil directive or option, or caddy is starting or stopping")
	}
	if err != nil {
		return nil, err
	}
	return app.(*App).adminService() //nolint:forcetypeassert // registered under this name by this package
}

// maxAdminBody is more than any request of this API needs.
const maxAdminBody = 64 << 10

// adminCall answers one request with a status and a value to marshal.
type adminCall func(ctx context.Context, s *admin.Service, r *http.Request) (status int, answer any, err error)

// adminRoutes lists every call. Mutations are POST only: a GET can be triggered by any page that a browser shows.
//
// A content type is not asked for, so that a plain curl works. What keeps foreign pages from posting here is Caddy's own
// check of every request with an Origin or Sec-Fetch-Mode header: browsers send one with each POST to another site.
func adminRoutes(find func() (*admin.Service, error)) []caddy.AdminRoute {
	var routes []caddy.AdminRoute
	for _, c := range []struct {
		method, path string
		call         adminCall
	}{
		{http.MethodGet, "/anvil/jobs", listCall((*admin.Service).Jobs)},
		{http.MethodGet, "/anvil/jobs/{id}", showCall((*admin.Service).Job)},
		{http.MethodPost, "/anvil/jobs/{id}/cancel", showCall((*admin.Service).Cancel)},
		{http.MethodGet, "/anvil/events", listCall((*admin.Service).Events)},
		{http.MethodGet, "/anvil/events/{id}", showCall((*admin.Service).Event)},
		{http.MethodGet, "/anvil/stats", statsCall},
		{http.MethodPost, "/anvil/replay", replayCall},
	} {
		routes = append(routes,
			caddy.AdminRoute{Pattern: c.method + " " + c.path, Handler: adminHandler(find, c.call)},
			// Without this one the mux would answer other methods itself, in plain text.
			caddy.AdminRoute{Pattern: c.path, Handler: wrongMethod(c.method)})
	}
	for _, rest := range []string{"/anvil", "/anvil/"} {
		routes = append(routes, caddy.AdminRoute{Pattern: rest, Handler: caddy.AdminHandlerFunc(unknownPath)})
	}
	for i, r := range routes {
		routes[i].Handler = caddy.AdminHandlerFunc(func(w http.ResponseWriter, req *http.Request) error {
			w.Header().Set("Cache-Control", "no-store")
			return r.Handler.ServeHTTP(w, req)
		})
	}
	return routes
}

func adminHandler(find func() (*admin.Service, error), call adminCall) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		s, err := find()
		if err != nil {
			return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		status, answer, err := call(r.Context(), s, r)
		var refused *admin.Error
		if errors.As(err, &refused) {
			if refused.State == "" {
				return caddy.APIError{HTTPStatus: refused.Status, Err: refused}
			}
			// Caddy's own error body has no room for the state.
			status, answer, err = refused.Status, refused, nil
		}
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false) // bodies are to be read, and no browser takes this for a page
		_ = enc.Encode(answer)   // the client has gone; nobody is left to tell
		return nil
	})
}

func wrongMethod(allowed string) caddy.AdminHandler {
	if allowed == http.MethodGet {
		allowed = "GET, HEAD"
	}
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", allowed)
		return caddy.APIError{
			HTTPStatus: http.StatusMethodNotAllowed,
			Err:        fmt.Errorf("method %s is not allowed for %s; use %s", r.Method, r.URL.Path, allowed),
		}
	})
}

func unknownPath(_ http.ResponseWriter, r *http.Request) error {
	return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("there is nothing at %s", r.URL.Path)}
}

// listCall is a call that takes the query.
func listCall[T any](list func(*admin.Service, context.Context, url.Values) (T, error)) adminCall {
	return func(ctx context.Context, s *admin.Service, r *http.Request) (int, any, error) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return 0, nil, badRequest("reading the query: %v", err)
		}
		answer, err := list(s, ctx, query)
		return http.StatusOK, answer, err
	}
}

// showCall is a call that takes the id in the path.
func showCall[T any](show func(*admin.Service, context.Context, string) (T, error)) adminCall {
	return func(ctx context.Context, s *admin.Service, r *http.Request) (int, any, error) {
		answer, err := show(s, ctx, r.PathValue("id"))
		return http.StatusOK, answer, err
	}
}

func statsCall(ctx context.Context, s *admin.Service, _ *http.Request) (int, any, error) {
	answer, err := s.Stats(ctx)
	return http.StatusOK, answer, err
}

func replayCall(ctx context.Context, s *admin.Service, r *http.Request) (int, any, error) {
	var req struct {
		JobID *string `json:"jobId"`
		Force bool    `json:"force"`
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(&req)
	if err == nil {
		_, err = dec.Token()
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return 0, nil, caddy.APIError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: fmt.Errorf("the body is larger than %d bytes", maxAdminBody)}
	case err == nil:
		return 0, nil, badRequest(`the body has more than one JSON value; %s`, replayForm)
	case !errors.Is(err, io.EOF):
		return 0, nil, badRequest(`the body is not of the right form: %s; %s`, jsonProblem(err), replayForm)
	case req.JobID == nil:
		return 0, nil, badRequest(`the body has no "jobId"; %s`, replayForm)
	}
	answer, err := s.Replay(ctx, *req.JobID, req.Force)
	return answer.Status, answer, err
}

// jsonProblem leaves out how our program calls things.
func jsonProblem(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("%q must not be a %s", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return "it is a JSON " + kind.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

const replayForm = `send {"jobId":"ID"}, with "force":true to replay a job that is not dead`

func badRequest(format string, args ...any) error {
	return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf(format, args...)}
}

var _ caddy.AdminRouter = AdminAPI{}
