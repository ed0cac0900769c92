// Package sample makes up events of the shape that a provider's events have, as far as the gateway looks at it.
package sample

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
	"github.com/caddy-anvil/anvil/internal/verify"
)

// Event makes an unsigned request with an event that is like no other: its id and type stand where the provider puts them.
// eventType may be empty; a type of several parts is written as they are listed, a:b. Errors: a type that the provider's
// requests cannot have.
func Event(p *verify.Provider, sentTo, eventType string) (*verify.Request, error) {
	e := &event{
		r:    &verify.Request{Method: http.MethodPost, URL: sentTo, Header: http.Header{"Content-Type": {"application/json"}}},
		form: url.Values{},
	}
	id := "evt_" + randomHex(12)
	// The type may be a part of the id, and it is what was asked for.
	if err := e.put(p.EventID, id); err != nil {
		return nil, err
	}
	if err := e.putType(p, eventType); err != nil {
		return nil, err
	}
	return e.r, e.finish(id)
}

// WithBody makes an unsigned request of an event that the user has written. Its type can be given where the provider puts
// it into a header.
func WithBody(p *verify.Provider, sentTo, eventType string, body []byte) (*verify.Request, error) {
	e := &event{
		r:      &verify.Request{Method: http.MethodPost, URL: sentTo, Header: http.Header{}, Body: body},
		closed: true,
	}
	e.r.Header.Set("Content-Type", "application/json")
	if !json.Valid(body) {
		e.r.Header.Set("Content-Type", "application/octet-stream")
		if form, err := url.ParseQuery(string(body)); err == nil && len(form) > 0 && strings.Contains(string(body), "=") {
			e.r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	if err := e.put(p.EventID, "evt_"+randomHex(12)); err != nil {
		return nil, err
	}
	return e.r, e.putType(p, eventType)
}

type event struct {
	r    *verify.Request
	root any // of a JSON body
	form url.Values
	// closed bodies are the user's.
	closed bool
}

func (e *event) putType(p *verify.Provider, eventType string) error {
	if eventType == "" {
		return e.put(p.EventType, "test")
	}
	if p.EventType == "" {
		return fmt.Errorf("%s says nowhere what type an event has, so it can have none", p.ID)
	}
	place, _, _ := strings.Cut(p.EventType, " | ")
	// SNS wraps the event in a message of its own, which has a type of its own.
	if p.ID == "aws-sns" {
		return fmt.Errorf("the type of %s's events stands at %s, where it cannot be chosen", p.ID, place)
	}
	places := strings.Split(place, " + ")
	values := strings.SplitN(eventType, ":", len(places))
	if len(values) < len(places) {
		return fmt.Errorf("the type of %s's events has %d parts, from %s: write it as %s", p.ID, len(places), place,
			strings.TrimPrefix(strings.Repeat(":part", len(places)), ":"))
	}
	for i, at := range places {
		put, err := e.putAt(at, values[i])
		if err != nil {
			return err
		}
		if !put && e.closed {
			return fmt.Errorf("%s puts the type of an event into the body, at %s: write it there", p.ID, at)
		}
		if !put {
			return fmt.Errorf("the type of %s's events stands at %s, where it cannot be chosen", p.ID, at)
		}
	}
	return nil
}

// put writes a value to all parts of the first alternative of a place, as far as it can.
func (e *event) put(place, value string) error {
	place, _, _ = strings.Cut(place, " | ")
	if place == "" {
		return nil
	}
	for at := range strings.SplitSeq(place, " + ") {
		if _, err := e.putAt(at, value); err != nil {
			return err
		}
	}
	return nil
}

// putAt reports whether the part of the request is ours to write.
func (e *event) putAt(at, value string) (bool, error) {
	kind, name, ok := strings.Cut(at, ":")
	switch {
	case strings.HasPrefix(at, "/"):
		if e.closed {
			return false, nil
		}
		path, err := jsonptr.Parse(at)
		if err != nil {
			return false, err
		}
		root, ok := set(e.root, path, value)
		if ok {
			e.root = root
		}
		return ok, nil
	case ok && kind == "form":
		if e.closed {
			return false, nil
		}
		e.form.Set(name, value)
	case ok:
		// A token's claim, the raw text of a field or a query parameter: what signs makes it.
		return false, nil
	default:
		e.r.Header.Set(at, value)
	}
	return true, nil
}

// set writes a text at a path, making objects, and arrays where the path has an index. It is false when something of
// another kind is in the way.
func set(in any, path jsonptr.Pointer, value string) (any, bool) {
	if len(path) == 0 {
		_, object := in.(map[string]any)
		_, array := in.([]any)
		return value, !object && !array
	}
	name := path[0]
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < 8 {
		array, ok := in.([]any)
		if in != nil && !ok {
			return nil, false
		}
		for len(array) <= i {
			array = append(array, nil)
		}
		inner, ok := set(array[i], path[1:], value)
		if ok {
			array[i] = inner
		}
		return array, ok
	}
	object, ok := in.(map[string]any)
	if in != nil && !ok {
		return nil, false
	}
	if object == nil {
		object = map[string]any{}
	}
	inner, ok := set(object[name], path[1:], value)
	if ok {
		object[name] = inner
	}
	return object, ok
}

// finish makes the body. Where the provider has no id in it, a field of ours tells it from every other.
func (e *event) finish(id string) error {
	if len(e.form) > 0 {
		e.form.Set("anvil_sample", id)
		e.r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		e.r.Body = []byte(e.form.Encode())
		return nil
	}
	if e.root == nil {
		e.root = map[string]any{}
	}
	root, _ := set(e.root, jsonptr.Pointer{"anvil_sample"}, id)
	if array, ok := e.root.([]any); ok {
		array[0], _ = set(array[0], jsonptr.Pointer{"anvil_sample"}, id)
		root = array
	}
	var err error
	if e.r.Body, err = json.Marshal(root); err != nil {
		return fmt.Errorf("writing the event: %w", err)
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
