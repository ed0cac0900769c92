package verify

// dropboxSignScheme signs the time and the type of the event in the field json of a form.
type dropboxSignScheme struct{}

var dropboxSignSigned = &signed{sig: "/event/event_hash", message: []string{"{sig.json./event/event_time}{sig.json./event/event_type}"}}

func (dropboxSignScheme) compile(c *compilation) (checker, error) {
	inner, err := dropboxSignSigned.compile(c)
	return &dropboxSignChecker{reshaped{inner, dropboxSignJSON}}, err
}

func (dropboxSignScheme) describe(p *Provider) { p.SignatureIn = "form:json " + dropboxSignSigned.sig }

func dropboxSignJSON(r *Request) *Request {
	var values []string
	if pairs, ok := multipartPairs(r); ok {
		for _, p := range pairs {
			if p.key == "json" {
				values = append(values, p.value)
			}
		}
	} else {
		values = formValues(r.Body, "json")
	}
	other := *r
	other.Body = nil
	// Of two such fields we could not know which one the application reads.
	if len(values) == 1 {
		other.Body = []byte(values[0])
	}
	return &other
}
