package deliver

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestErrorTextsHoldNoCredentials(t *testing.T) {
	for in, want := range map[string]string{
		`Post "http://app/h?token=s3cr3t&api_key=s3cr3t&page=2": EOF`: `Post "http://app/h?token=[redacted]&api_key=[redacted]&page=2": EOF`,
		"dial http://user:s3cr3t@app:80/x failed":                     "dial http://[redacted]@app:80/x failed",
		"http://s3cr3t@app":                                            "http://[redacted]@app",
		"?access_token=s3cr3t":                                         "?access_token=[redacted]",
		"?key=s3cr3t;secret=s3cr3t":                                    "?key=[redacted];secret=[redacted]",
		"?X-Amz-Signature=s3cr3t&X-Amz-Credential=s3cr3t":              "?X-Amz-Signature=[redacted]&X-Amz-Credential=[redacted]",
		"?sig=s3cr3t&Password=s3cr3t&auth=s3cr3t&code=s3cr3t":          "?sig=[redacted]&Password=[redacted]&auth=[redacted]&code=[redacted]",
		"?user[pass]=s3cr3t&oauth.code=s3cr3t":                         "?user[pass]=[redacted]&oauth.code=[redacted]",
		"token=s3cr3t is not valid (secret=s3cr3t)":                    "token=[redacted] is not valid (secret=[redacted])",
		"PATH=/usr\x00API_TOKEN=s3cr3t\x0cid=1":                        "PATH=/usr\uFFFDAPI_TOKEN=[redacted]",
		"?zipcode=1234&design=blue&author=me&passenger=1":              "?zipcode=1234&design=blue&author=me&passenger=1",
		"mail me@example.com about http://app/users/@me?tab=profile#x": "mail me@example.com about http://app/users/@me?tab=profile#x",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q)\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestACredentialAtTheCutIsHidden(t *testing.T) {
	before := "dial http://user:"
	long := strings.Repeat("x", maxText-len(before)-len("s3cr")) + before + "s3cr3t@app failed"
	if got := clean(long); strings.Contains(got, "s3c") {
		t.Errorf("half of a password is left in %q", got)
	}
}

func TestTextsAreCutOnACharacterAndStayPrintable(t *testing.T) {
	for name, in := range map[string]string{
		"long":                     strings.Repeat("x", 5000),
		"four-byte characters":     "x" + strings.Repeat("🫨", 300),
		"invalid and NUL":          strings.Repeat("a\xff\x00", 400),
		"terminal escape sequence": "\x1b[2J\x1b]0;owned\x07" + strings.Repeat("é", 400),
	} {
		got := clean(in)
		if len(got) > maxText || len(got) < maxText-utf8.UTFMax || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, valid %v", name, len(got), utf8.ValidString(got))
		}
		if strings.ContainsAny(got, "\x00\x1b\x07") {
			t.Errorf("%s: control characters are left in %q", name, got)
		}
	}
	if got := clean("line one\r\n\tline two é"); got != "line one\r\n\tline two é" {
		t.Errorf("ordinary text was changed to %q", got)
	}
}
