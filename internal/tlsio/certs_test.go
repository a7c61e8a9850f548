package tlsio_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/tlsio"
)

// authority issues the certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	file string
	pool *x509.CertPool
}

var serials struct {
	sync.Mutex
	last int64
}

func serial() *big.Int {
	serials.Lock()
	defer serials.Unlock()
	serials.last++
	return big.NewInt(serials.last)
}

func newECDSA(t testing.TB) crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

var rsaKey = sync.OnceValue(func() crypto.Signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newAuthority(t testing.TB) *authority {
	a := &authority{key: newECDSA(t), pool: x509.NewCertPool(), file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Test Authority"},
		IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	a.pool.AddCert(a.cert)
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue makes a certificate for names and addresses, and writes it and its key to dir/base.pem and
// dir/base.key.
func (a *authority) issue(t testing.TB, dir, base string, key crypto.Signer, names ...string) tlsio.Pair {
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: base, Organization: []string{"Harbour"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	pair := tlsio.Pair{Cert: filepath.Join(dir, base+".pem"), Key: filepath.Join(dir, base+".key")}
	writePEM(t, pair.Cert, "CERTIFICATE", der)
	writePEM(t, pair.Key, "PRIVATE KEY", private)
	return pair
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a server's and a client's side that fit each other, for the name "site.test".
type site struct {
	ca      *authority
	pair    tlsio.Pair
	store   *tlsio.Store
	tickets *tlsio.Tickets
	server  *tls.Config
	client  *tls.Config // an ordinary client that trusts the site
}

func newSite(t testing.TB) *site {
	ca := newAuthority(t)
	s := &site{ca: ca, pair: ca.issue(t, t.TempDir(), "site", newECDSA(t), "site.test", "127.0.0.1")}
	var err error
	s.store, err = tlsio.NewStore([]tlsio.Pair{s.pair})
	must(t, err)
	s.tickets = tlsio.NewTickets(time.Hour, 0)
	s.server = s.config(t, tlsio.ServerOptions{})
	s.client = &tls.Config{RootCAs: ca.pool, ServerName: "site.test", NextProtos: []string{"http/1.1"}}
	return s
}

// config is the site's server config with other options.
func (s *site) config(t testing.TB, o tlsio.ServerOptions) *tls.Config {
	if o.Store == nil {
		o.Store = s.store
	}
	if o.ALPN == nil {
		o.ALPN = []string{"http/1.1"}
	}
	if o.Tickets == nil {
		o.Tickets = s.tickets
	}
	cfg, err := tlsio.ServerConfig(o)
	must(t, err)
	return cfg
}

// capped is the site's client at one TLS version.
func (s *site) capped(version uint16) *tls.Config {
	cfg := s.client.Clone()
	cfg.MinVersion, cfg.MaxVersion = version, version
	return cfg
}
