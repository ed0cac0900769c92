package verify_test

import (
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func TestWhatIsKnownOfIDsAndCapturedRequests(t *testing.T) {
	for _, c := range []struct {
		provider  string
		options   verify.Options
		signed    bool
		window    time.Duration
		otherwise string
	}{
		{"github", nil, false, 0, "signature"},
		{"stripe", nil, true, 10 * time.Minute, "body"},
		{"stripe", verify.Options{"tolerance": "1m"}, true, 2 * time.Minute, "body"},
		{"linear", nil, false, 2 * time.Minute, "body"},
		{"telegram", nil, false, 0, "body"},
		{"mailgun", nil, false, 10 * time.Minute, "body"},
		{"contentful", nil, false, time.Minute - 2, "body"},
		{"cloudinary", nil, false, 0, "body"}, // its time may be any distance ahead
		{"ghost", nil, false, 10 * time.Minute, "body"},
		{"ghost", verify.Options{"legacy": "on"}, false, 0, "body"}, // the older form signs no time
		{"docusign", nil, true, 0, "body"},
		{"pagerduty", nil, true, 0, "body"},
		{"hmac", verify.Options{"event_id": "/id"}, true, 0, "signature"},
		{"hmac", verify.Options{"event_id": "/a + /b | form:id"}, true, 0, "signature"},
		{"hmac", verify.Options{"event_id": "X-Id"}, false, 0, "signature"},
		{"hmac", verify.Options{"event_id": "/id | X-Id"}, false, 0, "signature"},
		{"hmac", verify.Options{"event_id": "query:id"}, false, 0, "signature"},
		{"token", verify.Options{"event_id": "/id"}, false, 0, "body"},
		{"hmac", verify.Options{"timestamp_header": "X-Time", "template": "{sig.timestamp}.{sig.body}", "tolerance": "90s"}, false, 3 * time.Minute, "body"},
	} {
		secret := secret
		if c.provider == "contentful" {
			secret = oddSecrets[c.provider][0]
		}
		v := newVerifier(t, c.provider, c.options, secret)
		if v.IDSigned() != c.signed || v.ReplayWindow() != c.window || v.DedupeOtherwise() != c.otherwise {
			t.Errorf("%s %v: signed %v, window %s, otherwise %s", c.provider, c.options, v.IDSigned(), v.ReplayWindow(), v.DedupeOtherwise())
		}
	}
}

func TestValuesOfLaterAreNotLookedAt(t *testing.T) {
	o := verify.Options{"tolerance": "{env.T}"}
	if err := verify.CheckOptions("stripe", o); err == nil {
		t.Error("a placeholder is a duration")
	}
	if err := verify.CheckOptions("stripe", o, "tolerance"); err != nil {
		t.Error(err)
	}
	if err := verify.CheckOptions("github", o, "tolerance"); err == nil {
		t.Error("github takes a tolerance")
	}
}
