package deliver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/caddy-anvil/anvil/internal/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long an attempt may take whose time is not what a test is about.
const patience = time.Minute

// newTestClient returns a client whose connections end with the test. change sees it before its first use.
func newTestClient(t *testing.T, change ...func(*Client)) *Client {
	t.Helper()
	c := NewClient(Options{})
	for _, f := range change {
		f(c)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// request is a first attempt of an event with this body to url; change adjusts the stored request.
func request(url, body string, change ...func(*event.Payload)) Request {
	p := event.Payload{
		Method: "POST", Scheme: "https", Host: "hooks.example.com", URI: "/in", ClientIP: "203.0.113.7", Body: []byte(body),
	}
	for _, f := range change {
		f(&p)
	}
	return Request{
		Event: event.Event{
			ID: uuid.MustParse("01890000-0000-7000-8000-000000000001"), Source: "github", Payload: p.Encode(),
			AcceptedAt: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.FixedZone("", 3600)),
		},
		Job:     event.Job{ID: uuid.MustParse("01890000-0000-7000-8000-000000000002")},
		Attempt: 1,
		Target:  Target{URL: url, Timeout: patience},
	}
}

func withHeaders(pairs ...string) func(*event.Payload) {
	return func(p *event.Payload) {
		for i := 0; i < len(pairs); i += 2 {
			p.Headers = append(p.Headers, event.Header{Name: pairs[i], Value: pairs[i+1]})
		}
	}
}

func withMethod(m string) func(*event.Payload) {
	return func(p *event.Payload) { p.Method = m }
}

func wantClass(t *testing.T, r Result, want event.Class) {
	t.Helper()
	if r.Attempt.Class != want {
		t.Fatalf("class is %q (%s), want %q", r.Attempt.Class, r.Attempt.Error, want)
	}
}

func TestBodyArrivesByteForByteWithItsLength(t *testing.T) {
	binary := make([]byte, 1<<20)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	for _, body := range []string{"", "0", `""`, `{"a":1 }`, "\x00\xff\xfe", "🫨", string(binary)} {
		var got []byte
		var length int64
		var encoding []string
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			got, _ = io.ReadAll(r.Body)
			length, encoding = r.ContentLength, r.TransferEncoding
			if _, ok := r.Header["Content-Length"]; !ok && r.ContentLength != int64(len(body)) {
				t.Errorf("no Content-Length for a body of %d bytes", len(body))
			}
		})
		wantClass(t, newTestClient(t).Send(t.Context(), request(url, body)), event.ClassDelivered)
		if string(got) != body || length != int64(len(body)) || len(encoding) != 0 {
			t.Errorf("body of %d bytes arrived as %d bytes, length %d, encoding %v", len(body), len(got), length, encoding)
		}
	}
}

func TestHeadersPassExceptThoseOfTheHopAndForgedOnes(t *testing.T) {
	var got http.Header
	var host, method string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got, host, method = r.Header, r.Host, r.Method })
	req := request(url+"/x", "{}", withHeaders(
		"Accept-Encoding", "br", "If-Match", "*", "If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT", "If-None-Match", "*",
		"If-Range", `"x"`, "If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT", "Range", "bytes=0-1",
		"Anvil-Attempt", "99", "Anvil_job_id", "forged", "Anvil-Anything", "forged",
		"Connection", "close, x-one-hop", "Content-Length", "77", "Content-Type", "application/json; charset=utf-8",
		"Expect", "100-continue", "Forwarded", "for=1.2.3.4", "Host", "public.example", "Idempotency-Key", "k1",
		"Keep-Alive", "5", "Proxy", "http://6.6.6.6", "Proxy-Authorization", "Basic eA==", "Te", "trailers", "Trailer", "X", "Transfer-Encoding", "chunked",
		"Upgrade", "h2c", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Port", "1", "X_forwarded_for", "6.6.6.6",
		"X-Hub-Signature-256", "sha256=ab", "X-Multi", "one", "X-Multi", "two", "X-One-Hop", "gone", "X-Real-Ip", "6.6.6.6",
	))
	req.Event.Type, req.Event.Tenant, req.Event.Verified, req.Attempt = "push", "acme\r\nEvil: 1", true, 3
	wantClass(t, newTestClient(t).Send(t.Context(), req), event.ClassDelivered)

	want := http.Header{
		"Content-Length": {"2"}, "Content-Type": {"application/json; charset=utf-8"},
		"Idempotency-Key": {"k1"}, "X-Hub-Signature-256": {"sha256=ab"}, "X-Multi": {"one", "two"},
		"X-Forwarded-For": {"203.0.113.7"}, "X-Forwarded-Host": {"hooks.example.com"}, "X-Forwarded-Proto": {"https"},
		"Anvil-Job-Id": {"01890000-0000-7000-8000-000000000002"}, "Anvil-Event-Id": {"01890000-0000-7000-8000-000000000001"},
		"Anvil-Attempt": {"3"}, "Anvil-Received-At": {"2026-01-02T02:04:05.678Z"}, "Anvil-Source": {"github"},
		"Anvil-Event-Type": {"push"}, "Anvil-Tenant": {"acme%0D%0AEvil: 1"}, "Anvil-Verified": {"true"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers at the endpoint (-want +got):\n%s", diff)
	}
	if "http://"+host != url || method != "POST" {
		t.Errorf("%s to Host %q, want POST to that of %s", method, host, url)
	}
}

