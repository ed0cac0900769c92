package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Fetcher gets keys and certificates from providers. The verifier only ever asks for https URLs of the provider's own
// hosts, or for one that is configured.
type Fetcher interface {
	// Fetch returns the document at the URL, from memory if it was fetched less than maxAge ago, or if it is older and cannot
	// be fetched again.
	Fetch(ctx context.Context, url string, maxAge time.Duration) ([]byte, error)
}

const (
	fetchTimeout  = 5 * time.Second
	fetchMaxBytes = 1 << 20
	// A source may fetch so many documents in fetchWindow; forgeries that name ever new URLs must not make us a burden to
	// the provider.
	fetchBudget = 10
	fetchWindow = time.Minute
	// fetchRetry is the time for which an older document serves when it could not be fetched again.
	fetchRetry = 10 * time.Second
	// fetchKept is the number of documents in memory.
	fetchKept = 32
)

// HTTPFetcher fetches over https. One belongs to one source. It is safe for concurrent use.
type HTTPFetcher struct {
	client *http.Client
	now    func() time.Time
	flight singleflight.Group

	mu   sync.Mutex
	docs map[string]fetched
	used []time.Time
}

type fetched struct {
	body []byte
	at   time.Time
	// failed is when it last could not be fetched again.
	failed time.Time
}

var errFetchBudget = fmt.Errorf("fetching: more than %d documents in a minute; trying again later", fetchBudget)

// NewHTTPFetcher returns a Fetcher that connects through the transport; nil means Go's default one.
func NewHTTPFetcher(transport http.RoundTripper, now func() time.Time) *HTTPFetcher {
	return &HTTPFetcher{
		client: &http.Client{
			Transport: transport,
			Timeout:   fetchTimeout,
			// A redirect could lead to any host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		now:  now,
		docs: map[string]fetched{},
	}
}

// Fetch implements Fetcher. Requests for one URL share one connection; a caller that gives up does not end it for others.
func (f *HTTPFetcher) Fetch(ctx context.Context, rawURL string, maxAge time.Duration) ([]byte, error) {
	if u, err := url.Parse(rawURL); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("fetching: the address is not https")
	}
	if body, ok := f.kept(rawURL, maxAge); ok {
		return body, nil
	}
	result := f.flight.DoChan(rawURL, func() (any, error) {
		if body, ok := f.kept(rawURL, maxAge); ok {
			return body, nil
		}
		// A forger can use up the budget, so it must not hold up what was found before.
		older, known := f.older(rawURL)
		if !known && !f.spend() {
			return nil, errFetchBudget
		}
		// It is shared, so one caller's end must not end it; the client has a timeout.
		body, err := f.get(context.WithoutCancel(ctx), rawURL)
		switch {
		case err == nil:
			f.keep(rawURL, body)
		case known:
			f.fail(rawURL)
			return older, nil
		}
		return body, err
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("fetching %s: %w", rawURL, ctx.Err())
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		body, ok := r.Val.([]byte)
		if !ok {
			return nil, errors.New("fetching: nothing came")
		}
		return body, nil
	}
}

func (f *HTTPFetcher) kept(rawURL string, maxAge time.Duration) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.docs[rawURL]
	return d.body, ok && (f.now().Sub(d.at) < maxAge || f.now().Sub(d.failed) < fetchRetry)
}

// older returns a document whatever its age.
func (f *HTTPFetcher) older(rawURL string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.docs[rawURL]
	return d.body, ok
}

func (f *HTTPFetcher) fail(rawURL string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d, ok := f.docs[rawURL]; ok {
		d.failed = f.now()
		f.docs[rawURL] = d
	}
}

// keep makes room by forgetting the oldest document.
func (f *HTTPFetcher) keep(rawURL string, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.docs[rawURL] = fetched{body: body, at: f.now()}
	if len(f.docs) <= fetchKept {
		return
	}
	oldest := ""
	for u, d := range f.docs {
		if oldest == "" || d.at.Before(f.docs[oldest].at) {
			oldest = u
		}
	}
	delete(f.docs, oldest)
}

// spend takes one fetch from the budget of the last minute.
func (f *HTTPFetcher) spend() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for len(f.used) > 0 && now.Sub(f.used[0]) >= fetchWindow {
		f.used = f.used[1:]
	}
	if len(f.used) >= fetchBudget {
		return false
	}
	f.used = append(f.used, now)
	return true
}

func (f *HTTPFetcher) get(ctx context.Context, rawURL string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", rawURL, err)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching %s: the answer is %s", rawURL, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, fetchMaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", rawURL, err)
	}
	if len(body) > fetchMaxBytes {
		return nil, fmt.Errorf("fetching %s: the document is larger than 1 MiB", rawURL)
	}
	return body, nil
}
