package anvil

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

// UnmarshalCaddyfile reads the store option:
//
//	store redis [<url>] {
//		sentinel          <master> <address>...
//		sentinel_username <name>
//		sentinel_password <secret>
//		cluster           <address>...
//		prefix            <word>
//		db                <n>
//		username          <name>
//		password          <secret>
//		tls
//		tls_client_auth          <cert_file> <key_file>
//		tls_insecure_skip_verify
//		tls_server_name          <name>
//		tls_trust_pool           <module>
//		tls_trusted_ca_certs     <pem_file>...
//		pool_size         <n>
//		min_idle          <n>
//		pool_timeout      <duration>
//		max_idle_time     <duration>
//		dial_timeout      <duration>
//		accept_timeout    <duration>
//		replicas          <n>
//	}
//
// The words of TLS are those of reverse_proxy; any of them turns TLS on.
func (s *RedisStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := *d // what concerns the store as a whole is reported where it begins
	if d.NextArg() {
		s.URL = d.Val()
	}
	if d.NextArg() {
		// It is not shown: it may be the rest of a password with a space.
		return d.Err("unexpected second argument, the form is: store redis [<url>]")
	}
	err := parseBlock(d, map[string]word{
		"sentinel":                 {form: "sentinel <master> <address>...", parse: s.parseSentinel},
		"sentinel_username":        {form: "sentinel_username <name>", parse: text(&s.SentinelUsername)},
		"sentinel_password":        {form: "sentinel_password <secret>", parse: text(&s.SentinelPassword)},
		"cluster":                  {form: "cluster <address>...", parse: s.parseCluster},
		"prefix":                   {form: "prefix <word>", parse: s.parsePrefix},
		"db":                       {form: "db <n>", parse: s.parseDB},
		"username":                 {form: "username <name>", parse: text(&s.Username)},
		"password":                 {form: "password <secret>", parse: text(&s.Password)},
		"tls":                      {form: "tls", parse: s.parseTLS},
		"tls_client_auth":          {form: "tls_client_auth <cert_file> <key_file>", parse: s.parseClientAuth},
		"tls_insecure_skip_verify": {form: "tls_insecure_skip_verify", parse: s.parseInsecure},
		"tls_server_name":          {form: "tls_server_name <name>", parse: s.parseServerName},
		"tls_trust_pool":           {form: "tls_trust_pool <module>", parse: s.parseTrustPool},
		"tls_trusted_ca_certs":     {form: "tls_trusted_ca_certs <pem_file>...", parse: s.parseTrustedFiles},
		"pool_size":                {form: "pool_size <n>", parse: count(&s.PoolSize, mostConnections)},
		"min_idle":                 {form: "min_idle <n>", parse: count(&s.MinIdle, mostConnections)},
		"pool_timeout":             {form: "pool_timeout <duration>", parse: duration(&s.PoolTimeout, longestTimeout)},
		"max_idle_time":            {form: "max_idle_time <duration>", parse: duration(&s.MaxIdleTime, 0)},
		"dial_timeout":             {form: "dial_timeout <duration>", parse: duration(&s.DialTimeout, longestTimeout)},
		"accept_timeout":           {form: "accept_timeout <duration>", parse: duration(&s.AcceptTimeout, acceptTimeout)},
		"replicas":                 {form: "replicas <n>", parse: s.parseReplicas},
	})
	if err != nil {
		return err
	}
	if err := s.validate(); err != nil {
		return start.WrapErr(err)
	}
	return nil
}

func (s *RedisStore) parseSentinel(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return errArgs
	}
	s.SentinelMaster, s.Sentinels = args[0], args[1:]
	if err := s.checkSentinels(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (s *RedisStore) parseCluster(d *caddyfile.Dispenser) error {
	if s.Cluster = d.RemainingArgs(); len(s.Cluster) == 0 {
		return errArgs
	}
	if err := checkAddresses("cluster", s.Cluster, redisPort); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (s *RedisStore) parsePrefix(d *caddyfile.Dispenser) error {
	if err := text(&s.Prefix)(d); err != nil {
		return err
	}
	if err := checkPrefix(s.Prefix); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (s *RedisStore) parseDB(d *caddyfile.Dispenser) error {
	arg, err := oneArg(d)
	if err != nil {
		return err
	}
	n, err := parseDB(arg)
	if err != nil {
		return d.Errf("db: '%s' %w", arg, err)
	}
	s.DB = &n
	return nil
}

func (s *RedisStore) parseReplicas(d *caddyfile.Dispenser) error {
	arg, err := oneArg(d)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(arg, 10, 31)
	if err != nil {
		return d.Errf("replicas: '%s' is not a whole number", arg)
	}
	s.Replicas = int(n)
	return nil
}

func (s *RedisStore) parseTLS(*caddyfile.Dispenser) error {
	s.encrypt()
	return nil
}

// encrypt returns the options of TLS, which is on when there are any.
func (s *RedisStore) encrypt() *RedisTLS {
	if s.TLS == nil {
		s.TLS = new(RedisTLS)
	}
	return s.TLS
}

func (s *RedisStore) parseClientAuth(d *caddyfile.Dispenser) error {
	t := s.encrypt()
	if !d.AllArgs(&t.ClientCertificateFile, &t.ClientCertificateKeyFile) {
		return errArgs
	}
	return nil
}

func (s *RedisStore) parseInsecure(*caddyfile.Dispenser) error {
	s.encrypt().InsecureSkipVerify = true
	return nil
}

func (s *RedisStore) parseServerName(d *caddyfile.Dispenser) error {
	return text(&s.encrypt().ServerName)(d)
}

func (s *RedisStore) parseTrustPool(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return errArgs
	}
	name := d.Val()
	module, err := caddyfile.UnmarshalModule(d, "tls.ca_pool.source."+name)
	if err != nil {
		return err
	}
	return s.trust(d, caddyconfig.JSONModuleObject(module, "provider", name, nil))
}

func (s *RedisStore) parseTrustedFiles(d *caddyfile.Dispenser) error {
	files := d.RemainingArgs()
	if len(files) == 0 {
		return errArgs
	}
	return s.trust(d, caddyconfig.JSONModuleObject(caddytls.FileCAPool{TrustedCACertPEMFiles: files}, "provider", "file", nil))
}

func (s *RedisStore) trust(d *caddyfile.Dispenser, pool []byte) error {
	t := s.encrypt()
	if t.CARaw != nil {
		return d.Err("tls_trust_pool and tls_trusted_ca_certs say the same; keep one of them")
	}
	t.CARaw = pool
	return nil
}