func TestUnsetFactsSendNoHeader(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	wantClass(t, newTestClient(t).Send(t.Context(), request(url, "x")), event.ClassDelivered)
	for _, name := range []string{"Anvil-Tenant", "Anvil-Event-Type", "User-Agent", "Content-Type", "Accept-Encoding"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s: %q was sent although the event has none", name, v)
		}
	}
	if got.Get("Anvil-Verified") != "false" {
		t.Errorf("Anvil-Verified is %q, want false", got.Get("Anvil-Verified"))
	}
}

func TestMethodIsTheStoredOneUnlessItWouldLoseTheBody(t *testing.T) {
	for _, c := range []struct{ stored, body, want string }{
		{"POST", "x", "POST"},
		{"PUT", "x", "PUT"},
		{"PATCH", "x", "PATCH"},
		{"GET", "x", "POST"},
		{"DELETE", "x", "POST"},
		{"", "x", "POST"},
		{"POST", "", "POST"},
		{"PUT", "", "PUT"},
		{"GET", "", "GET"},
		{"DELETE", "", "DELETE"},
		{"CONNECT", "", "POST"},
	} {
		var got string
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			got = r.Method + " " + string(body)
			if err != nil || len(r.TransferEncoding) > 0 {
				t.Errorf("reading the body: transfer encoding %v, %v", r.TransferEncoding, err)
			}
		})
		wantClass(t, newTestClient(t).Send(t.Context(), request(url, c.body, withMethod(c.stored))), event.ClassDelivered)
		if got != c.want+" "+c.body {
			t.Errorf("stored %s %q was sent as %q, want %s", c.stored, c.body, got, c.want)
		}
	}
}

func TestStatusDecides(t *testing.T) {
	for status, want := range map[int]event.Class{
		200: event.ClassDelivered, 202: event.ClassDelivered, 204: event.ClassDelivered, 299: event.ClassDelivered,
		300: event.ClassStatus, 302: event.ClassStatus, 307: event.ClassStatus, 304: event.ClassStatus,
		400: event.ClassStatus, 404: event.ClassStatus, 410: event.ClassStatus, 429: event.ClassStatus, 500: event.ClassStatus, 599: event.ClassStatus,
	} {
		hits := 0
		elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Errorf("a redirect with %d was followed", status) })
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			hits++
			w.Header().Set("Location", elsewhere)
			w.WriteHeader(status)
		})
		r := newTestClient(t).Send(t.Context(), request(url, "x"))
		wantClass(t, r, want)
		if r.Attempt.Status != status || !r.Sent || hits != 1 || r.Gone != (status == 410) || r.Attempt.Number != 1 {
			t.Errorf("%d: result %+v after %d requests", status, r, hits)
		}
		if (r.Attempt.Error == "") != (want == event.ClassDelivered) {
			t.Errorf("%d: error is %q", status, r.Attempt.Error)
		}
	}
}

func TestSwitchingProtocolsIsAFailureThatHoldsNobody(t *testing.T) {
	url := rawServer(t, func(c *rawConn) {
		c.readRequest()
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		c.untilClosed()
	})
	r := newTestClient(t).Send(t.Context(), request(url, "x"))
	wantClass(t, r, event.ClassStatus)
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	if newTestClient(t).transport.Proxy != nil {
		t.Error("the transport asks for a proxy")
	}
}

