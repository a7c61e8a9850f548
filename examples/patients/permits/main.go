// Command permits tells whether the certificate of a ship's papers is signed by one of the
// authorities that the harbour knows. Their bundle is PEM, and each request reads all of it into a
// pool of its own. Only pprof is shown.
//
// Cured, the bundle is read once.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	authorities = 200
	ships       = 40
	numbers     = 1 << 28 // of permits, of which a bit each says whether it was taken back
)

// harbour checks papers. Any goroutine may use it.
type harbour struct {
	bundle []byte
	papers []*x509.Certificate
	roots  func() (*x509.CertPool, error)
	back   []uint64
}

// read is the pool of a bundle.
func (h *harbour) read() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(h.bundle) {
		return nil, errors.New("there is no certificate in the bundle")
	}
	return pool, nil
}

func (h *harbour) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	paper := h.papers[rand.IntN(len(h.papers))]
	roots, err := h.roots()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	chains, err := paper.Verify(x509.VerifyOptions{
		Roots:     roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	number := rand.IntN(numbers)
	taken := h.back[number/64]>>(number%64)&1 == 1
	fmt.Fprintln(w, paper.Subject, chains[0][1].Subject, number, taken, work.Do(4))
}

// sign makes a certificate of a name, signed by an authority, or by itself without one.
func sign(name string, by *x509.Certificate, with *ecdsa.PrivateKey) (
	*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	paper := &x509.Certificate{
		SerialNumber:          big.NewInt(rand.Int64()),
		Subject:               pkix.Name{CommonName: name, Organization: []string{"Harbour & Sons"}},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if by == nil {
		by, with = paper, key
		paper.IsCA, paper.KeyUsage = true, x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(crand.Reader, paper, by, &key.PublicKey, with)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	paper, err = x509.ParseCertificate(der)
	return paper, key, err
}

func open(p *ward.Patient) (http.Handler, error) {
	h := &harbour{back: make([]uint64, numbers/64)}
	for i := range h.back {
		h.back[i] = rand.Uint64() & rand.Uint64() & rand.Uint64()
	}
	for i := range authorities {
		root, key, err := sign(fmt.Sprintf("Authority %d", i), nil, nil)
		if err != nil {
			return nil, err
		}
		block := &pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}
		h.bundle = append(h.bundle, pem.EncodeToMemory(block)...)
		if i >= ships {
			continue
		}
		paper, _, err := sign(fmt.Sprintf("Ship %d", i), root, key)
		if err != nil {
			return nil, err
		}
		h.papers = append(h.papers, paper)
	}
	h.roots = h.read
	if p.Cured {
		pool, err := h.read()
		h.roots = func() (*x509.CertPool, error) { return pool, err }
	}
	return h, nil
}

func main() { ward.Main(open) }
