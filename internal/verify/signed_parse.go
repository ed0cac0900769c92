package verify

import (
	"strconv"
	"strings"
)

// parse finds the signatures in the text of their place, and the time where it stands there too.
func (c *signedChecker) parse(in *input, value string) Reason {
	s := &c.spec
	switch {
	case s.parse != nil:
		return s.parse(in, value)
	case s.pairs != "":
		return c.parsePairs(in, value)
	case s.list != "":
		return c.parseList(in, value)
	case len(s.methods) > 0:
		return parseMethod(in, s.methods, value)
	}
	text, ok := strings.CutPrefix(value, s.prefix)
	if !ok && s.bare {
		text, ok = value, true
	}
	if !ok {
		// An empty signature is malformed too, and takes the time of any other.
		text = ""
	}
	in.sigs = append(in.sigs, text)
	return ""
}

func (c *signedChecker) limit() int {
	if c.spec.alg.kind != notPublic {
		return maxPublicSignatures
	}
	return maxSignatures
}

func (c *signedChecker) next(rest, separator string) (item, after string, more bool) {
	item, after, more = strings.Cut(rest, separator)
	if !c.spec.tight {
		item = strings.TrimLeft(item, " \t")
	}
	return item, after, more
}

func (c *signedChecker) parseList(in *input, value string) Reason {
	others := false
	var item string
	rest, more := value, true
	for first := true; more && len(in.sigs) < c.limit(); first = false {
		item, rest, more = c.next(rest, c.spec.list)
		text, ok := strings.CutPrefix(item, c.spec.prefix)
		switch {
		case first && c.spec.lead:
			in.ts = item
		case item == "":
		case ok:
			in.sigs = append(in.sigs, text)
		case c.spec.bare && !strings.Contains(item, ","):
			in.sigs = append(in.sigs, item)
		default:
			others = true
		}
	}
	return nothingFound(in, others)
}

func (c *signedChecker) parsePairs(in *input, value string) Reason {
	others, timed := false, false
	var item string
	rest, more := value, true
	for more && len(in.sigs) < c.limit() {
		item, rest, more = c.next(rest, c.spec.pairs)
		key, text, ok := strings.Cut(item, c.spec.kv)
		switch {
		case !ok:
			others = others || item != ""
		case key == c.spec.tsKey:
			// Two times would let a sender choose which one is checked and which one is signed.
			if timed {
				return ReasonMalformed
			}
			in.ts, timed = text, true
		case key == c.spec.sigKey:
			in.sigs = append(in.sigs, strings.TrimPrefix(text, c.spec.prefix))
		default:
			others = true
		}
	}
	if c.spec.tsKey != "" && !timed {
		return ReasonMalformed
	}
	return nothingFound(in, others)
}

func nothingFound(in *input, others bool) Reason {
	switch {
	case len(in.sigs) > 0:
		return ""
	case others:
		return ReasonUnsupported
	}
	return ReasonMalformed
}

// parseMethod reads "<method>=<signature>".
func parseMethod(in *input, methods []*algorithm, value string) Reason {
	name, text, ok := strings.Cut(value, "=")
	if !ok {
		return ReasonMalformed
	}
	for _, m := range methods {
		if m.name == name {
			in.alg = m
			in.sigs = append(in.sigs, text)
			return ""
		}
	}
	return ReasonUnsupported
}

// gather takes each header line, or each of the numbered headers, as a signature.
func (c *signedChecker) gather(in *input, set *headerSet) Reason {
	if c.spec.multi {
		for _, line := range in.r.Header[set.sig.name] {
			if line != "" && len(in.sigs) < c.limit() {
				if reason := c.parse(in, line); reason != "" {
					return reason
				}
			}
		}
	} else {
		for i := 1; i <= 100; i++ {
			lines := in.r.Header[set.sig.name+strconv.Itoa(i)]
			if len(lines) > 1 {
				return ReasonRepeated
			}
			if len(lines) == 1 && lines[0] != "" {
				in.sigs = append(in.sigs, lines[0])
			}
		}
	}
	if len(in.sigs) == 0 {
		return ReasonMissing
	}
	return ""
}