func TestStartAndDurationAreMeasuredByTheInjectedClock(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := NewClient(Options{Now: func() time.Time { at = at.Add(time.Second); return at }})
	defer c.Close()
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := c.Send(t.Context(), request(url, "x"))
	if want := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC); !r.Attempt.StartedAt.Equal(want) || r.Attempt.Duration != time.Second {
		t.Errorf("started %s for %s, want %s for 1s", r.Attempt.StartedAt, r.Attempt.Duration, want)
	}
}

func TestRetryAfterIsReadOfAnyFailure(t *testing.T) {
	for _, status := range []int{429, 503, 404} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(status)
		})
		if r := newTestClient(t).Send(t.Context(), request(url, "x")); r.RetryAfter != 2*time.Minute {
			t.Errorf("%d: retry after %s, want 2m", status, r.RetryAfter)
		}
	}
}

func TestDamagedPayloadIsAConfigFailureAndSendsNothing(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	req := request(url, "x")
	req.Event.Payload = []byte{9, 9}
	r := newTestClient(t).Send(t.Context(), req)
	wantClass(t, r, event.ClassConfig)
	if r.Sent {
		t.Error("it counts as sent")
	}
}

func TestUnsendableHeaderIsAConfigFailure(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	r := newTestClient(t).Send(t.Context(), request(url, "x", withHeaders("Bad Name", "v")))
	wantClass(t, r, event.ClassConfig)
	if r.Sent {
		t.Error("it counts as sent")
	}
}

func TestCutShortByTheCallerIsInterrupted(t *testing.T) {
	arrived := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // the server notices the client's leaving only once the body is read
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	r := newTestClient(t).Send(ctx, request(url, "x"))
	wantClass(t, r, event.ClassInterrupted)
	if !r.Sent {
		t.Error("it counts as not sent although the endpoint has it")
	}
}

func TestCutShortBeforeAConnectionIsNotSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newTestClient(t).Send(ctx, request("http://127.0.0.1:1", "x"))
	wantClass(t, r, event.ClassInterrupted)
	if r.Sent {
		t.Error("it counts as sent")
	}
}

func TestSnippetIsTheBeginningOfTheAnswer(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"short":           {"all good", "all good"},
		"empty":           {"", ""},
		"cut":             {string(bytes.Repeat([]byte("y"), 100_000)), string(bytes.Repeat([]byte("y"), 512))},
		"cut in a rune":   {string(bytes.Repeat([]byte("y"), 511)) + "éééé", string(bytes.Repeat([]byte("y"), 511))},
		"NUL and invalid": {"a\x00b\xff\xfec", "a\uFFFDb\uFFFDc"},
		"credentials":     {"see http://app/?token=s3cr3t", "see http://app/?token=[redacted]"},
		"a password at the cut": {
			string(bytes.Repeat([]byte("y"), 490)) + "http://user:s3cr3t-and-more@app",
			string(bytes.Repeat([]byte("y"), 490)) + "http://[redacted]@app",
		},
		"credentials of a long answer": {
			"see http://app/?token=s3cr3t " + string(bytes.Repeat([]byte("y"), 100_000)),
			"see http://app/?token=[redacted] " + string(bytes.Repeat([]byte("y"), 512-len("see http://app/?token=[redacted] "))),
		},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
		r := newTestClient(t).Send(t.Context(), request(url, "x"))
		wantClass(t, r, event.ClassDelivered)
		if r.Attempt.Snippet != c.want {
			t.Errorf("%s: snippet %q, want %q", name, r.Attempt.Snippet, c.want)
		}
	}
}

func TestCompressedAnswersAreDeliveredWhateverTheyHold(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if ae := r.Header.Get("Accept-Encoding"); ae != "" {
				t.Errorf("Accept-Encoding %q was asked for", ae)
			}
			if encoding != "" {
				w.Header().Set("Content-Encoding", encoding)
			}
			_, _ = w.Write([]byte("\x1f\x8b\x08\x00broken gzip\x00\xff"))
		})
		r := newTestClient(t).Send(t.Context(), request(url, "x"))
		wantClass(t, r, event.ClassDelivered)
		if bytes.ContainsAny([]byte(r.Attempt.Snippet), "\x00\x1f\x08") {
			t.Errorf("snippet %q is not readable", r.Attempt.Snippet)
		}
	}
}
