package verify

import "time"

// Patient makes fetching wait for a slow machine.
func (f *HTTPFetcher) Patient() { f.client.Timeout = time.Minute }
