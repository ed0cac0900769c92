package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" // what Twilio signs with
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestAWebhookOverTLSIsDeliveredOnceByEveryVersionOfHTTP(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, simpleSite(up))
	const uri = "/hooks?x=%2F&b=1&a=2+%27"
	for i, s := range senders {
		id := s.accepted(t, c.site+uri, hook(i))
		h := up.wait(i+1, patience)[i]
		host := strings.TrimPrefix(c.site, "https://")
		if h.jobID() != id || h.uri() != uri || !bytes.Equal(h.body, hook(i)) || h.header("X-Forwarded-Proto") != "https" || h.header("X-Forwarded-Host") != host {
			t.Errorf("%s: delivered %q %q %q", s.proto, h.line, h.lines, h.body)
		}
		if e := c.event(c.job(id).EventID); e.Scheme != "https" || e.Host != host || e.URI != uri {
			t.Errorf("%s: stored as sent to %s://%s%s", s.proto, e.Scheme, e.Host, e.URI)
		}
	}
	c.settled(patience)
	if n := up.count(); n != len(senders) {
		t.Errorf("%d deliveries of %d webhooks", n, len(senders))
	}
}

func TestACopyOverAnotherVersionOfHTTPIsADuplicate(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, simpleSite(up))
	for i, first := range senders {
		id := first.accepted(t, c.site+"/hooks", hook(i))
		for _, s := range senders {
			if r := s.post(t, c.site+"/hooks", hook(i)); r.status != http.StatusAccepted || !r.Replayed || r.JobID != id {
				t.Errorf("%s after %s: got %d %s, want a duplicate of %s", s.proto, first.proto, r.status, r.body, id)
			}
		}
	}
	c.settled(patience)
	noneTwice(t, up)
}

// twilio signs a form of one field as Twilio does.
func twilio(url, name, value string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	_, _ = io.WriteString(mac, url+name+value)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestASignedURLIsTheOneThatTheProviderHas(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	site := fmt.Sprintf("\tanvil /direct* direct {\n\t\tverify twilio %[1]q\n\t\tdeliver %[2]s\n\t}\n"+
		"\tanvil /public* public {\n\t\tverify twilio %[1]q\n\t\tpublic_url https://public.example/prefix\n\t\tdeliver %[2]s\n\t}", secret, up.addr())
	c, senders := startTLS(t, site)
	sent := 0
	for _, w := range []struct {
		name, path, signed string
		status             int
	}{
		{"as it is reached", "/direct?b=2&a=1+1%27", c.site, http.StatusOK},
		{"with http", "/direct", strings.Replace(c.site, "https", "http", 1), http.StatusUnauthorized},
		{"with another host", "/direct", strings.Replace(c.site, "hooks", "other", 1), http.StatusUnauthorized},
		{"as public_url says", "/public?b=2&a=1+1%27", "https://public.example/prefix", http.StatusOK},
		{"as it is reached behind public_url", "/public", c.site, http.StatusUnauthorized},
	} {
		for _, s := range senders {
			sent++
			value := strconv.Itoa(sent) // no copy of another
			body := "Body=" + value
			r, err := s.send(t.Context(), c.site+w.path, strings.NewReader(body), int64(len(body)),
				"Content-Type", "application/x-www-form-urlencoded", "X-Twilio-Signature", twilio(w.signed+w.path, "Body", value))
			if err != nil || r.status != w.status {
				t.Errorf("%s, %s: got %d %s %v, want %d", w.name, s.proto, r.status, r.body, err, w.status)
			}
		}
	}
	c.settled(patience)
	if n := up.count(); n != 2*len(senders) {
		t.Errorf("%d deliveries, want %d", n, 2*len(senders))
	}
}

// cutBody is a body that its sender gives up in the middle.
type cutBody struct {
	io.Reader
	ctx context.Context
	cut func()
}

func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	b.cut()
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// What came before the reset is signed, so that it would be taken if the reset passed for the end of the body.
func TestABodyThatIsResetInTheMiddleIsNotStored(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tmax_body 8MiB\n\t\tdeliver %s\n\t}", secret, up.addr()))
	// More than a stream holds while nobody reads, so that the handler is in the middle of the body.
	half := bytes.Repeat([]byte("x"), 3<<20)
	resets := 0
	for i, s := range senders {
		for _, length := range []int64{-1, 2 * int64(len(half))} {
			ctx, cancel := context.WithCancel(t.Context())
			body := &cutBody{bytes.NewReader(half), ctx, cancel}
			if r, err := s.send(ctx, c.site+"/hooks", body, length, "X-Signature", sign(secret, half)); err == nil {
				t.Errorf("%s, length %d: answered %d %s", s.proto, length, r.status, r.body)
			}
			resets++
			waitFor(t, patience, s.proto+" being refused", func() bool {
				n, _ := c.metric("caddy_anvil_requests_total", `outcome="refused"`, `reason="body_incomplete"`)
				return int(n) == resets
			})
		}
		s.accepted(t, c.site+"/hooks", hook(i))
		s.sameConnection(t)
	}
	c.settled(patience)
	if events, hits := len(c.events("")), up.count(); events != len(senders) || hits != len(senders) {
		t.Errorf("%d events stored and %d delivered, want the %d whole ones", events, hits, len(senders))
	}
}

