package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// The secrets that the tests' sources share with their senders.
const (
	secret       = "an e2e secret of some length"
	githubSecret = "It's a Secret to Everybody"
)

// client sends as providers do: kept connections, no redirects of interest, and never for ever.
var client = &http.Client{
	Timeout:   time.Minute,
	Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true},
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// response is what a sender got.
type response struct {
	status int
	proto  string
	header http.Header
	body   []byte

	// The parts of the JSON body.
	JobID    string   `json:"jobId"`
	JobIDs   []string `json:"jobIds"`
	Replayed bool     `json:"replayed"`
	Error    string   `json:"error"`
}

// send posts body with the header lines given as name, value, name, value.
func send(url string, body []byte, header ...string) (response, error) {
	return sendVia(client, http.MethodPost, url, bytes.NewReader(body), header...)
}

func sendVia(c *http.Client, method, url string, body io.Reader, header ...string) (response, error) {
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		return response{}, err
	}
	return do(c, req, header...)
}

// do sends a request with more header lines, see send.
func do(c *http.Client, req *http.Request, header ...string) (response, error) {
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close()
	r := response{status: res.StatusCode, proto: res.Proto, header: res.Header}
	if r.body, err = io.ReadAll(res.Body); err != nil {
		return r, err
	}
	_ = json.Unmarshal(r.body, &r) // a refusal by somebody else need not be JSON
	return r, nil
}

// sendSigned posts a body as a sender who knows the secret does.
func sendSigned(url string, body []byte, header ...string) (response, error) {
	return send(url, body, append([]string{"X-Signature", sign(secret, body)}, header...)...)
}

// post is sendSigned with the test failing when there is no answer.
func post(t testing.TB, url string, body []byte, header ...string) response {
	t.Helper()
	r, err := sendSigned(url, body, header...)
	if err != nil {
		t.Fatalf("posting: %v", err)
	}
	return r
}

// accepted is post with the test failing when the answer is not a first 202.
func accepted(t testing.TB, url string, body []byte, header ...string) string {
	t.Helper()
	r := post(t, url, body, header...)
	if r.status != http.StatusAccepted || r.JobID == "" || r.Replayed {
		t.Fatalf("got %d %s, want a fresh 202 with a job id", r.status, r.body)
	}
	return r.JobID
}

// hook is a small unique body.
func hook(i int) []byte { return fmt.Appendf(nil, `{"id":"evt_%d"}`, i) }

// dial opens a raw connection to a base URL, for requests that no HTTP client would make. It lasts a minute.
func dial(t testing.TB, base string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", base[len("http://"):], patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}
