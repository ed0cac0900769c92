package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is one Caddy under measurement.
type server struct {
	cmd   *exec.Cmd
	done  chan error
	admin string
	addr  string // of the site
	log   string
}

// secret signs every webhook of the run.
const secret = "a secret that only the bench knows"

// site writes the Caddyfile of a receiver in front of upstream.
func (b *bench) site(body string) string {
	return fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n%s}\n", b.adminAddr, body)
}

func (b *bench) respondSite() string {
	return b.site("") + fmt.Sprintf("http://%s {\n\trespond 202\n}\n", b.siteAddr)
}

func (b *bench) anvilSite(store, workers string, concurrency int) string {
	global := fmt.Sprintf("\tanvil {\n\t\tstore %s\n\t\tworkers %s\n\t\tqueue webhooks {\n\t\t\tconcurrency %d\n\t\t\tmax_pending 10000000\n\t\t}\n\t}\n", store, workers, concurrency)
	return b.site(global) + fmt.Sprintf("http://%s {\n\tanvil bench {\n\t\tverify hmac %q\n\t\tdeliver %s\n\t}\n}\n", b.siteAddr, secret, b.up.addr())
}

// start runs a Caddy with this Caddyfile and returns when its site answers.
func (b *bench) start(ctx context.Context, caddyfile string) (s *server, err error) {
	for range 5 {
		// A process that was just being started may have held copies of sockets that are closed.
		if s, err = b.tryStart(ctx, caddyfile); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return s, err
}

func (b *bench) tryStart(ctx context.Context, caddyfile string) (*server, error) {
	path := filepath.Join(b.work, "Caddyfile")
	if err := os.WriteFile(path, []byte(caddyfile), 0o600); err != nil {
		return nil, err
	}
	s := &server{admin: "http://" + b.adminAddr, addr: b.siteAddr, done: make(chan error, 1), log: filepath.Join(b.work, "caddy.log")}
	out, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	s.cmd = exec.CommandContext(ctx, b.binary, "run", "--config", path, "--adapter", "caddyfile")
	s.cmd.Dir = b.work
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+b.work+"/data", "XDG_CONFIG_HOME="+b.work+"/config")
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.done <- s.cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		text, _ := os.ReadFile(s.log)
		if bytes.Contains(text, []byte("serving initial configuration")) {
			return s, nil
		}
		select {
		case err := <-s.done:
			if text, _ = os.ReadFile(s.log); bytes.Contains(text, []byte(syscall.EADDRINUSE.Error())) {
				err = syscall.EADDRINUSE
			}
			return nil, fmt.Errorf("starting caddy: %w\n%s", err, text)
		case <-deadline:
			_ = s.stop()
			return nil, errors.New("starting caddy: it does not serve after a minute")
		case <-tick.C:
		}
	}
}

func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
		return nil
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		<-s.done
		return errors.New("stopping caddy: it did not end within a minute")
	}
}

// cpu is the processor time that the process has used.
func (s *server) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading processor time (needs Linux): %w", err)
	}
	// The second field is the name in brackets and may hold blanks; utime and stime are the 14th and 15th.
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("reading processor time: %q", text)
	}
	var ticks int64
	for _, v := range f[11:13] {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ is 100 on every Linux that Go supports
	return time.Duration(ticks) * time.Second / perSecond, nil
}

// allocations is how many objects the process has allocated.
func (s *server) allocations() (float64, error) {
	res, err := http.Get(s.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, errors.New("reading allocations: no go_memstats_mallocs_total in /metrics")
}

// work is what the process has done since its start.
type work struct {
	cpu     time.Duration
	mallocs float64 // objects
}

func (s *server) work() (w work, err error) {
	if w.cpu, err = s.cpu(); err != nil {
		return w, err
	}
	w.mallocs, err = s.allocations()
	return w, err
}

// load replaces the configuration.
func (s *server) load(caddyfile string) error {
	res, err := http.Post(s.admin+"/load", "text/caddyfile", strings.NewReader(caddyfile))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("loading a configuration: %d %s", res.StatusCode, text)
	}
	return nil
}

// profiled begins to write what Caddy's processor time goes to, unless path is empty. The function it returns waits for
// the end of that.
func (s *server) profiled(path string) (finish func()) {
	if path == "" {
		return func() {}
	}
	written := make(chan error, 1)
	go func() { written <- s.cpuProfile(path, 5) }()
	return func() {
		if err := <-written; err != nil {
			log.Printf("writing the profile: %v", err)
		}
	}
}

// cpuProfile writes what the server's processor time goes to.
func (s *server) cpuProfile(path string, seconds int) error {
	res, err := http.Get(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", s.admin, seconds))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// nextPort counts up below the range from which systems take ports for outgoing connections, so that none of the load's
// takes it while Caddy is away between two figures.
var nextPort = 18000 + os.Getpid()%20*100

// freeAddr is a loopback address that nobody listens on.
func freeAddr() (string, error) {
	for range 2000 {
		nextPort++
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", nextPort))
		if err == nil {
			defer ln.Close()
			return ln.Addr().String(), nil
		}
	}
	return "", errors.New("choosing a port: none is free on the loopback interface")
}
