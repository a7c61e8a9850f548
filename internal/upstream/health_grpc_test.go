package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
)

// serveGRPC runs a server of grpc-go on a listener until the test ends.
func serveGRPC(t *testing.T, l net.Listener, o ...grpc.ServerOption) *health.Server {
	t.Helper()
	server, states := grpc.NewServer(o...), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, states)
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return states
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// probeGRPC asks a real server once for a service.
func probeGRPC(t *testing.T, address, service string, change func(*Options)) error {
	t.Helper()
	return probeFor(t, address, service, func(o *Options) {
		o.Active = &ActiveOptions{GRPC: &GRPCHealth{Service: service}}
		if change != nil {
			change(o)
		}
	})
}

// expectProbe fails the test unless a check was good, where want is empty, or failed with an error
// that says want.
func expectProbe(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

func TestAProbeByGRPCBelievesTheService(t *testing.T) {
	l := loopback(t)
	states := serveGRPC(t, l)
	states.SetServingStatus("users.v1.Users", grpc_health_v1.HealthCheckResponse_SERVING)
	states.SetServingStatus("bad", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	states.SetServingStatus("new", grpc_health_v1.HealthCheckResponse_UNKNOWN)
	states.SetServingStatus("odd", 7)
	for service, want := range map[string]string{
		"": "", "users.v1.Users": "", "bad": "the service is NOT_SERVING", "new": "the service is UNKNOWN",
		"odd": "in state 7", "unheard.of": "grpc-status NOT_FOUND",
	} {
		expectProbe(t, service, probeGRPC(t, l.Addr().String(), service, nil), want)
	}
	states.Shutdown()
	expectProbe(t, "afterwards", probeGRPC(t, l.Addr().String(), "", nil), "the service is NOT_SERVING")
}

func TestAProbeByGRPCOfAServerWithoutTheHealthService(t *testing.T) {
	l := loopback(t)
	server := grpc.NewServer()
	go server.Serve(l)
	defer server.Stop()
	expectProbe(t, "it", probeGRPC(t, l.Addr().String(), "", nil), "grpc-status UNIMPLEMENTED")
}

// borrowedCertificate is that of httptest, for 127.0.0.1 and example.com, and whom to trust for it.
func borrowedCertificate() (tls.Certificate, *x509.CertPool) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.TLS.Certificates[0], roots
}

func TestAProbeByGRPCOverTLS(t *testing.T) {
	certificate, roots := borrowedCertificate()
	l := loopback(t)
	serveGRPC(t, l, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	for name, c := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"trusted":     {&tls.Config{RootCAs: roots}, ""},
		"server name": {&tls.Config{RootCAs: roots, ServerName: "example.com"}, ""},
		"other name":  {&tls.Config{RootCAs: roots, ServerName: "elsewhere.test"}, "elsewhere.test"},
		"untrusted":   {&tls.Config{RootCAs: x509.NewCertPool()}, "unknown authority"},
		"verified":    {&tls.Config{RootCAs: roots, VerifyConnection: refuseConnection}, "not this one"},
		"plain text":  {nil, " "},
	} {
		expectProbe(t, name, probeGRPC(t, l.Addr().String(), "", func(o *Options) { o.TLS = c.config }), c.want)
	}
}

func refuseConnection(tls.ConnectionState) error { return errNotThisOne }

type testError string

func (e testError) Error() string { return string(e) }

const errNotThisOne = testError("not this one")

func TestAProbeByGRPCNeedsHTTP2(t *testing.T) {
	certificate, roots := borrowedCertificate()
	for name, c := range map[string]struct {
		offered []string
		want    string
	}{
		"TLS without ALPN":          {nil, "does not offer HTTP/2"},
		"TLS with HTTP/1.1 in ALPN": {[]string{"http/1.1"}, "no application protocol"},
	} {
		config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: c.offered}
		l := tls.NewListener(loopback(t), config)
		var shaken sync.WaitGroup
		shaken.Go(func() {
			if conn, err := l.Accept(); err == nil {
				io.Copy(io.Discard, conn) // the handshake, and then nothing
				conn.Close()
			}
		})
		err := probeGRPC(t, l.Addr().String(), "", func(o *Options) { o.TLS = &tls.Config{RootCAs: roots} })
		expectProbe(t, name, err, c.want)
		shaken.Wait()
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	if err := probeGRPC(t, plain.Listener.Addr().String(), "", nil); err == nil {
		t.Error("a server of HTTP/1.1 is well")
	}
}

func TestAProbeByGRPCOverAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveGRPC(t, l)
	expectProbe(t, "it", probeGRPC(t, "unix:"+path, "", nil), "")
}

