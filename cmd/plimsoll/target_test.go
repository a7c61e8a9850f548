package main

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/rogpeppe/go-internal/testscript"
)

// service is what the lab's commands are tried on: / answers "hello", /slow does so after a while,
// so that a closed loop does not take all of the machine, /flaky says 503 to every other request,
// /echo wants a method, the field X-Word and a body.
func service() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(10 * time.Millisecond):
			io.WriteString(w, "hello")
		case <-r.Context().Done():
		}
	})
	var n atomic.Uint64
	mux.HandleFunc("/flaky", func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			http.Error(w, "no room", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1000))
		if r.Method != "POST" || r.Header.Get("X-Word") != "some words" || string(body) != "the body\n" {
			http.Error(w, "not what was asked for", http.StatusBadRequest)
		}
	})
	return mux
}

// offerTargets starts the service over http and https for a script, as $TARGET and $TLS (URLs
// without a path) and $ADDRESS (the former's host and port); ca.pem is the certificate of the
// latter's authority. Without TLS the service speaks HTTP/2 too. $QUIC is the service over HTTP/3.
func offerTargets(env *testscript.Env) error {
	plain := httptest.NewUnstartedServer(service())
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetHTTP1(true)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	env.Defer(plain.Close)
	secure := httptest.NewUnstartedServer(service())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it are part of the scripts
	secure.StartTLS()
	env.Defer(secure.Close)
	env.Setenv("TARGET", plain.URL)
	env.Setenv("ADDRESS", strings.TrimPrefix(plain.URL, "http://"))
	env.Setenv("TLS", secure.URL)
	if err := offerHTTP3(env, secure.TLS.Certificates); err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	return os.WriteFile(filepath.Join(env.WorkDir, "ca.pem"), certificate, 0o600)
}

// offerHTTP3 starts the service over HTTP/3.
func offerHTTP3(env *testscript.Env, certificates []tls.Certificate) error {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http3.Server{
		Handler:   service(),
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: certificates}),
	}
	go server.Serve(socket)
	env.Defer(func() {
		server.Close()
		socket.Close()
	})
	env.Setenv("QUIC", "https://"+socket.LocalAddr().String())
	return nil
}
