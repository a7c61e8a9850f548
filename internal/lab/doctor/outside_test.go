package doctor

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

// serve is a server of 127.0.0.1 that says hello, with TLS when there is a config.
func serve(t *testing.T, config *tls.Config, change func(s *httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if change != nil {
		change(s)
	}
	if config != nil {
		s.TLS = config
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// certified is a config with a certificate of 127.0.0.1.
func certified(t *testing.T, key crypto.Signer, left time.Duration) *tls.Config {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(left),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}
}

func seen(t *testing.T, s *httptest.Server) map[string]Finding {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	v, err := look(context.Background(), u)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]Finding)
	for _, c := range outsideChecks {
		if v.secure() || !c.tls {
			all[c.name] = c.judge(v).finding(c.name)
		}
	}
	return all
}

func TestWhatCanBeSeenFromOutsideIsJudged(t *testing.T) {
	small, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	with := func(key crypto.Signer, left time.Duration, change func(c *tls.Config)) *tls.Config {
		c := certified(t, key, left)
		if change != nil {
			change(c)
		}
		return c
	}
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		config  *tls.Config
		change  func(s *httptest.Server)
		finding string
		verdict SettingVerdict
		value   string
		why     string
	}{
		"kept":    {nil, nil, "keep-alive", Good, "kept", "first one's"},
		"closed":  {nil, func(s *httptest.Server) { s.Config.SetKeepAlivesEnabled(false) }, "keep-alive", Advise, "closed", "TIME_WAIT"},
		"TLS 1.3": {with(small, year, nil), nil, "TLS version", Good, "TLS 1.3", "one round trip"},
		"TLS 1.2": {
			with(small, year, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), nil,
			"TLS version", Advise, "TLS 1.2", "two round trips",
		},
		"resumed": {with(small, year, nil), nil, "session resumption", Good, "resumed", "half"},
		"not resumed": {
			with(small, year, func(c *tls.Config) { c.SessionTicketsDisabled = true }), nil,
			"session resumption", Advise, "not resumed",
			"full handshake",
		},
		"HTTP/1.1": {with(small, year, nil), nil, "protocol (ALPN)", Good, "HTTP/1.1", "does not offer"},
		"HTTP/2": {
			with(small, year, nil), func(s *httptest.Server) { s.EnableHTTP2 = true },
			"protocol (ALPN)", Good, "h2", "share",
		},
		"ECDSA":        {with(small, year, nil), nil, "certificate's key", Good, "ECDSA P-256", "cheap"},
		"RSA":          {with(large, year, nil), nil, "certificate's key", Advise, "RSA-2048", "most of what a handshake costs"},
		"nobody's":     {with(small, year, nil), nil, "certificate's validity", Advise, "until", "does not trust it"},
		"it ends soon": {with(small, 5*24*time.Hour+time.Hour, nil), nil, "certificate's validity", Advise, "until", "5 days are left"},
		"it has ended": {with(small, -time.Minute, nil), nil, "certificate's validity", Advise, "until", "it is over"},
		"a long answer": {
			nil, func(s *httptest.Server) { s.Config.Handler = endless }, "keep-alive", Good,
			"not known", "longer than 1 MiB",
		},
		"it answers once": {
			nil, func(s *httptest.Server) { s.Config.Handler = once() }, "keep-alive", Good,
			"not known", "second request failed",
		},
		"it sends one off": {nil, func(s *httptest.Server) {
			s.Config.Handler = http.RedirectHandler("http://192.0.2.1/", http.StatusFound)
		}, "keep-alive", Good,
			"kept", "first one's"},
	} {
		t.Run(name, func(t *testing.T) {
			got := seen(t, serve(t, c.config, c.change))[c.finding]
			if got.Verdict != c.verdict || !strings.Contains(got.Value, c.value) ||
				!strings.Contains(got.Why, c.why) || c.verdict == Advise && got.Command == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// endless answers with more than anybody reads.
var endless = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	block := bytes.Repeat([]byte("x"), 64<<10)
	for range 64 {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
})

// once answers the first request, and closes the connection of all others.
func once() http.Handler {
	answered := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case answered <- struct{}{}:
		default:
			panic(http.ErrAbortHandler)
		}
	})
}

func TestACertificateThatIsTrustedAndLastsIsGood(t *testing.T) {
	small, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	config := certified(t, small, 90*24*time.Hour)
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	v := &view{
		host:   "127.0.0.1",
		now:    time.Now(),
		state:  &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}},
		remote: netip.MustParseAddrPort("127.0.0.1:443"),
	}
	if o := judgeValidity(v); o.advise {
		t.Errorf("%+v", o)
	}
	if o := judgeKey(&view{state: &tls.ConnectionState{}}); o.advise || o.value != "none" {
		t.Errorf("%+v", o)
	}
}
