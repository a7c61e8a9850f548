package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"plimsoll/internal/reactor"
	"plimsoll/internal/tlsio"
)

// TLSOptions are how to speak TLS to an https target. The zero value behaves like a browser.
type TLSOptions struct {
	CA           string // PEM file of the authorities to trust; "" for the system's
	Insecure     bool   // accept any certificate
	ServerName   string // the name to ask for and to verify; "" for the URL's host
	NoResumption bool   // make a full handshake for each connection
	Cert, Key    string // PEM files of our own certificate; both or neither
	// ReadFile reads these files; nil reads them from this machine's disk.
	ReadFile func(name string) ([]byte, error) `json:"-"`
}

// ErrPort is the error of a URL with an invalid port.
var ErrPort = errors.New("a port is a number from 1 to 65535")

// longestURL limits a URL, in bytes.
const longestURL = 16 << 10

// Resolve makes a target from a URL: http or https, a host name or an address, path and query. It
// looks the host's name up once; the addresses are used in turn. Errors are one line.
func Resolve(ctx context.Context, rawURL string, secure TLSOptions) (Target, error) {
	u, err := parse(rawURL)
	if err != nil {
		return Target{}, err
	}
	port, usual := u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" {
		port = usual
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return Target{}, fmt.Errorf("%q: %w", rawURL, ErrPort)
	}
	host := u.Hostname()
	t := Target{URL: rawURL, Authority: host, Path: requestTarget(u)}
	if strings.Contains(host, ":") {
		t.Authority = "[" + strings.SplitN(host, "%", 2)[0] + "]"
	}
	if port != usual {
		t.Authority += ":" + port
	}
	if t.Addresses, err = lookUp(ctx, host, uint16(number)); err != nil {
		return Target{}, err
	}
	if u.Scheme == "https" {
		if t.TLS, err = clientConfig(host, secure); err != nil {
			return Target{}, err
		}
	}
	return t, nil
}

// parse parses the URL of a target.
func parse(raw string) (*url.URL, error) {
	if len(raw) > longestURL {
		return nil, fmt.Errorf("the URL has %d bytes, and %d are the most: "+
			"put what is long into the body", len(raw), longestURL)
	}
	u, err := url.Parse(raw)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" {
		switch {
		case u.User != nil:
			return nil, errors.New("a user and password in the URL are not sent: " +
				"give them as a header, \"Authorization: Basic …\"")
		case strings.IndexFunc(u.Hostname(), func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
			return nil, fmt.Errorf("%q: write the host's name as it is looked up, "+
				"in the letters of ASCII (\"xn--…\")", raw)
		}
		return u, nil
	}
	if err == nil && u.Scheme != "" && u.Host != "" && u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q: only http and https can be loaded, not %s", raw, u.Scheme)
	}
	if _, plain := url.Parse("http://" + raw); !strings.Contains(raw, "://") && plain == nil &&
		raw != "" {
		return nil, fmt.Errorf("%q is not a URL: did you mean \"http://%s\"?", raw, raw)
	}
	return nil, fmt.Errorf("%q is not a URL: write it as http://host:port/path", raw)
}

// requestTarget returns path and query as sent. Bytes that must not appear there are
// percent-encoded.
func requestTarget(u *url.URL) string {
	target := u.EscapedPath()
	if target == "" {
		target = "/"
	}
	if u.RawQuery == "" {
		return target
	}
	var b strings.Builder
	b.WriteString(target)
	b.WriteByte('?')
	for i := range len(u.RawQuery) {
		if c := u.RawQuery[i]; c <= ' ' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// lookUp returns the addresses of a host.
func lookUp(ctx context.Context, host string, port uint16) ([]reactor.Address, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []reactor.Address{{IP: netip.AddrPortFrom(ip.Unmap(), port)}}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			return nil, fmt.Errorf("no host is called %q: check the name, or give its address",
				host)
		}
		return nil, fmt.Errorf("cannot look up %q: %w", host, err)
	}
	var all []reactor.Address
	for _, ip := range ips {
		all = append(all, reactor.Address{IP: netip.AddrPortFrom(ip.Unmap(), port)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the name %q has no address", host)
	}
	return all, nil
}

func clientConfig(host string, o TLSOptions) (*tls.Config, error) {
	cfg, err := tlsio.ClientConfig(tlsio.ClientOptions{
		CA:                 o.CA,
		ServerName:         o.ServerName,
		Cert:               o.Cert,
		Key:                o.Key,
		InsecureSkipVerify: o.Insecure,
		ReadFile:           o.ReadFile,
	}, host)
	if err != nil {
		return nil, err
	}
	if o.NoResumption {
		cfg.ClientSessionCache = nil
	}
	return cfg, nil
}

// IPs returns the addresses that are not files.
func (t *Target) IPs() (all []netip.AddrPort) {
	for _, a := range t.Addresses {
		if a.Path == "" {
			all = append(all, a.IP)
		}
	}
	return all
}

// cannotConnect returns the error of a run that could not make a single connection.
func cannotConnect(t *Target, err error) error {
	where := t.Authority
	if first := t.Addresses[0].String(); first != t.Authority {
		where += " (" + first
		if more := len(t.Addresses) - 1; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
		where += ")"
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	hint := ""
	switch {
	case err == nil:
		err = errors.New("the target closes connections as soon as they are made")
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = ": does the target listen there?"
	case errors.As(err, &unknown):
		hint = ": give its authority's certificate (--ca), or accept any (--insecure)"
	case errors.As(err, &name):
		hint = ": give the name that its certificate is for (--server-name)"
	case errors.As(err, new(tls.RecordHeaderError)):
		hint = ": does the target speak http and not https?"
	case t.TLS != nil &&
		(errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, syscall.ECONNRESET)):
		err = errors.New("it ended the connection when TLS began")
		hint = ": does the target speak http and not https?"
	}
	return fmt.Errorf("no connection to %s: %w%s", where, err, hint)
}
