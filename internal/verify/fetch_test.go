package verify_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// clock is moved by hand.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func tlsServer(t *testing.T, h http.HandlerFunc) (*httptest.Server, *verify.HTTPFetcher, *clock) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // a client that trusts nobody is part of a test
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c := &clock{t: someTime}
	f := verify.NewHTTPFetcher(srv.Client().Transport, c.now)
	f.Patient()
	return srv, f, c
}

func TestFetchedDocumentsAreKept(t *testing.T) {
	var hits atomic.Int32
	srv, f, c := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "document %d", hits.Add(1))
	})
	for _, step := range []struct {
		maxAge, after time.Duration
		want          string
	}{
		{time.Hour, 0, "document 1"},
		{time.Hour, 59 * time.Minute, "document 1"},
		{time.Minute, 0, "document 2"},
		{time.Hour, 0, "document 2"},
		{time.Hour, 2 * time.Hour, "document 3"},
	} {
		c.advance(step.after)
		if got, err := f.Fetch(t.Context(), srv.URL, step.maxAge); err != nil || string(got) != step.want {
			t.Errorf("%+v: got %q, %v", step, got, err)
		}
	}
}

func TestOnlyOneFetchOfAURLIsUnderWay(t *testing.T) {
	var hits atomic.Int32
	arrived, release := make(chan struct{}), make(chan struct{})
	srv, f, _ := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		close(arrived)
		<-release
		fmt.Fprint(w, "x")
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := f.Fetch(t.Context(), srv.URL, time.Hour); err != nil || string(got) != "x" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	<-arrived
	close(release)
	wg.Wait()
	if hits.Load() != 1 {
		t.Errorf("%d requests", hits.Load())
	}
}

func TestACallerThatGivesUpDoesNotEndTheFetch(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	srv, f, _ := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		fmt.Fprint(w, "x")
	})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := f.Fetch(ctx, srv.URL, time.Hour)
		gaveUp <- err
	}()
	<-arrived
	cancel()
	if err := <-gaveUp; err == nil {
		t.Error("no error for the caller that gave up")
	}
	close(release)
	if got, err := f.Fetch(t.Context(), srv.URL, time.Hour); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTenFetchesAMinute(t *testing.T) {
	var hits atomic.Int32
	srv, f, c := tlsServer(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	for i := range 50 {
		_, err := f.Fetch(t.Context(), fmt.Sprintf("%s/%d", srv.URL, i), time.Hour)
		if (err == nil) != (i < 10) {
			t.Errorf("fetch %d: %v", i, err)
		}
	}
	if _, err := f.Fetch(t.Context(), srv.URL+"/3", time.Hour); err != nil {
		t.Errorf("a document in memory costs nothing: %v", err)
	}
	c.advance(time.Minute)
	if _, err := f.Fetch(t.Context(), srv.URL+"/40", time.Hour); err != nil {
		t.Errorf("a minute later: %v", err)
	}
	if hits.Load() != 11 {
		t.Errorf("%d requests", hits.Load())
	}
}

func TestWhatIsNotFetched(t *testing.T) {
	var hits atomic.Int32
	srv, f, _ := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/missing":
			http.NotFound(w, r)
		case "/huge":
			fmt.Fprint(w, strings.Repeat("x", 1<<20+1))
		}
	})
	for _, path := range []string{"/redirect", "/missing", "/huge"} {
		if got, err := f.Fetch(t.Context(), srv.URL+path, time.Hour); err == nil {
			t.Errorf("%s: got %d bytes", path, len(got))
		}
	}
	if hits.Load() != 3 {
		t.Errorf("%d requests", hits.Load())
	}
	for _, url := range []string{strings.Replace(srv.URL, "https", "http", 1), "file:///etc/passwd", "https://", "", "\x00"} {
		if _, err := f.Fetch(t.Context(), url, time.Hour); err == nil {
			t.Errorf("%q: no error", url)
		}
	}
	// A server whose certificate nobody vouches for.
	if _, err := verify.NewHTTPFetcher(nil, time.Now).Fetch(t.Context(), srv.URL, time.Hour); err == nil {
		t.Error("an unknown certificate authority is trusted")
	}
}

func TestAnOlderDocumentServesWhileItCannotBeFetchedAgain(t *testing.T) {
	var hits atomic.Int32
	var down atomic.Bool
	srv, f, c := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		n := hits.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "document %d", n)
	})
	for _, step := range []struct {
		after time.Duration
		down  bool
		want  string
		hits  int32
	}{
		{0, false, "document 1", 1},
		{2 * time.Hour, true, "document 1", 2},
		{time.Second, true, "document 1", 2}, // it is not asked at every request
		{time.Minute, true, "document 1", 3},
		{time.Minute, false, "document 4", 4},
	} {
		c.advance(step.after)
		down.Store(step.down)
		if got, err := f.Fetch(t.Context(), srv.URL, time.Hour); err != nil || string(got) != step.want || hits.Load() != step.hits {
			t.Errorf("%+v: got %q, %v after %d requests", step, got, err, hits.Load())
		}
	}
}

func TestForgeriesThatUseUpTheBudgetHoldUpNothingKnown(t *testing.T) {
	srv, f, c := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/real" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "real")
	})
	if _, err := f.Fetch(t.Context(), srv.URL+"/real", time.Hour); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * time.Hour)
	for i := range 20 {
		_, _ = f.Fetch(t.Context(), fmt.Sprintf("%s/%d", srv.URL, i), time.Hour) // they are refused, which is another test's
	}
	if got, err := f.Fetch(t.Context(), srv.URL+"/real", time.Hour); err != nil || string(got) != "real" {
		t.Errorf("got %q, %v", got, err)
	}
}
