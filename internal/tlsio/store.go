package tlsio

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Pair names the PEM files of a certificate chain, the leaf first, and of the leaf's private key.
type Pair struct {
	Cert, Key string
}

// Info describes one certificate in use.
type Info struct {
	File     string    // the chain's file
	Names    []string  // DNS names that it is valid for
	Subject  string    // distinguished name (RFC 2253)
	NotAfter time.Time // its last moment
}

// Store holds a server's certificates by name. Watch reloads them when their files change.
// Handshakes choose from an immutable snapshot, without a lock.
type Store struct {
	pairs []Pair
	snap  atomic.Pointer[snapshot]

	reload sync.Mutex // one Reload at a time
}

// snapshot is one reading of all files. Several certificates may share a name, typically ECDSA and
// RSA; they keep the order in which they were configured.
type snapshot struct {
	exact map[string][]*tls.Certificate // "www.example.com"
	wild  map[string][]*tls.Certificate // "example.com" for "*.example.com"
	// standard is for clients that ask for no name or an unknown one: the first certificate, then
	// those with the same names.
	standard []*tls.Certificate
	info     []Info
	// seen is the state of the files just before they were read. Watch compares against it.
	seen signature
}

// NewStore reads all pairs. There must be at least one. The error names every file that cannot be
// used.
func NewStore(pairs []Pair) (*Store, error) {
	if len(pairs) == 0 {
		return nil, errors.New("TLS needs at least one certificate")
	}
	s := &Store{pairs: pairs}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads all files again. If any of them cannot be used, the error names it, and the present
// certificates stay in use. Handshakes under way finish with the certificate that they have chosen.
// Any goroutine but a loop may call it, because it reads files.
func (s *Store) Reload() error {
	s.reload.Lock()
	defer s.reload.Unlock()
	snap, err := read(s.pairs)
	if err != nil {
		return err
	}
	s.snap.Store(snap)
	return nil
}

// Certificates describes the certificates in use, in the configured order. Any goroutine may call
// it. The result is shared and must not be changed.
func (s *Store) Certificates() []Info { return s.snap.Load().info }

// GetCertificate chooses the certificate for a handshake: by exact name, else by wildcard, else the
// standard certificate. Of several for one name, it takes the first that the client supports. It
// fits tls.Config.GetCertificate. Any goroutine may call it.
func (s *Store) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	snap := s.snap.Load()
	name := strings.ToLower(hello.ServerName)
	if found := supported(hello, snap.exact[name]); found != nil {
		return found, nil
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if found := supported(hello, snap.wild[parent]); found != nil {
			return found, nil
		}
	}
	// The standard certificate does not match the name, so SupportsCertificate would refuse it.
	// Without a name it checks only algorithms.
	nameless := *hello
	nameless.ServerName = ""
	if found := supported(&nameless, snap.standard); found != nil {
		return found, nil
	}
	return snap.standard[0], nil
}

func supported(hello *tls.ClientHelloInfo, among []*tls.Certificate) *tls.Certificate {
	for _, c := range among {
		if hello.SupportsCertificate(c) == nil {
			return c
		}
	}
	return nil
}

func read(pairs []Pair) (*snapshot, error) {
	snap := &snapshot{exact: map[string][]*tls.Certificate{}, wild: map[string][]*tls.Certificate{},
		seen: look(pairs)}
	var errs []error
	var all []*tls.Certificate
	for _, p := range pairs {
		cert, err := readPair(p.Cert, p.Key, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, cert)
		snap.add(p.Cert, cert)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	snap.setStandard(all)
	return snap, nil
}

func (s *snapshot) add(file string, cert *tls.Certificate) {
	for _, name := range cert.Leaf.DNSNames {
		name = strings.ToLower(name)
		if parent, ok := strings.CutPrefix(name, "*."); ok {
			s.wild[parent] = append(s.wild[parent], cert)
		} else {
			s.exact[name] = append(s.exact[name], cert)
		}
	}
	s.info = append(s.info, Info{
		File: file, Names: cert.Leaf.DNSNames, Subject: cert.Leaf.Subject.String(),
		NotAfter: cert.Leaf.NotAfter,
	})
}

func (s *snapshot) setStandard(all []*tls.Certificate) {
	names := map[string]bool{}
	for _, n := range all[0].Leaf.DNSNames {
		names[strings.ToLower(n)] = true
	}
	for i, c := range all {
		own := map[string]bool{}
		for _, n := range c.Leaf.DNSNames {
			own[strings.ToLower(n)] = true
		}
		if i == 0 || maps.Equal(own, names) {
			s.standard = append(s.standard, c)
		}
	}
}

// readPair reads a certificate chain and its key. The error is one line that names the faulty file.
func readPair(
	cert, key string, read func(string) ([]byte, error),
) (*tls.Certificate, error) {
	chain, err := readFile(cert, read)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	private, err := readFile(key, read)
	if err != nil {
		return nil, fmt.Errorf("cannot read the private key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, private)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s cannot be used: %w", cert, key, err)
	}
	return &pair, nil
}
