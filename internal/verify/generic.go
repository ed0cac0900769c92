package verify

import (
	"cmp"
	"errors"
)

// genericHMAC is a scheme that the user describes by options.
type genericHMAC struct{}

func (genericHMAC) compile(c *compilation) (checker, error) {
	s, err := genericSigned(c.options)
	if err != nil {
		return nil, err
	}
	s.alg = hmacByName(cmp.Or(c.options["algorithm"], hmacSHA256.name))
	s.key = keyFormByName(cmp.Or(c.options["key_encoding"], utf8Key.name))
	if _, given := c.options["prefix"]; !given && s.enc == hexEncoding && s.sigKey == "" {
		s.prefix, s.bare = s.alg.name+"=", true
	}
	return s.compile(c)
}

// genericPublic is the same with a public key.
type genericPublic struct{ alg *algorithm }

func (g genericPublic) compile(c *compilation) (checker, error) {
	s, err := genericSigned(c.options)
	if err != nil {
		return nil, err
	}
	s.alg = g.alg
	return s.compile(c)
}

func (genericHMAC) checkOptions(o Options) error {
	_, err := genericSigned(o)
	return err
}

func (genericPublic) checkOptions(o Options) error {
	_, err := genericSigned(o)
	return err
}

func genericSigned(o Options) (*signed, error) {
	s := &signed{
		sig: cmp.Or(o["signature_header"], "X-Signature"), ts: o["timestamp_header"], id: o["id_header"],
		prefix: o["prefix"], sigKey: o["signature_key"], tsKey: o["timestamp_key"],
		enc: encodingByName(cmp.Or(o["encoding"], hexEncoding.name)), unit: timeUnitByName(cmp.Or(o["timestamp_unit"], seconds.name)),
	}
	separator := o["separator"]
	switch {
	case s.sigKey != "":
		s.pairs = cmp.Or(separator, ",")
	case s.tsKey != "":
		return nil, errors.New("timestamp_key needs signature_key: the header's signatures must have a key too")
	case separator != "":
		s.list = separator
	}
	if s.ts != "" && s.tsKey != "" {
		return nil, errors.New("timestamp_header and timestamp_key say two places for one time")
	}
	message := cmp.Or(o["template"], "{sig.body}")
	t, err := parseTemplate(message, nil)
	if err != nil {
		return nil, err
	}
	// A time or an id that is sent but not signed protects from nothing, and one that is signed must be found.
	switch timed := s.ts != "" || s.tsKey != ""; {
	case t.has(timestampPart) && !timed:
		return nil, errors.New("template holds {sig.timestamp}: say timestamp_header or timestamp_key")
	case timed && !t.has(timestampPart):
		return nil, errors.New("a timestamp is configured that template does not hold; write {sig.timestamp}.{sig.body} or as your sender signs")
	case t.has(idPart) != (s.id != ""):
		return nil, errors.New("id_header and {sig.id} in template belong together")
	case !timed && (o["tolerance"] != "" || o["timestamp_unit"] != ""):
		return nil, errors.New("tolerance and timestamp_unit need timestamp_header or timestamp_key")
	}
	s.message = []string{message}
	return s, nil
}
