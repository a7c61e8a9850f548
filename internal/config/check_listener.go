package config

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"path/filepath"
)

// maxPEM is the largest certificate, key or bundle of authorities.
const maxPEM = 4 << 20

func (l *Listener) check(s *scope) {
	l.at = s.begins()
	if s.good("address") {
		before := s.errs.count()
		l.Address = s.listenAddress("address", l.Address)
		if s.errs.count() == before {
			s.claim(s.at("address"), l.Address)
		}
	}
	s.prefixes("trusted_proxies", l.TrustedProxies, func(place, netip.Prefix) {})
	l.checkHTTP3(s)
}

// checkHTTP3 checks what only serves together with HTTP/3, and what that needs.
func (l *Listener) checkHTTP3(s *scope) {
	tickets := l.TLS == nil || l.TLS.SessionTickets == nil || *l.TLS.SessionTickets
	switch {
	case l.HTTP3 && !s.has("tls"):
		s.reject("http3", "needs tls, which HTTP/3 always speaks; add tls with a certificate, or "+
			"remove http3")
	case l.EarlyData && !l.HTTP3:
		s.reject("early_data", "has no effect without http3; set http3: true, or remove it")
	case l.EarlyData && !tickets:
		s.reject("early_data", "needs session tickets, by which clients come again; remove "+
			"session_tickets: false, or early_data")
	}
	switch {
	case !s.good("alt_svc"):
	case !l.HTTP3:
		s.reject("alt_svc", "has no effect without http3; set http3: true, or remove it")
	default:
		s.fieldValue(s.at("alt_svc"), l.AltSvc)
	}
}

func (t *ListenerTLS) check(s *scope) {
	switch {
	case t.ClientAuth != "none" && s.good("client_auth") && !s.has("client_ca"):
		s.reject("client_auth", "%q needs client_ca; add the file of the authorities that "+
			"clients' certificates come from", t.ClientAuth)
	case t.ClientAuth == "none" && s.good("client_ca"):
		s.reject("client_ca", "has no effect while client_auth is none; set client_auth to "+
			"request or require, or remove it")
	}
	s.authorities("client_ca", t.ClientCA)
}

func (c *Certificate) check(s *scope) {
	if s.good("cert") && s.good("key") {
		s.keyPair("cert", c.Cert, "key", c.Key)
	}
}

// keyPair checks that both files are there and belong together.
func (s *scope) keyPair(certName, certFile, keyName, keyFile string) {
	cert, certErr := readBounded(certFile, maxPEM)
	if certErr != nil {
		s.reject(certName, "%s cannot be read: %v; give the path of a PEM file", certFile, bare(certErr))
	}
	key, keyErr := readBounded(keyFile, maxPEM)
	if keyErr != nil {
		s.reject(keyName, "%s cannot be read: %v; give the path of a PEM file", keyFile, bare(keyErr))
	}
	if certErr != nil || keyErr != nil {
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		s.reject(certName, "%s and %s are not a pair: %v; give the chain and the key of its leaf",
			certFile, keyFile, err)
	}
}

// authorities checks that a file holds at least one certificate.
func (s *scope) authorities(name, file string) {
	if !s.good(name) {
		return
	}
	content, err := readBounded(file, maxPEM)
	if err != nil {
		s.reject(name, "%s cannot be read: %v; give the path of a PEM file", file, bare(err))
	} else if !x509.NewCertPool().AppendCertsFromPEM(content) {
		s.reject(name, "%s holds no certificate; give a PEM file of the authorities' certificates", file)
	}
}

// relative is a path of the file's text as seen from the working directory.
func (d *decoder) relative(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.base, path)
}

func directory(path string) string { return filepath.Dir(path) }
