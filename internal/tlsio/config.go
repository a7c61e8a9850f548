package tlsio

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"plimsoll/internal/plainfile"
)

// ServerOptions say how a listener speaks TLS.
type ServerOptions struct {
	Store      *Store // the certificates; required
	MinVersion string // "1.2" (also for "") or "1.3"
	// "none" (also for ""), "request": checked when the client shows one, "require".
	ClientAuth string
	// PEM file of the authorities of client certificates; required unless ClientAuth is none.
	ClientCA string
	ALPN     []string // protocols in order of preference; empty to ignore the client's
	Tickets  *Tickets // keys of session tickets; nil turns resumption off
}

// ClientOptions say how connections to an upstream speak TLS.
type ClientOptions struct {
	CA         string   // PEM file of the authorities to trust; "" for those of the system
	ServerName string   // the name to ask for and to verify; "" for the host that is connected to
	Cert, Key  string   // PEM files of our own certificate; both or neither
	ALPN       []string // the protocols to offer; nil for http/1.1
	// InsecureSkipVerify accepts any certificate. Anybody on the way can then read and change
	// everything.
	InsecureSkipVerify bool
	// ReadFile reads the files that are named above; nil reads them from disk.
	ReadFile func(name string) ([]byte, error)
}

// clientSessions is how many servers' sessions a client config remembers.
const clientSessions = 64

// ServerConfig makes what NewServer needs. Files are read once; the Store's are watched by the
// Store. Errors are one line and name the file. TLS 1.2 renegotiation is off, as crypto/tls servers
// do not have it.
func ServerConfig(o ServerOptions) (*tls.Config, error) {
	if o.Store == nil {
		return nil, errors.New("TLS needs at least one certificate")
	}
	cfg := &tls.Config{
		GetCertificate: o.Store.GetCertificate,
		NextProtos:     o.ALPN,
		// Small records at the start of a connection serve browsers that render while they receive.
		// They cost more calls and CPU, and an answer of an API is of no use until it is whole.
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
		// Without it crypto/tls would trust every authority of the system to vouch for clients.
		return fmt.Errorf("client authentication %q needs a file of client authorities", o.ClientAuth)
	}
	var err error
	cfg.ClientCAs, err = readAuthorities(o.ClientCA, nil)
	return err
}

// ClientConfig makes what NewClient needs for connections to host, a DNS name or an IP address
// without a port. Files are read once, errors are one line and name the file. Sessions of a bounded
// number of servers are remembered and resumed.
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

// readFile reads a file by read, or from this machine's disk where that is nil.
func readFile(name string, read func(string) ([]byte, error)) ([]byte, error) {
	if read == nil {
		read = ReadFile
	}
	return read(name)
}

// maxPEM is the largest certificate, key or bundle of authorities.
const maxPEM = 4 << 20

// ReadFile reads a file of certificates or a key from this machine's disk. What was a file when the
// config was checked may be something else when it is read again.
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
