package anvil

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

const (
	redisPort          = "6379"
	sentinelPort       = "26379"
	defaultRedisPrefix = "anvil"
	mostConnections    = 10_000
)

// RedisStore keeps everything in Redis 6.2 or newer (or Valkey), which several Caddys may share: one server, one that
// Sentinel watches over, or a Cluster. Exactly one of `url`, `sentinels` and `cluster` says which.
//
// Placeholders such as `{env.NAME}` and `{file./path}` in names, secrets and addresses are replaced when the configuration
// is loaded, and so stay out of the stored configuration.
type RedisStore struct {
	// One server: `redis://[[<user>]:<password>@]<host>[:<port>][/<db>]`, the same with `rediss` for TLS, or
	// `unix://[[<user>]:<password>@]/<path>` for a unix socket. A user or password that is written out is percent-decoded.
	// Placeholders are replaced in each part by itself and taken as they are, so that no character in a password can change
	// the host. One placeholder may also stand for the whole URL. Default port: 6379.
	URL string `json:"url,omitempty"`

	// The name by which Sentinel knows the server to use. Required with `sentinels`.
	SentinelMaster string `json:"sentinel_master,omitempty"`

	// The Sentinels, each `host[:port]`. Default port: 26379.
	Sentinels []string `json:"sentinels,omitempty"`

	// The user to log in to the Sentinels as. Needs `sentinel_password`. Default: Redis' user `default`.
	SentinelUsername string `json:"sentinel_username,omitempty"`

	// The Sentinels' password, which may differ from the servers'. Default: no login.
	SentinelPassword string `json:"sentinel_password,omitempty"`

	// Nodes of a Cluster, each `host[:port]`; the others are learnt from them. Default port: 6379.
	Cluster []string `json:"cluster,omitempty"`

	// What all keys begin with: 1 to 64 letters, digits and `_.:-`. Caddys with the same prefix share their jobs; those
	// with different ones can use the same Redis and know nothing of each other. Default: anvil.
	Prefix string `json:"prefix,omitempty"`

	// The number of the database, where the URL does not give it. A Cluster has only 0. Default: 0.
	DB *int `json:"db,omitempty"`

	// The user to log in as, where the URL does not give it. Needs a password. Default: Redis' user `default`.
	Username string `json:"username,omitempty"`

	// The password, where the URL does not give it. Default: no login.
	Password string `json:"password,omitempty"`

	// Encrypts the connections, those to Sentinels included. With an empty object the system's certificate authorities are
	// trusted. Default: no TLS, unless the URL begins with `rediss`.
	TLS *RedisTLS `json:"tls,omitempty"`

	// How many connections may be open to each server, at most 10000. Default: 10 for each CPU, 5 in a Cluster.
	PoolSize int `json:"pool_size,omitempty"`

	// How many idle connections are kept for bursts, at most `pool_size`. Default: 0.
	MinIdle int `json:"min_idle,omitempty"`

	// How long to wait for a connection when all are in use, at most 1h. Default: `accept_timeout` and 1s.
	PoolTimeout caddy.Duration `json:"pool_timeout,omitempty"`

	// After how long an idle connection is closed. Keep it below the time-out of Redis, if that has one. Default: 30m.
	MaxIdleTime caddy.Duration `json:"max_idle_time,omitempty"`

	// How long opening a connection may take, at most 1h. Default: 5s.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`

	// How long storing a webhook may take, at most 10s; then its sender gets 503 and may send it again. Default: 2s.
	AcceptTimeout caddy.Duration `json:"accept_timeout,omitempty"`

	// How many replicas must have a webhook before its sender is told that it was accepted. When they have it not in time
	// the sender gets 503. Default: 0, none.
	Replicas int `json:"replicas,omitempty"`

	// A pointer, so that printing the module does not print the secrets in it.
	options *redis.Options
	key     string
}

