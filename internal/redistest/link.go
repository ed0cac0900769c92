package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// link is one connection through a Proxy.
type link struct {
	client net.Conn
	server *net.TCPConn // nil until it is dialed

	once   sync.Once
	cut    chan struct{} // closed when the link has ended
	losing chan struct{} // closed when the client gets no more answers
}

// trap waits for one request of any link.
type trap struct {
	match  []byte
	sprung chan struct{}
}

// maxBatch bounds what a link collects before it forwards it.
const maxBatch = 1 << 20

func (l *link) run(p *Proxy) {
	if !l.mayMove(p) {
		return
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return // the client sees the end of its connection
	}
	l.server, _ = conn.(*net.TCPConn)
	lost := make(chan bool, 1)
	var down sync.WaitGroup
	down.Go(func() {
		defer l.end()
		lost <- l.answers(p)
	})
	down.Go(func() {
		<-l.cut
		conn.Close()
	})
	caught := l.requests(p)
	if caught != nil {
		// Redis sees our end only after it has carried out all that came before it, and then ends its side.
		_ = l.server.CloseWrite() // a dead server shows below
		if <-lost {
			l.end()
			close(caught.sprung)
		} else {
			p.rearm(caught)
		}
	}
	l.end()
	down.Wait()
}

func (l *link) end() {
	l.once.Do(func() {
		close(l.cut)
		l.client.Close()
	})
}

// mayMove waits while the proxy is frozen; it is false when the link has ended.
func (l *link) mayMove(p *Proxy) bool {
	select {
	case <-p.gate():
		return true
	case <-l.cut:
		return false
	}
}

// requests forwards what the client sends until the end of the connection, or until a request was caught and forwarded.
func (l *link) requests(p *Proxy) *trap {
	defer l.mayMove(p) // a frozen network hides the end of a connection too
	r := bufio.NewReaderSize(l.client, 64<<10)
	first, err := r.Peek(1)
	if err != nil {
		return nil
	}
	collect := appendCommand
	if first[0] != '*' { // TLS, for example
		collect = appendBuffered
	}
	for {
		var batch []byte
		var caught *trap
		// All that has arrived goes on together, so that a pipeline is not torn apart when its reply is lost.
		for len(batch) == 0 || r.Buffered() > 0 && len(batch) < maxBatch {
			var more []byte
			if more, err = collect(batch, r); err != nil {
				break
			}
			if caught == nil {
				caught = p.spring(more[len(batch):])
			}
			batch = more
		}
		if !l.mayMove(p) {
			return caught
		}
		if caught != nil {
			close(l.losing)
		}
		if _, failed := l.server.Write(batch); failed != nil || err != nil || caught != nil {
			return caught
		}
	}
}

// answers forwards what the server sends and reports, at the end, whether something was withheld.
func (l *link) answers(p *Proxy) (lost bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if wait := p.takes(n); wait > 0 {
			select {
			case <-time.After(wait):
			case <-l.cut:
			}
		}
		if !l.mayMove(p) {
			return lost
		}
		select {
		case <-l.losing:
			lost = lost || n > 0
		default:
			if _, err := l.client.Write(buf[:n]); err != nil {
				return false
			}
		}
		if err != nil {
			return lost
		}
	}
}

// spring disarms and returns the trap when the request is the one it waits for.
func (p *Proxy) spring(request []byte) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trap
	if t == nil || !bytes.Contains(request, t.match) {
		return nil
	}
	p.trap = nil
	return t
}

// rearm puts back a trap whose request was not answered, unless LoseReply was called again.
func (p *Proxy) rearm(t *trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == nil {
		p.trap = t
	}
}

var errNoCommand = errors.New("reading a command: not an array of bulk strings")

// appendCommand appends one whole command as it is on the wire: an array of bulk strings.
func appendCommand(dst []byte, r *bufio.Reader) ([]byte, error) {
	dst, parts, err := appendHead(dst, r, '*')
	if err != nil {
		return nil, err
	}
	for range parts {
		var size int
		if dst, size, err = appendHead(dst, r, '$'); err != nil {
			return nil, err
		}
		from := len(dst)
		dst = append(dst, make([]byte, size+len("\r\n"))...)
		if _, err := io.ReadFull(r, dst[from:]); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// appendHead appends a line such as "*3" and returns its number.
func appendHead(dst []byte, r *bufio.Reader, kind byte) ([]byte, int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, 0, err
	}
	digits, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(digits) < 2 || digits[0] != kind {
		return nil, 0, errNoCommand
	}
	n, err := strconv.Atoi(string(digits[1:]))
	if err != nil || n < 0 || n > 512<<20 {
		return nil, 0, fmt.Errorf("%w: %q", errNoCommand, digits)
	}
	return append(dst, line...), n, nil
}

// appendBuffered appends what has arrived, at least one byte.
func appendBuffered(dst []byte, r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	arrived, err := r.Peek(r.Buffered())
	dst = append(dst, arrived...)
	_, _ = r.Discard(len(arrived)) // of what is buffered, which cannot fail
	return dst, err
}
