package tlsio_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/tlsio"
)

func TestClientCertificates(t *testing.T) {
	s, stranger := newSite(t), newAuthority(t)
	ours := s.ca.issue(t, t.TempDir(), "alice", newECDSA(t))
	theirs := stranger.issue(t, t.TempDir(), "mallory", newECDSA(t))
	load := func(p tlsio.Pair) *tls.Certificate {
		c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		must(t, err)
		return &c
	}
	const refused = "refused"
	for _, c := range []struct {
		auth string
		cert *tls.Certificate
		want string // the subject seen, or refused
	}{
		{"", nil, ""}, {"none", load(ours), ""},
		{"request", nil, ""}, {"request", load(ours), "CN=alice,O=Harbour"}, {"request", load(theirs), refused},
		{"require", nil, refused}, {"require", load(ours), "CN=alice,O=Harbour"},
		{"require", load(theirs), refused},
	} {
		versions(t, func(t *testing.T, v uint16) {
			server := s.config(t, tlsio.ServerOptions{ClientAuth: c.auth, ClientCA: s.ca.file})
			client := s.capped(v)
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if c.cert == nil {
					return &tls.Certificate{}, nil
				}
				return c.cert, nil
			}
			p, near, _ := connect(tlsio.NewLoop(), true, server, client, nil)
			switch {
			case (near != nil) != (c.want == refused):
				t.Errorf("client_auth %q: %v", c.auth, near)
			case near == nil && p.conn.State().Subject != c.want:
				t.Errorf("client_auth %q: subject %q, want %q", c.auth, p.conn.State().Subject, c.want)
			}
		})
	}
}

func TestUpstreamOptions(t *testing.T) {
	s := newSite(t)
	id := s.ca.issue(t, t.TempDir(), "gateway", newECDSA(t))
	server := s.config(t, tlsio.ServerOptions{ClientAuth: "require", ClientCA: s.ca.file})
	for name, c := range map[string]struct {
		o    tlsio.ClientOptions
		host string
		ok   bool
	}{
		"by name":             {tlsio.ClientOptions{CA: s.ca.file}, "site.test", true},
		"by address":          {tlsio.ClientOptions{CA: s.ca.file}, "127.0.0.1", true},
		"under another name":  {tlsio.ClientOptions{CA: s.ca.file, ServerName: "site.test"}, "10.9.8.7", true},
		"wrong name":          {tlsio.ClientOptions{CA: s.ca.file}, "other.test", false},
		"unknown authority":   {tlsio.ClientOptions{}, "site.test", false},
		"insecure when asked": {tlsio.ClientOptions{InsecureSkipVerify: true}, "other.test", true},
	} {
		c.o.Cert, c.o.Key = id.Cert, id.Key
		cfg, err := tlsio.ClientConfig(c.o, c.host)
		must(t, err)
		p, near, _ := connect(tlsio.NewLoop(), false, cfg, server, nil)
		if (near == nil) != c.ok {
			t.Errorf("%s: %v", name, near)
		}
		if near == nil && p.far.ConnectionState().PeerCertificates[0].Subject.CommonName != "gateway" {
			t.Errorf("%s: the upstream did not see our certificate", name)
		}
	}
}

func TestUnusableOptionsAreOneClearLine(t *testing.T) {
	s := newSite(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	missing := filepath.Join(t.TempDir(), "missing.pem")
	server := func(o tlsio.ServerOptions) error {
		if o.Store == nil {
			o.Store = s.store
		}
		_, err := tlsio.ServerConfig(o)
		return err
	}
	client := func(o tlsio.ClientOptions, host string) error {
		_, err := tlsio.ClientConfig(o, host)
		return err
	}
	_, noStore := tlsio.ServerConfig(tlsio.ServerOptions{})
	for want, err := range map[string]error{
		"at least one certificate": noStore,
		`"1.1"`:                    server(tlsio.ServerOptions{MinVersion: "1.1"}),
		`"maybe"`:                  server(tlsio.ServerOptions{ClientAuth: "maybe"}),
		"client authorities":       server(tlsio.ServerOptions{ClientAuth: "require"}),
		missing:                    server(tlsio.ServerOptions{ClientAuth: "request", ClientCA: missing}),
		empty:                      client(tlsio.ClientOptions{CA: empty}, "a"),
		"both":                     client(tlsio.ClientOptions{Cert: s.pair.Cert}, "a"),
		s.pair.Cert:                client(tlsio.ClientOptions{Cert: empty, Key: s.pair.Cert}, "a"),
		"server name":              client(tlsio.ClientOptions{}, ""),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want one line with %q, got %v", want, err)
		}
	}
}
