package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// child is one run of a server's process.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
	from int64         // where its part of the log begins
}

var errPortTaken = errors.New("its port is taken")

// answerTimeout is how long Client waits for an answer: a busy machine may stand still for seconds.
const answerTimeout = 30 * time.Second

// clientOptions are those of a client that shows what the server says: no retries, and no commands of its own that a count
// of commands would notice.
func clientOptions(addr, password string) *redis.Options {
	return &redis.Options{
		Addr: addr, Password: password, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		DialTimeout: answerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// lookContext is for asking servers of which some may be frozen.
func lookContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

func (s *Server) configPath() string { return filepath.Join(s.dir, "redis.conf") }

func (s *Server) configure(conf string) error {
	if err := os.WriteFile(s.configPath(), []byte(conf), 0o600); err != nil {
		return fmt.Errorf("preparing redis: %w", err)
	}
	return nil
}

func (s *Server) command() *exec.Cmd {
	args := []string{s.configPath(), "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--protected-mode", "no", "--daemonize", "no", "--dir", s.dir}
	if s.binary == serverBinary {
		// By default a master waits 5 s for more replicas before it serves the first.
		args = append(args, "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
	}
	cmd := exec.CommandContext(context.Background(), pathOf(s.binary), append(args, s.args...)...) //nolint:gosec // all of it is the test's
	cmd.Dir = s.dir
	cmd.SysProcAttr = dieWithParent()
	return cmd
}

// StartNoWait starts the process again and does not wait until it answers.
func (s *Server) StartNoWait() {
	if err := s.spawn(); err != nil {
		s.fail("%v", err)
	}
}

// Start starts the process again, with the same port, folder and args, and returns when it answers.
func (s *Server) Start() {
	if err := s.tryStart(); err != nil {
		s.fail("%v", err)
	}
}

func (s *Server) tryStart() error {
	if err := s.spawn(); err != nil {
		return err
	}
	return s.awaitReady()
}

func (s *Server) spawn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil && !s.child.ended() {
		return fmt.Errorf("starting %s: it runs already as process %d", s.binary, s.child.cmd.Process.Pid)
	}
	out, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.binary, err)
	}
	defer out.Close()
	written, err := out.Stat()
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.binary, err)
	}
	c := &child{cmd: s.command(), gone: make(chan struct{}), from: written.Size()}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.binary, err)
	}
	go func() {
		defer close(c.gone)
		_ = c.cmd.Wait() // being killed is no failure here
	}()
	s.child = c
	s.asked.Store(0)
	return nil
}

// awaitReady returns when this very process answers: on a port that was lost to another one, that one would.
func (s *Server) awaitReady() error {
	c := s.current()
	ready := poll(startTimeout, func() bool {
		if c.ended() {
			return true
		}
		// The client would log each refused connection.
		if !listens(s.port) || s.client.Ping(context.Background()).Err() != nil {
			return false
		}
		text, err := s.info("server")
		return err == nil && infoField(text, "process_id") == strconv.Itoa(c.cmd.Process.Pid)
	})
	switch {
	case ready && !c.ended():
		return nil
	case !ready:
		return fmt.Errorf("starting %s: it does not answer after %s:\n%s", s.binary, startTimeout, s.logTail(30))
	}
	text, _ := os.ReadFile(s.logPath())
	if bytes.Contains(text[c.from:], []byte("Address already in use")) {
		return fmt.Errorf("starting %s on port %d: %w", s.binary, s.port, errPortTaken)
	}
	return fmt.Errorf("starting %s: the process ended:\n%s", s.binary, s.logTail(30))
}

func (c *child) ended() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (s *Server) current() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// Pid is the id of the process, of the last one when none runs.
func (s *Server) Pid() int { return s.current().cmd.Process.Pid }

// Running reports whether the process runs; a frozen one does.
func (s *Server) Running() bool {
	c := s.current()
	return c != nil && !c.ended()
}

// Kill ends the process as a crash would and returns when it is gone. A dead server stays dead.
func (s *Server) Kill() {
	if c := s.current(); c != nil {
		_ = c.cmd.Process.Kill() // fails only when it is gone
		<-c.gone
	}
}

// Shutdown ends the process in order, as an operator would: what args say about persistence is done.
func (s *Server) Shutdown() {
	c := s.current()
	_ = thaw(c.cmd.Process) // a frozen process would not see the signal
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.gone:
	case <-time.After(startTimeout):
		s.Kill()
		s.fail("ending redis on port %d: it did not end within %s", s.port, startTimeout)
	}
}

// Freeze stops the process where it is: its connections stay open and nothing answers. New connections are accepted, by
// the kernel.
func (s *Server) Freeze() {
	c := s.current()
	if err := freeze(c.cmd.Process); err != nil {
		s.fail("freezing redis on port %d: %v", s.port, err)
	}
	s.await("the freeze", func() bool { return stopped(c.cmd.Process.Pid) })
}

// Thaw lets a frozen process go on.
func (s *Server) Thaw() {
	if err := thaw(s.current().cmd.Process); err != nil {
		s.fail("thawing redis on port %d: %v", s.port, err)
	}
}

// Close kills the process and closes Client. Servers of a test are closed with it. It may be called twice.
func (s *Server) Close() {
	s.Kill()
	_ = s.client.Close() // says only that it was closed before
}

func (s *Server) logTail(lines int) string {
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
