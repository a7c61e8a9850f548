package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// aim is a plan of total requests, at a rate that a test need not wait for, over two connections.
func aim(t *testing.T, address string, total int) plan {
	t.Helper()
	u, err := url.Parse(address + "/a?b=c")
	if err != nil {
		t.Fatal(err)
	}
	return plan{address: u.Host, request: requestFor(u), rate: 5000, total: total, connections: 2, timeout: 5 * time.Second}
}

func TestAHealthyServerHasNoFailures(t *testing.T) {
	var asked atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() == "/a?b=c" {
			asked.Add(1)
		}
		_, _ = io.WriteString(w, "hello")
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	over := map[string]plan{"http": aim(t, plain.URL, 101), "https": aim(t, secure.URL, 101)}
	withTLS := over["https"]
	withTLS.tls = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	over["https"] = withTLS
	for name, p := range over {
		asked.Store(0)
		r := send(t.Context(), p)
		if r.Sent != 101 || r.OK != 101 || r.Failed != 0 || asked.Load() != 101 {
			t.Errorf("%s: %+v with %d asked, want 101 sent, OK and asked", name, r, asked.Load())
		}
		if r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 {
			t.Errorf("%s: p50 %v, p99 %v, max %v are not percentiles", name, r.P50, r.P99, r.Max)
		}
	}
}

func TestABadStatusIsAFailure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer server.Close()
	if r := send(t.Context(), aim(t, server.URL, 10)); r.Failed != 10 || r.Kinds["status 503"] != 10 {
		t.Errorf("%+v, want ten of status 503", r)
	}
}

func TestAnAnnouncedCloseIsNotAFailure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	defer server.Close()
	if r := send(t.Context(), aim(t, server.URL, 10)); r.OK != 10 || r.Goodbyes != 10 {
		t.Errorf("%+v, want ten OK and ten goodbyes", r)
	}
}

// answering accepts connections, reads a request from each, writes answer and closes.
func answering(t *testing.T, answer string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, answer)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); all.Wait() })
	return "http://" + listener.Addr().String()
}

func TestABrokenConnectionIsCountedByItsKind(t *testing.T) {
	for kind, answer := range map[string]string{
		"closed":    "",
		"cut":       "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
		"malformed": "hello\r\n\r\n",
	} {
		if r := send(t.Context(), aim(t, answering(t, answer), 6)); r.Kinds[kind] != 6 || r.Failed != 6 {
			t.Errorf("%s: %+v, want six of that kind", kind, r)
		}
	}
}

func TestNobodyThereIsAConnectFailure(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	listener.Close()
	if r := send(t.Context(), aim(t, address, 4)); r.Kinds["connect"] != 4 {
		t.Errorf("%+v, want four of connect", r)
	}
}

func TestSilenceIsATimeout(t *testing.T) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer server.Close()
	defer close(held)
	p := aim(t, server.URL, 2)
	p.timeout = 50 * time.Millisecond
	if r := send(t.Context(), p); r.Kinds["timeout"] != 2 {
		t.Errorf("%+v, want two of timeout", r)
	}
}

func TestTheRequestIsWhatTheURLSays(t *testing.T) {
	u, _ := url.Parse("http://a.example:8080/x?y=z")
	if got := string(requestFor(u)); !strings.HasPrefix(got, "GET /x?y=z HTTP/1.1\r\nHost: "+
		"a.example:8080\r\n") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("%q", got)
	}
}
