// Package selfsigned makes certificates for patients that speak TLS: each start has new ones, which
// nobody else trusts.
package selfsigned

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// RSA is a certificate for 127.0.0.1 with a key of 2048 bits: still the common kind, and expensive
// to sign with.
func RSA() (tls.Certificate, error) { return RSAOf(2048) }

// RSAOf is one with a key of so many bits.
func RSAOf(bits int) (tls.Certificate, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make an RSA key: %w", err)
	}
	return certificate(key)
}

// ECDSA is a certificate for 127.0.0.1 with a P-256 key.
func ECDSA() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make an ECDSA key: %w", err)
	}
	return certificate(key)
}

// Trust is a pool with nothing but this certificate.
func Trust(c tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Leaf)
	return pool
}

func certificate(key crypto.Signer) (tls.Certificate, error) {
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "patient"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read the certificate that was made: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
