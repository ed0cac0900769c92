package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
)

func limitedSite(u *upstream, scope string) string {
	return fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\trate_limit %s 5 1m\n\t\tdeliver %s\n\t}", secret, scope, u.addr())
}

func limitedResponse(t *testing.T, r response) {
	t.Helper()
	wait, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusTooManyRequests || r.Error != "rate_limited" || err != nil || wait < 1 || wait > 60 {
		t.Errorf("got %d %s, Retry-After %q; want 429 rate_limited and 1 to 60 seconds", r.status, r.body, r.header.Get("Retry-After"))
	}
}

func TestAnAddressOverItsRateIsRefused(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, limitedSite(up, "ip"))
	for i := range 5 {
		// A forwarded address from an untrusted sender must not buy a budget of its own.
		accepted(t, c.site+"/hooks", hook(i), "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
	}
	limitedResponse(t, post(t, c.site+"/hooks", hook(5), "X-Forwarded-For", "198.51.100.77"))
}

func TestBehindATrustedProxyEachClientHasItsOwnRate(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	conf := c.caddyfile("", limitedSite(up, "ip"))
	c.start(conf[:2] + "\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}\n" + conf[2:])
	for i := range 6 {
		accepted(t, c.site+"/hooks", hook(i), "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
	}
	for i := range 5 {
		post(t, c.site+"/hooks", hook(10+i), "X-Forwarded-For", fmt.Sprintf("2001:db8:0:1::%d", i+1))
	}
	limitedResponse(t, post(t, c.site+"/hooks", hook(20), "X-Forwarded-For", "2001:db8:0:1:ffff::1"))
	accepted(t, c.site+"/hooks", hook(21), "X-Forwarded-For", "2001:db8:0:2::1")
}

func TestAForgerCannotUseUpTheRateOfASource(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, limitedSite(up, "source"))
	for range 20 {
		r, err := send(c.site+"/hooks", hook(0), "X-Signature", sign("another secret, no good", hook(0)))
		if err != nil || r.status != http.StatusUnauthorized {
			t.Fatalf("got %d %v, want 401", r.status, err)
		}
	}
	for i := range 5 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	limitedResponse(t, post(t, c.site+"/hooks", hook(5)))
}

func TestAFullQueueSaysSoAndTakesWorkAgainWhenItDrains(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := newInstance(t)
	conf := func(workers string) string {
		return c.caddyfile("\t\tworkers "+workers+"\n\t\tqueue webhooks {\n\t\t\tmax_pending 3\n\t\t}", simpleSite(up))
	}
	c.start(conf("off"))
	for i := range 3 {
		accepted(t, c.site+"/hooks", hook(i))
	}
	r := post(t, c.site+"/hooks", hook(3))
	if r.status != http.StatusServiceUnavailable || r.Error != "backlog_full" || r.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503 backlog_full with Retry-After", r.status, r.body)
	}
	if r := post(t, c.site+"/hooks", hook(1)); r.status != http.StatusAccepted || !r.Replayed {
		t.Errorf("a duplicate at a full queue got %d %s, want its 202", r.status, r.body)
	}
	c.mustReload(conf("on"))
	c.settled(patience)
	accepted(t, c.site+"/hooks", hook(3))
}
