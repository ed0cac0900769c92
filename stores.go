package anvil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/sqlite"
)

// storeModule is what the app needs of a module in the namespace anvil.stores.
type storeModule interface {
	// poolKey names the store, so that two configurations with the same key share one open store.
	poolKey() string
	// kind is the word of the configuration, as in "sqlite".
	kind() string
	// shared stores can be open in several processes at the same time.
	shared() bool
	open(ctx context.Context, log *zap.Logger) (store.Store, error)
	// apply sets the options that are not part of the key on an open store, at each attach of this configuration.
	apply(s store.Store)
}

const defaultMinFree = 256 << 20

// SQLiteStore keeps everything in one file beside Caddy's own data. It needs no service, and one Caddy process at a time.
type SQLiteStore struct {
	// The database file. Its directory is made when it is missing; file and directory are readable for Caddy's user only.
	// Placeholders are replaced when the configuration is loaded.
	// Default: anvil/anvil.db in Caddy's data directory.
	Path string `json:"path,omitempty"`

	// The free disk space in bytes below which new webhooks are refused with 503 store_full, so that deliveries can still be
	// recorded. 0 means no floor. Default: 268435456 (256 MiB).
	MinFree *int64 `json:"min_free,omitempty"`

	path string
}

// CaddyModule returns the Caddy module information.
func (*SQLiteStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "anvil.stores.sqlite", New: func() caddy.Module { return new(SQLiteStore) }}
}

// Provision resolves the path.
func (s *SQLiteStore) Provision(caddy.Context) error {
	path := s.Path
	if path == "" {
		path = filepath.Join(caddy.AppDataDir(), "anvil", "anvil.db")
	}
	path, err := caddy.NewReplacer().ReplaceOrErr(path, true, true)
	if err != nil {
		return fmt.Errorf("resolving store path: %w", err)
	}
	s.path, err = sqlite.Resolve(path)
	return err
}

// Validate checks what can be checked without opening the file: a running Caddy may hold it, and validating beside it must
// work.
func (s *SQLiteStore) Validate() error {
	if s.MinFree != nil && *s.MinFree < 0 {
		return errors.New("min_free must not be negative")
	}
	if info, err := os.Stat(s.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("store path %s is not a file; it names the database file itself", s.path)
	}
	return nil
}

// UnmarshalCaddyfile reads the store option:
//
//	store sqlite [<path>] {
//		min_free <size>
//	}
func (s *SQLiteStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		s.Path = d.Val()
	}
	if d.NextArg() {
		return d.Errf("unexpected argument '%s', the form is: store sqlite [<path>]", d.Val())
	}
	return parseBlock(d, map[string]word{
		"min_free": {form: "min_free <size>", parse: func(d *caddyfile.Dispenser) error {
			arg, err := oneArg(d)
			if err != nil {
				return err
			}
			n, err := humanize.ParseBytes(arg)
			if err != nil || n > 1<<60 {
				return d.Errf("min_free: '%s' is not a size; write for example 256MiB", arg)
			}
			size := int64(n)
			s.MinFree = &size
			return nil
		}},
	})
}

func (*SQLiteStore) kind() string { return "sqlite" }

func (*SQLiteStore) shared() bool { return false }

func (s *SQLiteStore) poolKey() string { return "sqlite:" + s.path }

func (s *SQLiteStore) open(ctx context.Context, log *zap.Logger) (store.Store, error) {
	return sqlite.Open(ctx, sqlite.Options{Path: s.path, MinFree: s.minFree(), Log: log})
}

func (s *SQLiteStore) apply(open store.Store) {
	if db, ok := open.(*sqlite.Store); ok {
		db.SetMinFree(s.minFree())
	}
}

func (s *SQLiteStore) minFree() int64 {
	if s.MinFree == nil {
		return defaultMinFree
	}
	return *s.MinFree
}

var (
	_ storeModule           = (*SQLiteStore)(nil)
	_ caddy.Provisioner     = (*SQLiteStore)(nil)
	_ caddy.Validator       = (*SQLiteStore)(nil)
	_ caddyfile.Unmarshaler = (*SQLiteStore)(nil)
)
