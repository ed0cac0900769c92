package verify

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
	"time"
)

// A header may hold several signatures while secrets rotate. Those beyond these numbers are not looked at: a check must
// cost a bounded time whatever is sent.
const (
	maxSignatures       = 256
	maxPublicSignatures = 16
	maxGroups           = 4
)

// signedChecker checks one provider's signed requests.
type signedChecker struct {
	spec      signed
	sets      []headerSet
	templates []template
	fixed     []field
	public    *publicKeys
	account   string
	secrets   int
	secretAt  func(i int) string
	keyAt     func(i int) []byte
	states    sync.Pool
}

// state is what one verification works on. It is pooled: keying an HMAC costs two blocks of hashing and seven
// allocations, resetting a keyed one costs neither.
type state struct {
	in    input
	req   Request // a copy, with doc
	doc   lazyDocument
	keyed map[*algorithm][]hash.Hash // one for each secret
	given []byte                     // the digests that the request claims, one after the other
	good  []bool                     // which of them are well-formed
	sum   [maxDigest]byte
	won   [maxDigest]byte
	hash  hashSink
	msg   bufferSink
}

type hashSink struct {
	h       hash.Hash
	scratch []byte
}

func (s *hashSink) bytes(b []byte) { s.h.Write(b) }

// text copies, because a string given to an interface's method would be copied to the heap.
func (s *hashSink) text(t string) {
	s.scratch = append(s.scratch[:0], t...)
	s.h.Write(s.scratch)
}

type bufferSink struct{ b []byte }

func (s *bufferSink) bytes(b []byte) { s.b = append(s.b, b...) }
func (s *bufferSink) text(t string)  { s.b = append(s.b, t...) }

// maxKept is the largest message buffer that the pool keeps.
const maxKept = 64 << 10

func (c *signedChecker) state() *state {
	if st, ok := c.states.Get().(*state); ok {
		return st
	}
	return new(state)
}

func (c *signedChecker) free(st *state) {
	sigs := st.in.sigs[:0]
	clear(sigs[:cap(sigs)])
	st.in, st.req, st.doc, st.hash.h = input{sigs: sigs}, Request{}, lazyDocument{}, nil
	if cap(st.msg.b) > maxKept {
		st.msg.b = nil
	}
	c.states.Put(st)
}

// adopt returns a copy of the request whose body is judged as JSON once only.
func (st *state) adopt(r *Request) *Request {
	st.req, st.doc = *r, lazyDocument{}
	st.req.json = &st.doc
	return &st.req
}

// check implements checker.
func (c *signedChecker) check(ctx context.Context, r *Request, now time.Time) Verdict {
	st := c.state()
	defer c.free(st)
	r = st.adopt(r)
	st.in.r = r
	if reason := c.checkFixed(r); reason != "" {
		return Verdict{Reason: reason}
	}
	set := c.setOf(r)
	if c.spec.multi || c.spec.numbered {
		if reason := c.gather(&st.in, set); reason != "" {
			return Verdict{Reason: reason}
		}
		return c.checkFound(ctx, st, set, now)
	}
	value, reason := set.sig.get(r)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	verdict := Verdict{Reason: ReasonMalformed}
	for n := range maxGroups {
		group, more := c.groupAt(value, n)
		st.in = input{r: r, sigs: st.in.sigs[:0]}
		if reason := c.parse(&st.in, group); reason != "" {
			verdict = Verdict{Reason: reason}
		} else {
			verdict = c.checkFound(ctx, st, set, now)
		}
		if verdict.OK {
			verdict.group = n
		}
		if verdict.OK || !more {
			break
		}
	}
	return verdict
}

// groupAt returns the group with a number, and whether there are more.
func (c *signedChecker) groupAt(value string, n int) (group string, more bool) {
	if c.spec.groups == "" {
		return value, false
	}
	for range n {
		_, value, _ = strings.Cut(value, c.spec.groups)
	}
	group, _, more = strings.Cut(value, c.spec.groups)
	return group, more
}

// checkFound goes on when the signatures have been found.
func (c *signedChecker) checkFound(ctx context.Context, st *state, set *headerSet, now time.Time) Verdict {
	if reason := c.complete(&st.in, set, now, true); reason != "" {
		return Verdict{Reason: reason}
	}
	if c.public != nil {
		verdict := c.proveByPublicKey(ctx, st)
		if verdict.OK && c.account != "" && st.in.r.Header.Get(c.spec.account) != c.account {
			return Verdict{Reason: ReasonWrongClaim}
		}
		return verdict
	}
	return c.proveBySecret(st)
}

func (c *signedChecker) checkFixed(r *Request) Reason {
	for i := range c.fixed {
		value, reason := c.fixed[i].get(r)
		switch {
		case reason == ReasonMissing && !c.spec.fixed[i].required:
		case reason != "":
			return reason
		case value != c.spec.fixed[i].value:
			return ReasonUnsupported
		}
	}
	return ""
}

