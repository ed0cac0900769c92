package anvil

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// validate checks everything that can be said without replacing a placeholder.
func (s *RedisStore) validate() error {
	forms := 0
	for _, given := range []bool{s.URL != "", s.SentinelMaster != "" || len(s.Sentinels) > 0, len(s.Cluster) > 0} {
		if given {
			forms++
		}
	}
	switch {
	case forms == 0:
		return errors.New("the store needs one of: a url as in redis://localhost:6379, sentinel, or cluster")
	case forms > 1:
		return errors.New("the store takes only one of: a url, sentinel, or cluster")
	}
	if s.URL != "" && !isPlaceholder(s.URL) {
		u, err := splitRedisURL(s.URL)
		if err != nil {
			return err
		}
		if err := s.validateURL(&u); err != nil {
			return err
		}
	}
	checks := []error{
		s.checkSentinels(),
		checkAddresses("cluster", s.Cluster, redisPort),
		s.checkLogin(),
		checkSet(
			bound{"pool_size", int64(s.PoolSize), mostConnections, countUnit},
			bound{"min_idle", int64(s.MinIdle), mostConnections, countUnit},
			bound{"pool_timeout", int64(s.PoolTimeout), int64(longestTimeout), timeUnit},
			bound{"max_idle_time", int64(s.MaxIdleTime), 0, timeUnit},
			bound{"dial_timeout", int64(s.DialTimeout), int64(longestTimeout), timeUnit},
			bound{"accept_timeout", int64(s.AcceptTimeout), int64(acceptTimeout), timeUnit},
			bound{"replicas", int64(s.Replicas), 0, countUnit},
		),
	}
	if s.Prefix != "" {
		checks = append(checks, checkPrefix(s.Prefix))
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	switch {
	case s.DB != nil && *s.DB < 0:
		return errors.New("db must not be negative")
	case s.DB != nil && *s.DB > 0 && len(s.Cluster) > 0:
		return errors.New("a cluster has only the database 0; leave out db, and use prefix to keep deployments apart")
	case s.PoolSize != 0 && s.MinIdle > s.PoolSize:
		return fmt.Errorf("min_idle %d is above pool_size %d", s.MinIdle, s.PoolSize)
	case s.TLS != nil && (s.TLS.ClientCertificateFile == "") != (s.TLS.ClientCertificateKeyFile == ""):
		return errors.New("tls: client_certificate_file and client_certificate_key_file go together")
	}
	return nil
}

// validateURL checks the URL against the other settings.
func (s *RedisStore) validateURL(u *redisURL) error {
	switch {
	case u.db != "" && s.DB != nil:
		return errors.New("the url and db both give the database; keep one of them")
	case u.user != "" && s.Username != "":
		return errors.New("the url and username both give the user; keep one of them")
	case u.password != "" && s.Password != "":
		return errors.New("the url and password both give the password; keep one of them")
	case u.user != "" && u.password == "" && s.Password == "":
		return errors.New("the url has a user and no password; a password alone is written redis://:<password>@<host>, with the colon")
	case s.Username != "" && s.Password == "" && u.password == "":
		return errNoPassword
	case u.socket && s.TLS != nil:
		return errors.New("a unix socket has no TLS; leave out the tls words")
	}
	return nil
}

var errNoPassword = errors.New("username needs a password")

// checkLogin refuses what the client would ignore: it logs in only where there is a password.
func (s *RedisStore) checkLogin() error {
	switch {
	case s.URL == "" && s.Username != "" && s.Password == "":
		return errNoPassword
	case s.SentinelUsername != "" && s.SentinelPassword == "":
		return errors.New("sentinel_username needs sentinel_password")
	case s.SentinelPassword != "" && len(s.Sentinels) == 0:
		return errors.New("sentinel_username and sentinel_password are for sentinel; use username and password")
	}
	return nil
}

func (s *RedisStore) checkSentinels() error {
	if s.SentinelMaster == "" && len(s.Sentinels) == 0 {
		return nil
	}
	switch {
	case s.SentinelMaster == "":
		return errors.New("sentinel needs the master's name")
	case !isPlaceholder(s.SentinelMaster) && strings.Contains(s.SentinelMaster, ":"):
		return errors.New("sentinel takes the master's name first, as in sentinel <master> <address> [<address>]")
	case len(s.Sentinels) == 0:
		return errors.New("sentinel needs the address of a Sentinel")
	}
	return checkAddresses("sentinel", s.Sentinels, sentinelPort)
}

// checkAddresses checks those without a placeholder.
func checkAddresses(word string, all []string, port string) error {
	var seen []string
	for i, text := range all {
		if strings.Contains(text, "{") {
			continue
		}
		address, err := redisAddress(text, port)
		if err != nil {
			return fmt.Errorf("%s address %d %w", word, i+1, err)
		}
		if slices.Contains(seen, address) {
			return fmt.Errorf("%s address %d is there twice", word, i+1)
		}
		seen = append(seen, address)
	}
	return nil
}

func checkPrefix(prefix string) error {
	if !prefixPattern.MatchString(prefix) {
		return fmt.Errorf("prefix '%s' is not 1 to 64 letters, digits and '_', '.', ':', '-'", prefix)
	}
	return nil
}

// isPlaceholder reports whether a text is one placeholder and nothing else.
func isPlaceholder(text string) bool { return text != "" && placeholders.FindString(text) == text }
