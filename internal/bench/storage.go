package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/store/sqlite"
)

// storage makes stores of one kind. Each figure has a new one, so that none inherits another's backlog.
type storage interface {
	// name is what the report calls the kind.
	name() string
	// fill has all later stores remember n keys.
	fill(ctx context.Context, n int) error
	// next makes a store, removes the one before it, and returns what a Caddyfile says behind `store`.
	next() (directive string, err error)
	// usage is what the store's server has used by now. ok is false for a kind without a server of its own.
	usage() (u usage, ok bool, err error)
	// about is what else the report says of the kind, once it has made a store.
	about() string
	// close removes the last store.
	close()
}

// storages are the kinds to measure. A kind that is asked for by its name must be there.
func storages(which, work string) (kinds []storage, missing string, err error) {
	if which == "sqlite" || which == "all" {
		kinds = append(kinds, &sqliteFiles{work: work})
	}
	if which == "redis" || which == "all" {
		r, err := newRedisServers(work)
		switch {
		case err == nil:
			kinds = append(kinds, r)
		case which == "redis":
			return nil, "", err
		default:
			missing = fmt.Sprintf("There are no figures for Redis: %v.", err)
		}
	}
	if len(kinds) == 0 {
		return nil, "", fmt.Errorf("-store is %q, it can be sqlite, redis or all", which)
	}
	return kinds, missing, nil
}

// sqliteFiles are stores that are files.
type sqliteFiles struct {
	work   string
	made   int
	filled string // store with remembered keys, once there is one
}

func (*sqliteFiles) name() string { return "SQLite" }

func (*sqliteFiles) about() string { return "" }

func (*sqliteFiles) usage() (u usage, ok bool, err error) { return usage{}, false, nil }

func (f *sqliteFiles) fill(ctx context.Context, n int) error {
	f.filled = filepath.Join(f.work, "filled.db")
	s, err := sqlite.Open(ctx, sqlite.Options{Path: f.filled, Log: zap.NewNop()})
	if err != nil {
		return err
	}
	defer s.Close()
	return fillKeys(ctx, s, n, 64)
}

func (f *sqliteFiles) next() (string, error) {
	f.close()
	f.made++
	if err := os.MkdirAll(f.dir(), 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(f.dir(), "anvil.db")
	if f.filled != "" {
		if err := copyFile(f.filled, path); err != nil {
			return "", err
		}
	}
	return "sqlite " + path, nil
}

func (f *sqliteFiles) dir() string { return filepath.Join(f.work, fmt.Sprintf("sqlite-%d", f.made)) }

func (f *sqliteFiles) close() { os.RemoveAll(f.dir()) }
