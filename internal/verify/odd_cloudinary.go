package verify

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// cloudinaryScheme is a plain digest, of which the length tells the algorithm unless an option does.
type cloudinaryScheme struct{}

// Cloudinary does not bound the time ahead, and its own examples are far ahead.
var cloudinarySigned = signed{
	sig: "X-Cld-Signature", ts: "X-Cld-Timestamp", unit: eitherUnit, alg: plainSHA1, message: []string{"{sig.body}{sig.timestamp}{sig.secret}"},
	window: window{past: 2 * time.Hour, future: unbounded},
}

func (cloudinaryScheme) compile(c *compilation) (checker, error) {
	s := cloudinarySigned
	switch c.options["algorithm"] {
	case "sha1":
	case "sha256":
		s.alg = plainSHA256
	case "":
		s.parse = func(in *input, value string) Reason {
			if in.alg = plainSHA1; len(value) == 2*sha256.Size {
				in.alg = plainSHA256
			}
			in.sigs = append(in.sigs, value)
			return ""
		}
	default:
		return nil, fmt.Errorf("algorithm %s is not one of Cloudinary's; choose from sha1, sha256", c.options["algorithm"])
	}
	return s.compile(c)
}

func (cloudinaryScheme) describe(p *Provider) { cloudinarySigned.describe(p) }
