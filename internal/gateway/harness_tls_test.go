package gateway

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// bed is a gateway with the authority of its certificate; it speaks what its configuration says.
type bed struct {
	*instance
	ca *authority
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string // PEM
}

// pair is a certificate's files.
type pair struct{ cert, key string }

var serials atomic.Int64

func certificate(t *testing.T, name string, change func(*x509.Certificate),
	parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	change(c)
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	der, key := certificate(t, "test authority", func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign }, nil, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert: cert, key: key, pool: x509.NewCertPool(), file: filepath.Join(t.TempDir(), "ca.pem")}
	a.pool.AddCert(cert)
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue makes a certificate for names; 127.0.0.1 is always among them.
func (a *authority) issue(t *testing.T, names ...string) pair {
	t.Helper()
	dir := t.TempDir()
	p := pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	a.issueTo(t, p, names...)
	return p
}

func (a *authority) issueTo(t *testing.T, p pair, names ...string) {
	t.Helper()
	der, key := certificate(t, names[0], func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = names, []net.IP{net.IPv4(127, 0, 0, 1)}
	}, a.cert, a.key)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, p.cert, "CERTIFICATE", der)
	writePEM(t, p.key, "PRIVATE KEY", pkcs8)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p pair) load(t *testing.T) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dialTLS connects to the gateway's first listener with TLS.
func (i *instance) dialTLS(cfg *tls.Config) (*peer, error) {
	i.t.Helper()
	raw := i.dial()
	c := tls.Client(raw.Conn, cfg)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return &peer{Conn: c, t: i.t, r: bufio.NewReader(c)}, nil
}

// mustDialTLS is dialTLS where it has to succeed.
func (i *instance) mustDialTLS(cfg *tls.Config) *peer {
	i.t.Helper()
	p, err := i.dialTLS(cfg)
	if err != nil {
		i.t.Fatalf("the handshake: %v", err)
	}
	return p
}

func (p *peer) state() tls.ConnectionState { return p.Conn.(*tls.Conn).ConnectionState() }
