package redistest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// viaProxy is a client behind the proxy that repeats nothing.
func viaProxy(t *testing.T, p *Proxy) *redis.Client {
	c := redis.NewClient(clientOptions(p.Addr(), ""))
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTheProxyLosesOneReplyOfACommandThatWasCarriedOut(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	c := viaProxy(t, p)
	lost := p.LoseReply("the-one")
	if err := c.Incr(t.Context(), "another").Err(); err != nil {
		t.Fatalf("a command without the match: %v", err)
	}
	if err := c.Incr(t.Context(), "the-one").Err(); !errors.Is(err, io.EOF) {
		t.Errorf("the command with the match: got %v, want EOF", err)
	}
	<-lost
	if got := s.Do("GET", "the-one"); got != "1" {
		t.Errorf("the server has %v, want 1", got)
	}
	if n, err := c.Incr(t.Context(), "the-one").Result(); n != 2 || err != nil {
		t.Errorf("the same command again: %d %v, want 2", n, err)
	}
}

func TestAPipelineWhoseReplyIsLostWasCarriedOutWhole(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	c := viaProxy(t, p)
	lost := p.LoseReply("needle")
	_, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.Incr(t.Context(), "before")
		pipe.Set(t.Context(), "big", strings.Repeat("x", 20000)+"needle", 0)
		pipe.Incr(t.Context(), "after")
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	<-lost
	if n, _ := s.Client().Exists(t.Context(), "before", "big", "after").Result(); n != 3 {
		t.Errorf("%d of the three keys exist", n)
	}
}

func TestAReplyIsNotLostBeforeTheServerGaveIt(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	c := viaProxy(t, p)
	c.Ping(t.Context())
	lost := p.LoseReply("the-one")
	s.Freeze()
	answer := make(chan error, 1)
	go func() { answer <- c.Incr(context.Background(), "the-one").Err() }()
	select {
	case err := <-answer:
		t.Errorf("the client got %v while the server was frozen", err)
	case <-lost:
		t.Error("the reply of a frozen server was lost")
	case <-time.After(200 * time.Millisecond):
	}
	s.Thaw()
	<-lost
	if err := <-answer; !errors.Is(err, io.EOF) {
		t.Errorf("after the thaw: got %v, want EOF", err)
	}
	if got := s.Do("GET", "the-one"); got != "1" {
		t.Errorf("the server has %v, want 1", got)
	}
}

func TestAFrozenProxyHoldsOldAndNewConnections(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	old, fresh := viaProxy(t, p), viaProxy(t, p)
	if err := old.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	answers := make(chan error, 2)
	for _, c := range []*redis.Client{old, fresh} {
		go func() { answers <- c.Ping(context.Background()).Err() }()
	}
	select {
	case err := <-answers:
		t.Fatalf("a frozen proxy let an answer through: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	p.Thaw()
	for range 2 {
		if err := <-answers; err != nil {
			t.Errorf("after the thaw: %v", err)
		}
	}
}

func TestAFrozenProxyHidesThatTheServerDied(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	conn, read := dialRaw(t, p)
	p.Freeze()
	s.Kill()
	select {
	case err := <-read:
		t.Fatalf("the client saw %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	p.Thaw()
	if err := <-read; !errors.Is(err, io.EOF) {
		t.Errorf("after the thaw: got %v on %s, want EOF", err, conn.LocalAddr())
	}
}

// dialRaw opens a connection through the proxy to the server, and reports what ends it.
func dialRaw(t *testing.T, p *Proxy) (net.Conn, <-chan error) {
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	buf := make([]byte, len("+PONG\r\n"))
	io.WriteString(conn, "*1\r\n$4\r\nPING\r\n")
	if _, err := io.ReadFull(conn, buf); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Read(buf)
		ended <- err
	}()
	return conn, ended
}

func TestACutEndsConnectionsAndServesNewOnes(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Start(t).Addr())
	_, ended := dialRaw(t, p)
	p.Cut()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the cut connection ended with %v, want EOF", err)
	}
	dialRaw(t, p)
}

func TestARefusingProxyKeepsItsConnections(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Start(t).Addr())
	c := viaProxy(t, p)
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		conn.Close()
		t.Error("a new connection was accepted")
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the old connection: %v", err)
	}
	p.Allow()
	dialRaw(t, p)
}

func TestBytesThatAreNoCommandsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Start(t).Addr())
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "PING\r\nPING\r\n")
	buf := make([]byte, len("+PONG\r\n+PONG\r\n"))
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "+PONG\r\n+PONG\r\n" {
		t.Errorf("got %q %v", buf, err)
	}
}
