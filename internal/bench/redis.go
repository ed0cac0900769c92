package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// redisServers are stores that are a Redis each, on the cores and the disk that everything else is on.
type redisServers struct {
	work   string
	made   int
	filled string // folder of a Redis with remembered keys, once there is one
	server *redistest.Server
	tells  string
}

const redisPrefix = "bench"

func newRedisServers(work string) (*redisServers, error) {
	// As redistest does, but without its Sentinel.
	server := cmp.Or(os.Getenv("ANVIL_REDIS_SERVER"), "redis-server")
	if _, err := exec.LookPath(server); err != nil {
		return nil, fmt.Errorf("finding %s: %w; `make redis` installs Redis", server, err)
	}
	return &redisServers{work: work}, nil
}

func (*redisServers) name() string { return "Redis" }

func (r *redisServers) about() string { return r.tells }

// fill leaves the keys in a folder of their own. A Redis that starts on a copy of it reads them from its disk.
func (r *redisServers) fill(ctx context.Context, n int) error {
	if err := r.start("redis-filled"); err != nil { //nolint:contextcheck // it waits half a minute at most
		return err
	}
	// Filling writes many times what is left in the end, so Redis need not compact its log while it grows.
	if err := r.server.Client().ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err(); err != nil {
		return err
	}
	s, err := redis.Open(ctx, redis.Options{Addr: r.server.Addr(), Prefix: redisPrefix, AcceptTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := fillKeys(ctx, s, n, 1); err != nil { // pruners beside each other would find the same jobs
		return err
	}
	if err := r.compact(ctx); err != nil {
		return err
	}
	r.server.Shutdown()
	r.server.Close()
	r.filled, r.server = r.server.Dir(), nil
	return nil
}

// compact has Redis write its log anew.
func (r *redisServers) compact(ctx context.Context) error {
	if err := r.server.Client().BgRewriteAOF(ctx).Err(); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	info := func(field string) string { return r.server.Info("persistence", field) } //nolint:contextcheck // it waits 5 s at most
	for info("aof_rewrite_in_progress") != "0" {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if got := info("aof_last_bgrewrite_status"); got != "ok" {
		return fmt.Errorf("rewriting the log of Redis: its status is %q", got)
	}
	return nil
}

func (r *redisServers) next() (string, error) {
	r.close()
	r.made++
	if err := r.start(fmt.Sprintf("redis-%d", r.made)); err != nil {
		return "", err
	}
	return fmt.Sprintf("redis redis://%s {\n\t\t\tprefix %s\n\t\t}", r.server.Addr(), redisPrefix), nil
}

// start runs a Redis as the documentation advises and as Debian would, apart from its place.
func (r *redisServers) start(folder string) error {
	r.close()
	dir := filepath.Join(r.work, folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if r.filled != "" {
		if err := os.CopyFS(dir, os.DirFS(r.filled)); err != nil {
			return err
		}
	}
	var err error
	if r.server, err = redistest.Run(dir, "--appendonly", "yes", "--appendfsync", "everysec"); err != nil {
		return err
	}
	if r.tells == "" {
		r.tells = fmt.Sprintf("%s on the same cores, appendonly %s, appendfsync %s.", r.software(), r.setting("appendonly"), r.setting("appendfsync"))
	}
	return nil
}

// software is which server it is. A Valkey gives the version of the Redis that it can stand in for as redis_version.
func (r *redisServers) software() string {
	if version := r.server.Info("server", "valkey_version"); version != "" {
		return "Valkey " + version
	}
	return "Redis " + r.server.Info("server", "redis_version")
}

// setting asks the server, since what it does counts and not what it was told.
func (r *redisServers) setting(name string) string {
	values, err := r.server.Client().ConfigGet(context.Background(), name).Result()
	if err != nil {
		return "unknown"
	}
	return values[name]
}

func (r *redisServers) close() {
	if r.server != nil {
		r.server.Close()
		os.RemoveAll(r.server.Dir())
		r.server = nil
	}
}

func (r *redisServers) usage() (u usage, ok bool, err error) {
	u.calls = map[string]int64{}
	text, err := r.server.Client().Info(context.Background(), "commandstats").Result()
	if err != nil {
		return u, false, err
	}
	for line := range strings.Lines(text) {
		// cmdstat_evalsha:calls=81000,usec=4130022,usec_per_call=50.99,rejected_calls=0,failed_calls=0
		name, values, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		var calls, micros int64
		if _, err := fmt.Sscanf(values, "%d,usec=%d", &calls, &micros); err != nil {
			return u, false, fmt.Errorf("reading commandstats: %q: %w", line, err)
		}
		u.calls[name] = calls
		if name == "evalsha" || name == "eval" {
			u.scripts += time.Duration(micros) * time.Microsecond
		}
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(r.server.Info("cpu", field), 64)
		if err != nil {
			return u, false, fmt.Errorf("reading processor time of Redis: %w", err)
		}
		u.cpu += time.Duration(seconds * float64(time.Second))
	}
	u.memory, err = strconv.ParseInt(r.server.Info("memory", "used_memory"), 10, 64)
	return u, true, err
}