// RedisTLS says how connections to Redis are encrypted. Files are read when the configuration is loaded.
type RedisTLS struct {
	// Which certificate authorities are trusted. Default: the system's.
	CARaw json.RawMessage `json:"ca,omitempty" caddy:"namespace=tls.ca_pool.source inline_key=provider"`

	// The PEM file of the certificate to present, and of those between it and its authority. Default: none.
	ClientCertificateFile string `json:"client_certificate_file,omitempty"`

	// The PEM file of that certificate's key. Required with it.
	ClientCertificateKeyFile string `json:"client_certificate_key_file,omitempty"`

	// Accepts any certificate, which lets an attacker in between read and change everything. For tests only. Default: false.
	InsecureSkipVerify bool `json:"insecure_skip_verify,omitempty"`

	// The name that the server's certificate must have. Default: the host of the address.
	ServerName string `json:"server_name,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*RedisStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "anvil.stores.redis", New: func() caddy.Module { return new(RedisStore) }}
}

// Provision checks the configuration and resolves placeholders. It connects to nothing.
func (s *RedisStore) Provision(ctx caddy.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.warn(ctx.Logger())
	return nil
}

// prepare makes the options and the key.
func (s *RedisStore) prepare(ctx caddy.Context) error {
	if err := s.validate(); err != nil {
		return err
	}
	o, encrypted, err := s.resolve()
	if err != nil {
		return err
	}
	// Whatever makes a difference must be part of the key, so that a reload opens a new store; many may share a Redis. The
	// pointers in the options are not set yet.
	identity := sha256.New()
	fmt.Fprintf(identity, "%#v", o)
	if encrypted {
		t := RedisTLS{}
		if s.TLS != nil {
			t = *s.TLS
		}
		fmt.Fprintf(identity, "%#v", t)
		var certificates [][]byte
		if o.TLS, certificates, err = t.config(ctx); err != nil {
			return fmt.Errorf("setting up tls: %w", err)
		}
		fmt.Fprintf(identity, "%x", certificates)
	}
	s.key = "redis:" + hex.EncodeToString(identity.Sum(nil))
	s.options = &o
	return nil
}

// resolve makes the store's options and tells whether connections are encrypted.
func (s *RedisStore) resolve() (o redis.Options, encrypted bool, err error) {
	o = redis.Options{
		Prefix: cmp.Or(s.Prefix, defaultRedisPrefix), PoolSize: s.PoolSize, MinIdle: s.MinIdle,
		PoolTimeout: time.Duration(s.PoolTimeout), MaxIdleTime: time.Duration(s.MaxIdleTime), DialTimeout: time.Duration(s.DialTimeout),
		AcceptTimeout: orDefault(s.AcceptTimeout, redis.DefaultAcceptTimeout), Replicas: s.Replicas,
	}
	if s.DB != nil {
		o.DB = *s.DB
	}
	encrypted = s.TLS != nil
	if s.URL != "" {
		u, err := s.openURL()
		if err != nil {
			return o, false, err
		}
		e, err := u.resolve(func(placeholder string) (string, error) { return replaced("url", placeholder) })
		if err != nil {
			return o, false, err
		}
		o.Addr, o.Username, o.Password = e.address, e.user, e.password
		if u.db != "" {
			o.DB = e.db
		}
		encrypted = encrypted || u.tls
	}
	for _, text := range []struct {
		word, raw string
		to        *string
	}{
		{"username", s.Username, &o.Username},
		{"password", s.Password, &o.Password},
		{"sentinel", s.SentinelMaster, &o.Master},
		{"sentinel_username", s.SentinelUsername, &o.SentinelUsername},
		{"sentinel_password", s.SentinelPassword, &o.SentinelPassword},
	} {
		if text.raw == "" {
			continue
		}
		if *text.to, err = replaced(text.word, text.raw); err != nil {
			return o, false, err
		}
	}
	if o.Sentinels, err = redisAddresses("sentinel", s.Sentinels, sentinelPort); err != nil {
		return o, false, err
	}
	o.Cluster, err = redisAddresses("cluster", s.Cluster, redisPort)
	return o, encrypted, err
}

// openURL splits the URL, or that which its only placeholder stands for. That is all of one text from one place, so its
// borders are where that place has put them.
func (s *RedisStore) openURL() (redisURL, error) {
	if !isPlaceholder(s.URL) {
		return splitRedisURL(s.URL)
	}
	text, err := replaced("url", s.URL)
	if err != nil {
		return redisURL{}, err
	}
	if strings.ContainsAny(text, "{}") {
		return redisURL{}, errors.New("url: the value of the placeholder holds a brace" + escapeHint)
	}
	u, err := splitRedisURL(text)
	if err != nil {
		return u, err
	}
	return u, s.validateURL(&u)
}

// redisAddresses replaces placeholders and adds ports. Errors count rather than show: a whole URL may have been written.
func redisAddresses(word string, raw []string, port string) ([]string, error) {
	var all []string
	for i, text := range raw {
		text, err := replaced(fmt.Sprintf("%s address %d", word, i+1), text)
		if err != nil {
			return nil, err
		}
		address, err := redisAddress(text, port)
		if err != nil {
			return nil, fmt.Errorf("%s address %d %w", word, i+1, err)
		}
		all = append(all, address)
	}
	return all, nil
}

// replaced replaces the placeholders of a setting. Errors never show it: an unknown placeholder may be a secret with
// braces.
func replaced(word, raw string) (string, error) {
	text, err := caddy.NewReplacer().ReplaceOrErr(raw, true, true)
	if err != nil || text == "" {
		return "", fmt.Errorf("%s%s is empty, or holds an unknown placeholder; is its variable or file set?", word, nameOfPlaceholder(raw))
	}
	return text, nil
}

// config also returns the certificates that it has read, because a renewed file must make a difference at a reload.
func (t RedisTLS) config(ctx caddy.Context) (cfg *tls.Config, certificates [][]byte, err error) {
	cfg = &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // asked for by name
	}
	if t.ClientCertificateFile != "" {
		pair, err := tls.LoadX509KeyPair(t.ClientCertificateFile, t.ClientCertificateKeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("loading client certificate: %w", err)
		}
		cfg.Certificates, certificates = []tls.Certificate{pair}, pair.Certificate
	}
	if t.CARaw == nil {
		return cfg, certificates, nil
	}
	module, err := ctx.LoadModule(&t, "CARaw")
	if err != nil {
		return nil, nil, fmt.Errorf("loading trust pool: %w", err)
	}
	pool, ok := module.(caddytls.CA)
	if !ok {
		return nil, nil, fmt.Errorf("module %T is not a pool of certificate authorities", module)
	}
	cfg.RootCAs = pool.CertPool()
	if known, ok := module.(caddytls.CertificateProvider); ok {
		for _, c := range known.Certificates() {
			certificates = append(certificates, c.Raw)
		}
	}
	return cfg, certificates, nil
}

// warn says what is risky about the configuration.
func (s *RedisStore) warn(log *zap.Logger) {
	u, _ := splitRedisURL(s.URL)
	for _, secret := range []struct{ word, text string }{
		{"url", u.password}, {"password", s.Password}, {"sentinel_password", s.SentinelPassword},
	} {
		if written(secret.text) {
			log.Warn("a secret is written out in the configuration, where Caddy stores and shows it; use {env.NAME} or {file./path} instead",
				zap.String("word", secret.word))
		}
	}
}

// written reports whether any part of a secret is written out beside its placeholders.
func written(secret string) bool {
	for secret != "" {
		before, rest, ok := strings.Cut(secret, "{")
		if before != "" || !ok {
			return true
		}
		if _, secret, ok = strings.Cut(rest, "}"); !ok {
			return true
		}
	}
	return false
}

func (*RedisStore) kind() string { return "redis" }

func (*RedisStore) shared() bool { return true }

func (s *RedisStore) poolKey() string { return s.key }

func (s *RedisStore) open(ctx context.Context, log *zap.Logger) (store.Store, error) {
	o := *s.options
	o.Log = log
	return redis.Open(ctx, o)
}

// apply has nothing to do: every option is part of the key.
func (*RedisStore) apply(store.Store) {}

var (
	_ storeModule           = (*RedisStore)(nil)
	_ caddy.Provisioner     = (*RedisStore)(nil)
	_ caddyfile.Unmarshaler = (*RedisStore)(nil)
)
