package anvil

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRedisTLS(t *testing.T) {
	dir := t.TempDir()
	cert, certKey, ca := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key"), filepath.Join(dir, "ca.pem")
	writeCertificate(t, cert, certKey)
	writeCertificate(t, ca, filepath.Join(dir, "ca.key"))
	config := fmt.Sprintf(`{"url":"redis://localhost","tls":{"client_certificate_file":%q,"client_certificate_key_file":%q,
		"ca":{"provider":"file","pem_files":[%q]},"server_name":"redis.internal","insecure_skip_verify":true}}`, cert, certKey, ca)
	first := mustProvisionRedis(t, config)
	got := first.options.TLS
	if got == nil || len(got.Certificates) != 1 || got.RootCAs == nil || got.ServerName != "redis.internal" || !got.InsecureSkipVerify {
		t.Fatalf("TLS %+v", got)
	}
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	if err != nil || !pool.AppendCertsFromPEM(pem) || !got.RootCAs.Equal(pool) {
		t.Errorf("the trusted authority is not the file's: %v", err)
	}
	key := first.poolKey()
	if mustProvisionRedis(t, config).poolKey() != key {
		t.Error("the key differs with the same files")
	}
	for _, renewed := range []string{cert, ca} {
		writeCertificate(t, renewed, strings.TrimSuffix(renewed, ".pem")+".key")
		if next := mustProvisionRedis(t, config).poolKey(); next == key {
			t.Errorf("a renewed %s leaves the key as it was", filepath.Base(renewed))
		} else {
			key = next
		}
	}
	plain := mustProvisionRedis(t, `{"url":"rediss://localhost"}`).options.TLS
	if plain == nil || plain.InsecureSkipVerify || plain.RootCAs != nil {
		t.Errorf("TLS by scheme is %+v", plain)
	}
}

func writeCertificate(t *testing.T, file, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "anvil"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{file: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