// HTTP/2 without TLS, which answers as a test says.
func serveH2C(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	l := loopback(t)
	server := &http.Server{Handler: answer, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	t.Cleanup(func() { server.Close(); <-done })
	return l.Addr().String()
}

func TestAProbeByGRPCIsAWellFormedCall(t *testing.T) {
	address := serveH2C(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := strings.Join([]string{
			r.Proto, r.Method, r.URL.Path, r.Host, r.Header.Get("Content-Type"), r.Header.Get("Te"),
			r.Header.Get("User-Agent"), string(body),
		}, "|")
		const want = "HTTP/2.0|POST|/grpc.health.v1.Health/Check|health.example|application/grpc|trailers|" +
			"plimsoll-health|\x00\x00\x00\x00\x05\x0a\x03abc"
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if left := r.Header.Get("Grpc-Timeout"); !strings.HasSuffix(left, "u") || len(left) != 8 {
			t.Errorf("of ten seconds grpc-timeout is %q", left)
		}
		grpcAnswer("\x08\x01", "0")(w, r)
	})
	err := probeGRPC(t, address, "abc", func(o *Options) { o.Active.Host = "health.example" })
	expectProbe(t, "it", err, "")
}

// grpcAnswer answers with a message and a status.
func grpcAnswer(message, status string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
		io.WriteString(w, string(head)+message)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
	}
}

func TestAProbeByGRPCOfAnswersThatMakeNoSense(t *testing.T) {
	plain := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		block := make([]byte, 64<<10)
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	const serving = "\x08\x01"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"well":                        {grpcAnswer(serving, "0"), ""},
		"other fields too":            {grpcAnswer("\x12\x01x\x08\x01\x18\x05", "0"), ""},
		"twice, the last counts":      {grpcAnswer("\x08\x02\x08\x01", "0"), ""},
		"twice, the last is bad":      {grpcAnswer("\x08\x01\x08\x02", "0"), "NOT_SERVING"},
		"no state":                    {grpcAnswer("", "0"), "the service is UNKNOWN"},
		"a state that is unknown":     {grpcAnswer("\x08\xff\xff\xff\xff\x0f", "0"), "in state 4294967295"},
		"a state of another type":     {grpcAnswer("\x0a\x01\x01", "0"), "not one HealthCheckResponse"},
		"half a field":                {grpcAnswer("\x08", "0"), "not one HealthCheckResponse"},
		"two messages":                {grpcAnswer(serving+"\x00\x00\x00\x00\x00", "0"), "not one HealthCheckResponse"},
		"serving and an error":        {grpcAnswer(serving, "13"), "grpc-status INTERNAL"},
		"a code that is not known":    {grpcAnswer(serving, "99"), "grpc-status UNKNOWN"},
		"a status that is not a code": {grpcAnswer(serving, "fine"), "no grpc-status"},
		"a compressed message":        {raw("\x01\x00\x00\x00\x02" + serving), "not one HealthCheckResponse"},
		"half a message":              {raw("\x00\x00\x00\x00\x03" + serving), "not one HealthCheckResponse"},
		"half a head":                 {raw("\x00\x00\x00"), "not one HealthCheckResponse"},
		"a body without end":          {endless, "65536 bytes or more"},
		"200 of a web server":         {plain(200, "text/html", "<p>well"), "not application/grpc"},
		"200 without a status":        {plain(200, "application/grpc", ""), "no grpc-status"},
		"503 of a proxy in between":   {plain(503, "application/grpc", ""), "status 503"},
	} {
		expectProbe(t, name, probeGRPC(t, serveH2C(t, c.answer), "", nil), c.want)
	}
}

// raw answers OK with a body as it is.
func raw(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		io.WriteString(w, body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}
}

func TestAProbeByGRPCEndsWithItsTime(t *testing.T) {
	silent := loopback(t) // accepts, by the kernel, and says nothing
	o := DefaultOptions(silent.Addr().String())
	o.Active = &ActiveOptions{GRPC: &GRPCHealth{}}
	u := newWorld(t, 1).upstream(o)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := u.probe(ctx, u.set.Load().targets[0], ""); err == nil || ctx.Err() == nil {
		t.Errorf("got %v, before its time: %v", err, ctx.Err() == nil)
	}
}

// FuzzHealthState compares with the generated code of grpc-go.
func FuzzHealthState(f *testing.F) {
	for _, seed := range []string{"", "\x08\x01", "\x08\x02\x08\x01", "\x12\x01x\x08\x01", "\x0a\x01\x01", "\x08"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
		err := healthState(append(head, message...))
		theirs, ok := unmarshalHealth(message)
		if serving := ok && theirs == grpc_health_v1.HealthCheckResponse_SERVING; serving != (err == nil) {
			t.Errorf("%x: got %v; grpc-go reads %v %v", message, err, theirs, ok)
		}
	})
}

func TestHealthRequestIsThatOfGRPC(t *testing.T) {
	for _, service := range []string{"", "a", "users.v1.Users", strings.Repeat("x", 300)} {
		body := healthRequest(service)
		want := marshalHealth(t, service)
		if string(body[5:]) != string(want) || int(binary.BigEndian.Uint32(body[1:])) != len(want) || body[0] != 0 {
			t.Errorf("%q: got %x, want %x behind its head", service, body, want)
		}
	}
}

func marshalHealth(t *testing.T, service string) []byte {
	t.Helper()
	b, err := proto.Marshal(&grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unmarshalHealth(message []byte) (state grpc_health_v1.HealthCheckResponse_ServingStatus, ok bool) {
	var m grpc_health_v1.HealthCheckResponse
	err := proto.Unmarshal(message, &m)
	return m.Status, err == nil
}
