package redistest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy in front of a Redis that does on demand what networks do: stop without a word, cut, refuse, and
// lose the one reply that matters. LoseReply needs plain text; the rest works with TLS too.
type Proxy struct {
	target string
	addr   string
	t      testing.TB
	links  sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener  // nil while new connections are refused
	accepts  chan struct{} // closed when the listener's loop has ended
	open     map[*link]struct{}
	moving   chan struct{} // closed while bytes may move
	closed   bool
	trap     *trap // armed by LoseReply
	rate     int   // bytes of answers a second; 0 is as fast as they come
}

// NewProxy starts a proxy on a free loopback port that forwards to the address target and ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: target, t: t, open: map[*link]struct{}{}, moving: make(chan struct{})}
	close(p.moving)
	for attempt := 1; p.listener == nil; attempt++ {
		port, err := freePort(false)
		if err != nil {
			t.Fatal(err)
		}
		p.addr = loopback(port)
		if err := p.listen(); err != nil && attempt == 5 {
			t.Fatalf("starting a proxy: %v", err)
		}
	}
	t.Cleanup(p.close)
	return p
}

// Addr is the host and port for clients.
func (p *Proxy) Addr() string { return p.addr }

// Freeze stops the bytes in both directions. Connections stay open and see no end; new ones are accepted and hang.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.moving:
		p.moving = make(chan struct{})
	default: // frozen already
	}
}

// Thaw lets the bytes move again, those first that were held.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.moving:
	default:
		close(p.moving)
	}
}

// Cut closes all connections that are open now, on both sides. New ones are served.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.end()
	}
}

// Refuse has new connections refused; those that are open stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	ln, accepts := p.listener, p.accepts
	p.listener = nil
	p.mu.Unlock()
	if ln != nil {
		ln.Close()
		<-accepts
	}
}

// Allow ends Refuse.
func (p *Proxy) Allow() {
	if err := p.listen(); err != nil {
		p.t.Fatalf("accepting connections again: %v", err)
	}
}

// LoseReply waits for the next request that contains match, and loses its answer: the server gets the request and carries
// it out, and then the client's connection is closed instead of answered. What else was in flight on that connection is
// lost with it. The channel is closed when it has happened. A command that blocks in Redis does not qualify: Redis drops
// it when the other side is gone. A second call replaces a first one that still waits.
func (p *Proxy) LoseReply(match string) <-chan struct{} {
	t := &trap{match: []byte(match), sprung: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
	return t.sprung
}

// Slow makes answers take their time: so many bytes a second on each connection, 0 for no limit.
func (p *Proxy) Slow(rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// takes is how long the way of n bytes lasts.
func (p *Proxy) takes(n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(p.rate)
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return nil
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.addr)
	if err != nil {
		return err
	}
	accepts := make(chan struct{})
	p.listener, p.accepts = ln, accepts
	go func() {
		defer close(accepts)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.serve(conn)
		}
	}()
	return nil
}

func (p *Proxy) serve(client net.Conn) {
	l := &link{client: client, cut: make(chan struct{}), losing: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		client.Close()
		return
	}
	p.open[l] = struct{}{}
	p.links.Go(func() {
		defer p.forget(l)
		l.run(p)
	})
}

func (p *Proxy) forget(l *link) {
	l.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
}

// gate is closed when bytes may move.
func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.moving
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.Cut()
	p.links.Wait()
}
