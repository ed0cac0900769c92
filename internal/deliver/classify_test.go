package deliver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/caddy-anvil/anvil/internal/event"
)

// names makes the client ask a DNS server of the test's own, which knows the given names.
func names(t *testing.T, table map[string][]string) func(*Client) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := answerDNS(buf[:n], table); err == nil {
				_, _ = pc.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = pc.Close(); <-done })
	return func(c *Client) {
		c.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "udp", pc.LocalAddr().String())
		}}
	}
}

func answerDNS(query []byte, table map[string][]string) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true},
		Questions: []dnsmessage.Question{q},
	}
	addresses, known := table[strings.TrimSuffix(q.Name.String(), ".")]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		ip := net.ParseIP(a)
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		switch v4 := ip.To4(); {
		case v4 != nil && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: [4]byte(v4)}})
		case v4 == nil && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
		}
	}
	return m.Pack()
}

func TestConnectionFailuresHaveAClassEach(t *testing.T) {
	wrongCert := httptest.NewUnstartedServer(http.NotFoundHandler())
	wrongCert.Config.ErrorLog = discardLog()
	wrongCert.StartTLS()
	defer wrongCert.Close()
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request reached a handler") })
	reset := rawServer(t, func(c *rawConn) { c.readRequest() })
	garbage := rawServer(t, func(c *rawConn) { c.readRequest(); c.write("not http at all\r\n\r\n") })
	hangUp := rawServer(t, func(*rawConn) {})

	for _, c := range []struct {
		name, url string
		class     event.Class
		sent      bool
	}{
		{"refused port", "http://127.0.0.1:1", event.ClassConnect, false},
		{"unknown name", "http://nowhere.test", event.ClassDNS, false},
		{"untrusted certificate", wrongCert.URL, event.ClassTLS, false},
		{"plain HTTP where TLS was expected", "https" + strings.TrimPrefix(plain, "http"), event.ClassTLS, false},
		{"hang-up during the TLS handshake", "https" + strings.TrimPrefix(hangUp, "http"), event.ClassTLS, false},
		{"connection ended before a status", reset, event.ClassReset, true},
		{"no HTTP in the answer", garbage, event.ClassReset, true},
		{"URL that cannot be used", "ftp://app", event.ClassConfig, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTestClient(t, names(t, nil)).Send(t.Context(), request(c.url, "x"))
			wantClass(t, r, c.class)
			if r.Sent != c.sent || r.Attempt.Error == "" || r.Attempt.Status != 0 {
				t.Errorf("result %+v, want sent %v and an error", r, c.sent)
			}
		})
	}
}

func TestNoStatusInTimeIsATimeout(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	c, req := newTestClient(t), request(url, "x")
	// A slow machine does not even connect within a short time.
	for timeout := 50 * time.Millisecond; timeout < patience; timeout *= 2 {
		req.Target.Timeout = timeout
		r := c.Send(t.Context(), req)
		wantClass(t, r, event.ClassTimeout)
		if !strings.Contains(r.Attempt.Error, timeout.String()) {
			t.Errorf("error %q, want %s named", r.Attempt.Error, timeout)
		}
		if r.Sent {
			return
		}
	}
	t.Error("it counts as not sent although the endpoint has it")
}

func TestDualStackNameIsReachedByTheFamilyThatListens(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	c := newTestClient(t, names(t, map[string][]string{"dual.test": {"::1", "127.0.0.1"}}))
	wantClass(t, c.Send(t.Context(), request("http://dual.test:"+port, "x")), event.ClassDelivered)
}

func TestHostIsTheUpstreamsWithItsPort(t *testing.T) {
	var host string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { host = r.Host })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	c := newTestClient(t, names(t, map[string][]string{"up.test": {"127.0.0.1"}}))
	wantClass(t, c.Send(t.Context(), request("http://up.test:"+port+"/x", "x")), event.ClassDelivered)
	if host != "up.test:"+port {
		t.Errorf("Host is %q, want up.test:%s", host, port)
	}
}

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                                    0,
		"0":                                   0,
		"120":                                 2 * time.Minute,
		" 7 ":                                 7 * time.Second,
		"-5":                                  0,
		"+5":                                  0,
		"1.5":                                 0,
		"soon":                                0,
		"999999":                              999999 * time.Second,
		"99999999999":                         math.MaxInt64,
		strings.Repeat("9", 40):               math.MaxInt64,
		now.Add(time.Hour).Format(httpDate):   time.Hour,
		now.Add(-time.Hour).Format(httpDate):  0,
		"Friday, 02-Jan-26 03:05:05 GMT":      time.Minute,
		now.Add(time.Hour).Format(time.Stamp): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After %q is %s, want %s", value, got, want)
		}
	}
}

const httpDate = http.TimeFormat

// trust makes the client accept the server's own certificate.
func trust(s *httptest.Server) func(*Client) {
	return func(c *Client) {
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		c.transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
}
