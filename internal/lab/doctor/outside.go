package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"time"

	"plimsoll/internal/lab/format"
)

// Bounds on the requests to a URL.
const (
	patience   = 5 * time.Second
	mostHeader = 64 << 10
	mostBody   = 1 << 20
	// soon is a remaining validity at which automatic renewal would have happened long ago.
	soon = 14 * 24 * time.Hour
)

// view is what a service shows to a client.
type view struct {
	remote  netip.AddrPort
	host    string
	state   *tls.ConnectionState // of the first connection; nil without TLS
	trusted error                // why the certificate is not trusted
	now     time.Time
	// reused says that the second request used the first one's connection, and resumed that a
	// further connection resumed the session.
	reused, resumed bool
	// cut says that the body was too long to read, so that the connection could not be reused.
	// again says why further requests failed.
	cut   bool
	again error
}

func (v *view) secure() bool { return v.state != nil }

// look requests a URL three times, the third time over another connection. It follows no redirects
// and reads at most a megabyte of each answer.
func look(ctx context.Context, u *url.URL) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	v := &view{host: u.Hostname(), now: time.Now()}
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: patience}).DialContext,
		TLSHandshakeTimeout:    patience,
		ResponseHeaderTimeout:  patience,
		MaxResponseHeaderBytes: mostHeader,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        1,
		DisableCompression:     true,
		// The certificate is judged and not refused: the user needs the verdict.
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			ClientSessionCache: tls.NewLRUClientSessionCache(4),
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport,
		Timeout:   patience,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	first, err := ask(ctx, client, u)
	if err != nil {
		return nil, fmt.Errorf("nothing can be seen of %s: %w", u.Redacted(), err)
	}
	v.remote, v.state, v.cut = first.remote, first.state, first.cut
	if v.state != nil {
		v.trusted = trust(v.state, v.host, v.now)
	}
	second, err := ask(ctx, client, u)
	if err != nil {
		v.again = err
		return v, nil
	}
	v.reused = second.reused
	transport.CloseIdleConnections()
	third, err := ask(ctx, client, u)
	if err != nil {
		v.again = err
		return v, nil
	}
	v.resumed = third.state != nil && third.state.DidResume
	return v, nil
}

type exchange struct {
	remote      netip.AddrPort
	state       *tls.ConnectionState
	reused, cut bool
}

func ask(ctx context.Context, client *http.Client, u *url.URL) (e exchange, err error) {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		e.reused = info.Reused
		if a, ok := info.Conn.RemoteAddr().(*net.TCPAddr); ok {
			e.remote = a.AddrPort()
		}
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace),
		http.MethodGet, u.String(), nil)
	if err != nil {
		return e, err
	}
	request.Header.Set("User-Agent", "plimsoll-doctor")
	response, err := client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the caller already shows the URL
		}
		return e, err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(response.Body, mostBody))
	e.state, e.cut = response.TLS, n == mostBody
	return e, err
}

// trust verifies the certificate as a client would, with this machine's certificate authorities.
func trust(state *tls.ConnectionState, host string, now time.Time) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("there is none")
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName:       host,
		Intermediates: between,
		CurrentTime:   now,
	})
	return err
}

// outsideChecks is the table of checks from outside.
var outsideChecks = []struct {
	name  string
	tls   bool // only with TLS
	judge func(v *view) opinion
}{
	{"keep-alive", false, judgeKeepAlive},
	{"TLS version", true, judgeVersion},
	{"protocol (ALPN)", true, judgeProtocol},
	{"session resumption", true, judgeResumption},
	{"certificate's key", true, judgeKey},
	{"certificate's validity", true, judgeValidity},
}

func judgeKeepAlive(v *view) opinion {
	switch {
	case v.again != nil:
		return opinion{
			value: "not known",
			why:   "the second request failed: " + format.Clean(v.again.Error()),
		}
	case v.cut:
		return opinion{
			value: "not known",
			why:   "the answer is longer than 1 MiB and was not read whole: name a shorter one",
		}
	case v.reused:
		return opinion{
			value: "kept",
			why:   "the second request went over the first one's connection",
		}
	}
	return opinion{
		value:       "closed after one request",
		advise:      true,
		recommended: "kept",
		why: "each request pays for a new connection, and with TLS for a handshake, " +
			"and leaves a port in TIME_WAIT",
		command: "# nginx: keepalive_timeout 65s; Go: no SetKeepAlivesEnabled(false), " +
			"no \"Connection: close\"; and the body must be as long as Content-Length says",
	}
}