// setOf returns the first set whose headers are all there, even if empty: what is there decides alone, or a sender could
// choose the set that suits him. Without one it is the first, for the reason of the refusal.
func (c *signedChecker) setOf(r *Request) *headerSet {
	for i := range c.sets {
		s := &c.sets[i]
		if s.sig.present(r) && (s.ts.kind != headerField || s.ts.present(r)) && (s.id.kind != headerField || s.id.present(r)) {
			return s
		}
	}
	return &c.sets[0]
}

// complete reads the time and the id and checks them, unless the time is only wanted for a hint.
func (c *signedChecker) complete(in *input, set *headerSet, now time.Time, strict bool) Reason {
	in.url = in.r.URL
	if set.ts.kind != noField {
		var reason Reason
		if in.ts, reason = set.ts.get(in.r); reason != "" {
			return reason
		}
	}
	if set.id.kind != noField {
		var reason Reason
		if in.id, reason = set.id.get(in.r); reason != "" {
			return reason
		}
	}
	if c.spec.timed() {
		t, ok := c.spec.unit.parse(in.ts)
		if !ok {
			return ReasonBadTimestamp
		}
		if reason := c.spec.window.check(t, now); reason != "" && strict {
			return reason
		}
	}
	if c.spec.prepare != nil {
		return c.spec.prepare(in)
	}
	return ""
}

// variants calls f with each message that may be the signed one, until f returns false.
func (c *signedChecker) variants(in *input, f func(n int, t template) bool) {
	urls := []string{in.url}
	if c.spec.urls != nil {
		urls = c.spec.urls(in.url)
	}
	n := 0
	for _, u := range urls {
		in.url = u
		for _, t := range c.templates {
			if !f(n, t) {
				return
			}
			n++
		}
	}
}

// proveBySecret tries all secrets on all messages, even after a match or when no signature is well-formed: the time taken
// tells a forger neither which secret came close nor how far its signature was understood.
func (c *signedChecker) proveBySecret(st *state) Verdict {
	alg := c.spec.alg
	if st.in.alg != nil {
		alg = st.in.alg
	}
	wellFormed := c.decode(st, alg)
	match, variant, complete := -1, 0, false
	c.variants(&st.in, func(n int, t template) bool {
		// Backwards, so that the first match stands.
		for i := c.secrets - 1; i >= 0; i-- {
			digest, ok := c.digest(st, alg, i, t)
			if !ok {
				break
			}
			complete = true
			for k, good := range st.good {
				same := subtle.ConstantTimeCompare(digest, st.given[k*alg.size:(k+1)*alg.size])
				if !good {
					same = 0
				}
				match = subtle.ConstantTimeSelect(same, i, match)
				variant = subtle.ConstantTimeSelect(same, n, variant)
				subtle.ConstantTimeCopy(same, st.won[:alg.size], digest)
			}
		}
		return true
	})
	switch {
	case !complete:
		return Verdict{Reason: ReasonMissing}
	case !wellFormed:
		return Verdict{Reason: ReasonMalformed}
	case match < 0:
		return Verdict{Reason: ReasonNoMatch}
	}
	return Verdict{OK: true, Signature: canonical(alg, st.won[:alg.size]), Secret: match, variant: variant}
}

// digest computes the signature that the secret would give. It is false when the request lacks a part of the message.
func (c *signedChecker) digest(st *state, alg *algorithm, secret int, t template) ([]byte, bool) {
	macs := st.keyed[alg]
	if macs == nil {
		if st.keyed == nil {
			st.keyed = map[*algorithm][]hash.Hash{}
		}
		macs = make([]hash.Hash, c.secrets)
		for i := range macs {
			macs[i] = alg.keyed(c.keyAt(i))
		}
		st.keyed[alg] = macs
	}
	st.hash.h = macs[secret]
	st.hash.h.Reset()
	text := ""
	if alg.plain {
		text = c.secretAt(secret)
	}
	if !t.write(&st.in, text, &st.hash) {
		return nil, false
	}
	return st.hash.h.Sum(st.sum[:0]), true
}

// decode reads the signatures into st.given, each of which has a digest's length even when it is malformed.
func (c *signedChecker) decode(st *state, alg *algorithm) (wellFormed bool) {
	st.given, st.good = st.given[:0], st.good[:0]
	for _, text := range st.in.sigs {
		start := len(st.given)
		// The bound keeps a huge text from being decoded; no encoding is longer than twice a digest's hex.
		ok := len(text) <= 4*alg.size+8
		if ok {
			var given []byte
			given, ok = c.spec.enc.decode(st.given, text)
			if ok = ok && len(given) == start+alg.size; ok {
				st.given = given
			}
		}
		if !ok {
			st.given = append(st.given[:start], make([]byte, alg.size)...)
		}
		st.good = append(st.good, ok)
		wellFormed = wellFormed || ok
	}
	return wellFormed
}

func canonical(alg *algorithm, digest []byte) string {
	var room [2*maxDigest + 32]byte
	text := append(room[:0], alg.name...)
	text = append(text, '=')
	return string(hex.AppendEncode(text, digest))
}
