package tlsio

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"plimsoll/internal/plainfile"
)

// ServerOptions are the TLS options of a listener.
type ServerOptions struct {
	Store      *Store // the certificates; required
	MinVersion string // "1.2" (also for "") or "1.3"
	// "none" (also for ""), "request" (a certificate is verified if the client sends one) or
	// "require".
	ClientAuth string
	// PEM file of the authorities for client certificates; required unless ClientAuth is none.
	ClientCA string
	ALPN     []string // protocols in order of preference; empty to ignore the client's
	Tickets  *Tickets // keys of session tickets; nil turns off resumption
}

// ClientOptions are the TLS options of connections to an upstream.
type ClientOptions struct {
	CA         string   // PEM file of the authorities to trust; "" for those of the system
	ServerName string   // the name to request and verify; "" for the host that is connected to
	Cert, Key  string   // PEM files of our own certificate; both or neither
	ALPN       []string // the protocols to offer; nil for http/1.1
	// InsecureSkipVerify accepts any certificate. An attacker on the network path can then read and
	// change everything.
	InsecureSkipVerify bool
	// ReadFile reads the files named above; nil reads them from disk.
	ReadFile func(name string) ([]byte, error)
}

// clientSessions is for how many servers a client config remembers sessions.
const clientSessions = 64

// ServerConfig makes the config for NewServer. It reads files once; the Store watches its own
// files. Errors are one line and name the file. There is no TLS 1.2 renegotiation, which crypto/tls
// servers do not support.
func ServerConfig(o ServerOptions) (*tls.Config, error) {
	if o.Store == nil {
		return nil, errors.New("TLS needs at least one certificate")
	}
	cfg := &tls.Config{
		GetCertificate: o.Store.GetCertificate,
		NextProtos:     o.ALPN,
		// Small records at the start of a connection help browsers that render while they receive.
		// They cost more calls and CPU, and an API's answer is of no use until it is complete.
		DynamicRecordSizingDisabled: true,
		SessionTicketsDisabled:      o.Tickets == nil,
	}
	if o.Tickets != nil {
		o.Tickets.serve(cfg)
	}
	switch o.MinVersion {
	case "", "1.2":
		cfg.MinVersion = tls.VersionTLS12
	case "1.3":
		cfg.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("TLS version %q is not served: use \"1.2\" or \"1.3\"", o.MinVersion)
	}
	if err := authenticate(cfg, o); err != nil {
		return nil, err
	}
	return cfg, nil
}

func authenticate(cfg *tls.Config, o ServerOptions) error {
	switch o.ClientAuth {
	case "", "none":
		return nil
	case "request":
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	case "require":
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return fmt.Errorf("client authentication %q is unknown: use \"none\", \"request\" or "+
			"\"require\"", o.ClientAuth)
	}
	if o.ClientCA == "" {
		// Without ClientCA, crypto/tls would trust every authority of the system for client
		// certificates.
		return fmt.Errorf("client authentication %q needs a file of client authorities", o.ClientAuth)
	}
	var err error
	cfg.ClientCAs, err = readAuthorities(o.ClientCA, nil)
	return err
}

// ClientConfig makes the config for NewClient for connections to host, which is a DNS name or an IP
// address without a port. It reads files once. Errors are one line and name the file. Sessions of a
// bounded number of servers are remembered and resumed.
func ClientConfig(o ClientOptions, host string) (*tls.Config, error) {
	cfg := &tls.Config{
		ServerName:                  host,
		NextProtos:                  o.ALPN,
		MinVersion:                  tls.VersionTLS12,
		InsecureSkipVerify:          o.InsecureSkipVerify,
		DynamicRecordSizingDisabled: true,
		ClientSessionCache:          tls.NewLRUClientSessionCache(clientSessions),
		Renegotiation:               tls.RenegotiateNever,
	}
	if cfg.NextProtos == nil {
		cfg.NextProtos = []string{"http/1.1"}
	}
	if o.ServerName != "" {
		cfg.ServerName = o.ServerName
	}
	if cfg.ServerName == "" {
		return nil, errors.New("TLS to an upstream needs a server name, to ask for and to verify")
	}
	if o.CA != "" {
		roots, err := readAuthorities(o.CA, o.ReadFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = roots
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("a client certificate needs both its certificate file and its key file")
	}
	if o.Cert != "" {
		pair, err := readPair(o.Cert, o.Key, o.ReadFile)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{*pair}
	}
	return cfg, nil
}

// readFile reads a file with read, or from this machine's disk if read is nil.
func readFile(name string, read func(string) ([]byte, error)) ([]byte, error) {
	if read == nil {
		read = ReadFile
	}
	return read(name)
}

// maxPEM is the largest size in bytes of a file of certificates, authorities or a key.
const maxPEM = 4 << 20

// ReadFile reads a file of certificates or a key from this machine's disk. It checks that the path
// is a regular file, because that may have changed since the config was checked.
func ReadFile(name string) ([]byte, error) {
	content, err := plainfile.Read(name, maxPEM)
	switch {
	case errors.Is(err, plainfile.ErrKind):
		err = fmt.Errorf("%s is not a regular file: give the path of a PEM file", name)
	case errors.Is(err, plainfile.ErrSize):
		err = fmt.Errorf("%s is larger than %d bytes: give the path of a PEM file", name, maxPEM)
	}
	return content, err
}

func readAuthorities(file string, read func(string) ([]byte, error)) (*x509.CertPool, error) {
	pem, err := readFile(file, read)
	if err != nil {
		return nil, fmt.Errorf("cannot read the authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no authority found in %s: it must hold certificates in PEM form", file)
	}
	return pool, nil
}