func judgeVersion(v *view) opinion {
	o := opinion{value: tls.VersionName(v.state.Version), why: "a handshake takes one round trip"}
	if v.state.Version < tls.VersionTLS13 {
		o.advise, o.recommended = true, "TLS 1.3"
		o.why = "a full handshake takes two round trips, and one with TLS 1.3"
		o.command = "# nginx: ssl_protocols TLSv1.2 TLSv1.3; Go: tls.Config.MaxVersion 0"
	}
	return o
}

func judgeProtocol(v *view) opinion {
	if p := v.state.NegotiatedProtocol; p == "h2" {
		return opinion{value: "h2", why: "requests share a connection"}
	}
	return opinion{
		value: "HTTP/1.1",
		why: "it does not offer HTTP/2: browsers open up to six connections each, " +
			"which matters to pages and hardly to services that keep theirs",
	}
}

func judgeResumption(v *view) opinion {
	switch {
	case v.again != nil:
		return opinion{
			value: "not known",
			why:   "a further request failed: " + format.Clean(v.again.Error()),
		}
	case v.resumed:
		return opinion{
			value: "resumed",
			why:   "a client that comes back pays about half of a handshake",
		}
	}
	return opinion{
		value:       "not resumed",
		advise:      true,
		recommended: "resumed",
		why: "each new connection is a full handshake, which is most of what TLS costs the " +
			"server. Where several servers share the address, they have to share the " +
			"ticket keys too",
		command: "# nginx: ssl_session_tickets on, ssl_session_ticket_key; Go: " +
			"no SessionTicketsDisabled, and SetSessionTicketKeys where there are several",
	}
}

func judgeKey(v *view) opinion {
	if len(v.state.PeerCertificates) == 0 {
		return opinion{value: "none", why: "the service shows no certificate"}
	}
	switch key := v.state.PeerCertificates[0].PublicKey.(type) {
	case *ecdsa.PublicKey:
		return opinion{
			value: "ECDSA " + key.Params().Name,
			why:   "a signature is cheap for the server",
		}
	case ed25519.PublicKey:
		return opinion{value: "Ed25519", why: "a signature is cheap for the server"}
	case *rsa.PublicKey:
		o := opinion{
			value:       fmt.Sprintf("RSA-%d", key.N.BitLen()),
			advise:      true,
			recommended: "ECDSA P-256",
			why: "the signature is most of what a handshake costs the server; " +
				"ECDSA's costs a small part of it. Clients of the last ten years take both",
			command: "openssl ecparam -name prime256v1 -genkey -noout -out key.pem " +
				"# and a certificate for it; certbot: --key-type ecdsa",
		}
		if key.N.BitLen() > 2048 {
			o.why = "the signature costs five times what RSA-2048's does and more, " +
				"and that is most of a handshake already; ECDSA's costs a small part of it"
		}
		return o
	}
	return opinion{value: "unknown", why: "the key is of a kind that this program does not know"}
}

func judgeValidity(v *view) opinion {
	if len(v.state.PeerCertificates) == 0 {
		return opinion{value: "none", why: "the service shows no certificate"}
	}
	until := v.state.PeerCertificates[0].NotAfter
	left := until.Sub(v.now)
	o := opinion{
		value: fmt.Sprintf("until %s", until.UTC().Format("2006-01-02 15:04")),
		why:   fmt.Sprintf("%.0f days are left", left.Hours()/24),
	}
	show := fmt.Sprintf("openssl s_client -connect %v -servername %s </dev/null | "+
		"openssl x509 -noout -dates -subject -issuer", v.remote, format.Clean(v.host))
	switch {
	case left < 0:
		o.advise, o.recommended, o.why = true, "a new one, now", "it is over, and clients refuse it"
	case left < soon:
		o.advise, o.recommended = true, "a new one"
		o.why = fmt.Sprintf("%.0f days are left; what renews certificates by itself would "+
			"have done so by now", left.Hours()/24)
	case v.trusted != nil:
		o.advise, o.recommended = true, "one that clients trust"
		o.why = "this machine does not trust it: " + format.Clean(v.trusted.Error())
	}
	if o.advise {
		o.command = show
	}
	return o
}
