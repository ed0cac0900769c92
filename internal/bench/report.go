package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

type acceptFigure struct {
	name      string
	conns     int
	perSecond float64
	p50, p99  time.Duration
	cpu       time.Duration // of the server process, a request
	allocs    float64       // objects a request
}

func (f acceptFigure) named(name string, conns int) acceptFigure {
	f.name, f.conns = name, conns
	return f
}

type latencyFigure struct {
	name     string
	p50, p99 time.Duration
}

type drainFigure struct {
	name        string
	concurrency int
	perSecond   float64
}

type report struct {
	machine  string
	about    []string        // further lines on what was measured
	ceiling  map[int]float64 // accepted/s of respond by connections
	accepts  []acceptFigure
	endToEnd []latencyFigure
	drains   []drainFigure
	usage    []usageFigure
	memory   []string
}

func newReport(binary, dir string) *report {
	return &report{machine: machine(binary, dir), ceiling: map[int]float64{}}
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", r.machine)
	for _, line := range r.about {
		fmt.Fprintln(w, line)
	}
	fmt.Fprint(w, "\nAccepting unique signed 1 KiB webhooks over kept connections, load generator on the same cores:\n\n")
	fmt.Fprintln(w, "| | connections | accepted/s | p50 | p99 | CPU/request | allocations/request | of `respond` |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, f := range r.accepts {
		fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %d µs | %.0f | %.2f |\n", f.name, f.conns, thousands(int(f.perSecond)),
			millis(f.p50), millis(f.p99), f.cpu.Microseconds(), f.allocs, f.perSecond/r.ceiling[f.conns])
	}
	fmt.Fprint(w, "\nFrom the begin of the request to its arrival at the upstream, 200 events/s:\n\n| | p50 | p99 |\n|---|---:|---:|\n")
	for _, f := range r.endToEnd {
		fmt.Fprintf(w, "| %s | %s | %s |\n", f.name, millis(f.p50), millis(f.p99))
	}
	fmt.Fprint(w, "\nDraining a backlog to an upstream that answers at once:\n\n| | concurrency | jobs/s |\n|---|---:|---:|\n")
	for _, f := range r.drains {
		fmt.Fprintf(w, "| %s | %d | %s |\n", f.name, f.concurrency, thousands(int(f.perSecond)))
	}
	if len(r.usage) == 0 {
		return
	}
	fmt.Fprint(w, "\nWhat each costs Redis. commandstats counts commands of clients and of scripts alike; Caddy sends `evalsha` and, for payloads of "+
		"jobs, `get`, scripts call the others:\n\n| | commands sent | called by scripts | time in scripts | CPU of Redis |\n|---|---:|---:|---:|---:|\n")
	for _, f := range r.usage {
		fmt.Fprintf(w, "| %s | %.2f | %.1f | %.0f µs | %.0f µs |\n", f.name, f.sent, f.called, f.scripts, f.cpu)
	}
	fmt.Fprintln(w)
	for _, line := range r.memory {
		fmt.Fprintln(w, line)
	}
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// machine says where the figures were taken.
func machine(binary, dir string) string {
	cpu := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.Trim(name, "\t :")
				break
			}
		}
	}
	fs := "unknown filesystem"
	if text, err := exec.Command("stat", "-f", "-c", "%T", dir).Output(); err == nil {
		fs = strings.TrimSpace(string(text))
	}
	caddy := "unknown"
	if text, err := exec.Command(binary, "version").Output(); err == nil {
		caddy, _, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	}
	return fmt.Sprintf("%d cores, %s, %s, %s/%s, %s, Caddy %s", runtime.NumCPU(), cpu, fs, runtime.GOOS, runtime.GOARCH, runtime.Version(), caddy)
}
