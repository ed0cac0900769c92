package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// EventList is a page of events, newest first.
type EventList struct {
	Events []Event `json:"events"`
	// NextCursor asks for the next page; only null ends the list, a page with a cursor may be short or even empty.
	NextCursor *string `json:"nextCursor"`
}

// Event is an event as lists show it.
type Event struct {
	ID              event.ID `json:"id"`
	Source          string   `json:"source"`
	Tenant          string   `json:"tenant,omitempty"`
	Verified        bool     `json:"verified"`
	EventType       string   `json:"eventType,omitempty"`
	ProviderEventID string   `json:"providerEventId,omitempty"`
	AcceptedAt      Time     `json:"acceptedAt"`
	DedupeKeys      []string `json:"dedupeKeys,omitempty"`
}

// EventDetail is an event with the request as it came and its jobs.
type EventDetail struct {
	Event
	Method string `json:"method"`
	Scheme string `json:"scheme"`
	Host   string `json:"host"`
	// URI is path and query as sent.
	URI      string `json:"uri"`
	ClientIP string `json:"clientIp"`
	// Headers are pairs of name and value, one for each line. Those with credentials were never stored.
	Headers     [][2]string `json:"headers"`
	ContentType string      `json:"contentType,omitempty"`
	BodySize    int         `json:"bodySize"`
	BodyBase64  []byte      `json:"bodyBase64"`
	// BodyText is the body once more if it is valid UTF-8. It is a string, never parsed, so that no number is rounded.
	BodyText *string `json:"bodyText,omitempty"`
	// Jobs are the event's jobs, replays included.
	Jobs []Job `json:"jobs"`
}

// Events lists events by the parameters source, tenant, eventType, limit (1 to 500, default 50) and cursor.
func (s *Service) Events(ctx context.Context, query url.Values) (EventList, error) {
	f, err := parseEventFilter(query)
	if err != nil {
		return EventList{}, err
	}
	events, next, err := s.Store.Events(ctx, f)
	if err != nil {
		return EventList{}, failed("listing events", err)
	}
	out := make([]Event, len(events))
	for i := range events {
		out[i] = eventOf(&events[i])
	}
	return EventList{Events: out, NextCursor: cursorOf(next)}, nil
}

// Event shows one event.
func (s *Service) Event(ctx context.Context, id string) (EventDetail, error) {
	eventID, err := parseID(id)
	if err != nil {
		return EventDetail{}, err
	}
	e, jobs, err := s.Store.Event(ctx, eventID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return EventDetail{}, notFound("event", eventID)
	case errors.Is(err, store.ErrPruned):
		return EventDetail{}, &Error{
			Status: http.StatusGone, Message: fmt.Sprintf("event %s is gone: all its jobs are over and their retention too", eventID),
		}
	case err != nil:
		return EventDetail{}, failed("reading event "+id, err)
	}
	p, err := event.DecodePayload(e.Payload)
	if err != nil {
		return EventDetail{}, &Error{Status: http.StatusInternalServerError, Message: fmt.Sprintf("reading event %s: %v", eventID, err)}
	}
	d := EventDetail{
		Event: eventOf(&e), Method: p.Method, Scheme: p.Scheme, Host: p.Host, URI: p.URI, ClientIP: p.ClientIP,
		Headers: make([][2]string, len(p.Headers)), ContentType: p.Get("Content-Type"),
		BodySize: len(p.Body), BodyBase64: p.Body, Jobs: jobsOf(jobs),
	}
	for i, h := range p.Headers {
		d.Headers[i] = [2]string{h.Name, h.Value}
	}
	if utf8.Valid(p.Body) {
		text := string(p.Body)
		d.BodyText = &text
	}
	return d, nil
}

func eventOf(e *event.Event) Event {
	return Event{
		ID: e.ID, Source: e.Source, Tenant: e.Tenant, Verified: e.Verified, EventType: e.Type, ProviderEventID: e.ProviderID,
		AcceptedAt: Time{e.AcceptedAt}, DedupeKeys: e.Keys,
	}
}