func TestAResetAfterTheBodyLosesNothingAndIsNoError(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, simpleSite(up))
	const each = 20
	n := 0
	for _, reset := range []struct {
		name   string
		stored bool
		trace  func(cancel func()) *httptrace.ClientTrace
	}{
		{"with the end of the body", false, func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }}
		}},
		{"soon after the end of the body", false, func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { go cancel() }}
		}},
		{"at the first byte of the answer", true, func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{GotFirstResponseByte: cancel}
		}},
	} {
		for _, s := range senders {
			for range each {
				n++
				ctx, cancel := context.WithCancel(t.Context())
				_, _ = s.send(httptrace.WithClientTrace(ctx, reset.trace(cancel)), c.site+"/hooks", // whether the answer is still seen is open
					bytes.NewReader(hook(n)), int64(len(hook(n))), "X-Signature", sign(secret, hook(n)))
				cancel()
				// Such a sender sends again.
				r := s.post(t, c.site+"/hooks", hook(n))
				if r.status != http.StatusAccepted || reset.stored && !r.Replayed {
					t.Errorf("reset %s, %s: the next try got %d %s", reset.name, s.proto, r.status, r.body)
				}
			}
		}
	}
	c.settled(patience)
	if events, hits := len(c.events("")), up.count(); events != n || hits != n {
		t.Errorf("%d events stored and %d delivered, want %d", events, hits, n)
	}
	noneTwice(t, up)
	if line, found := c.wholeLog().find(`"level":"error"`); found {
		t.Errorf("logged as an error: %s", line)
	}
}

func TestABodyOverTheLimitIsRefusedAndTheConnectionGoesOn(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, simpleSite(up))
	for i, s := range senders {
		if s.proto == "HTTP/1.1" { // it has to close the connection, and its client may then miss the answer
			continue
		}
		s.accepted(t, c.site+"/hooks", hook(i))
		for _, length := range []int64{-1, 1 << 30} {
			body := &zeros{}
			r, err := s.send(t.Context(), c.site+"/hooks", io.LimitReader(body, 1<<30), length, "X-Signature", sign(secret, nil))
			if err != nil || r.status != http.StatusRequestEntityTooLarge || r.Error != "body_too_large" {
				t.Errorf("%s, length %d: got %d %s %v, want 413", s.proto, length, r.status, r.body, err)
			}
			if sent := body.sent.Load(); sent > 32<<20 {
				t.Errorf("%s, length %d: the server took %d bytes against a limit of 256 KiB", s.proto, length, sent)
			}
		}
		s.accepted(t, c.site+"/hooks", hook(i+len(senders)))
		s.sameConnection(t)
	}
}

func TestAStalledBodyIsRefusedAndTheConnectionGoesOn(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, simpleSite(up)+
		fmt.Sprintf("\n\tanvil /stalled stalled {\n\t\tverify hmac %q\n\t\tread_timeout 1s\n\t\tdeliver %s\n\t}", secret, up.addr()))
	for i, s := range senders {
		for _, length := range []int64{-1, 100} {
			body, end := io.Pipe()
			go func() { _, _ = io.WriteString(end, "ten bytes.") }() // and the rest never comes
			r, err := s.send(t.Context(), c.site+"/stalled", body, length, "X-Signature", sign(secret, []byte("ten bytes.")))
			end.Close()
			if err != nil || r.status != http.StatusRequestTimeout || r.Error != "body_timeout" {
				t.Errorf("%s, length %d: got %d %s %v, want 408", s.proto, length, r.status, r.body, err)
			}
		}
		s.accepted(t, c.site+"/hooks", hook(i))
		s.sameConnection(t)
	}
}

func TestAHundredStreamsOfAConnectionAreAllAnswered(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, simpleSite(up))
	const streams = 100
	for round, s := range senders[1:] {
		s.accepted(t, c.site+"/hooks", hook(-1-round)) // without a connection each stream would begin one
		bodies, all := make([][]byte, streams), make(chan struct{})
		var open, answered sync.WaitGroup
		open.Add(streams)
		for i := range bodies {
			bodies[i] = hook(round*streams + i)
			body, end := io.Pipe()
			go func() {
				_, _ = end.Write(bodies[i][:5])
				open.Done()
				<-all
				_, _ = end.Write(bodies[i][5:])
				end.Close()
			}()
			answered.Go(func() {
				r, err := s.send(t.Context(), c.site+"/hooks", body, -1, "X-Signature", sign(secret, bodies[i]))
				if err != nil || r.status != http.StatusAccepted || r.Replayed {
					t.Errorf("%s, stream %d: got %d %s %v, want a fresh 202", s.proto, i, r.status, r.body, err)
				}
				body.Close()
			})
		}
		open.Wait() // each has sent its first bytes, and none its last
		close(all)
		answered.Wait()
		s.sameConnection(t)
	}
	up.wait(2*streams+2, patience)
	c.settled(patience)
	noneTwice(t, up)
}

func TestExpectContinueSparesABodyThatIsTooLargeAndAsksForAGoodOne(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c, senders := startTLS(t, simpleSite(up))
	for i, s := range senders[:2] { // the client for HTTP/3 does not wait
		asked := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { asked = true }})
		body := &zeros{}
		r, err := s.send(ctx, c.site+"/hooks", io.LimitReader(body, 1<<30), 1<<30, "Expect", "100-continue", "X-Signature", sign(secret, nil))
		if err != nil || r.status != http.StatusRequestEntityTooLarge || asked || body.sent.Load() != 0 {
			t.Errorf("%s: got %d %s %v, asked for the body %v, sent %d bytes; want 413 and none", s.proto, r.status, r.body, err, asked, body.sent.Load())
		}
		good := hook(i)
		r, err = s.send(ctx, c.site+"/hooks", bytes.NewReader(good), int64(len(good)), "Expect", "100-continue", "X-Signature", sign(secret, good))
		if err != nil || r.status != http.StatusAccepted || !asked {
			t.Errorf("%s: got %d %s %v, asked for the body %v; want 202 after it", s.proto, r.status, r.body, err, asked)
		}
	}
	up.wait(2, patience)
}
