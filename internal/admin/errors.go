package admin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Error is a refusal. It marshals to the body of the answer.
type Error struct {
	// Status is the HTTP status that says the same: 400 for a request that makes no sense, 404 for what does not exist,
	// 410 for what retention has taken, 503 when the store cannot answer now, 500 when what it holds cannot be read.
	Status int `json:"-"`
	// Message is the exact reason. It is meant for operators and holds no secrets.
	Message string `json:"error"`
	// State is the final state of a job that retention has taken, empty otherwise.
	State string `json:"state,omitempty"`
}

func (e *Error) Error() string { return e.Message }

func invalid(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

func notFound(noun string, id event.ID) *Error {
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf("no %s has the id %s", noun, id)}
}

// failed turns an error of the store into a refusal. What is left after the callers have looked for their own kinds is
// that the store cannot answer now.
func failed(doing string, err error) *Error {
	if errors.Is(err, store.ErrCursor) {
		return invalid("parameter \"cursor\" is not one that this list has given; leave it out to start from the newest")
	}
	return &Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("%s: %v", doing, err)}
}
