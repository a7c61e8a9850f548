// Command sealed is an nginx that speaks TLS to clients which make a connection for each request.
// ssl_session_tickets is off, as a guide had it, and there is no ssl_session_cache either, so that
// each connection costs a signature by an RSA key.
//
// Cured, there is a cache, and tickets are on.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/work"
)

// bits are those of the key.
const bits = 3072

func main() { front.Main(shop) }

func shop(cured bool) (*front.Site, error) {
	certificate, err := selfsigned.RSAOf(bits)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return nil, err
	}
	sessions := "ssl_session_tickets off;"
	if cured {
		sessions = "ssl_session_tickets on; ssl_session_cache shared:sessions:10m;"
	}
	return &front.Site{
		Files: map[string]string{
			"certificate.pem": text("CERTIFICATE", certificate.Certificate[0]),
			"key.pem":         text("PRIVATE KEY", key),
		},
		Service: &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       2 * time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintln(w, work.Do(1))
			}),
		},
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, behind, listen, sessions)
		},
	}, nil
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    upstream shop { server %s; keepalive 128; keepalive_requests 1000000; }
    server {
        listen %s ssl backlog=4096;
        ssl_certificate files/certificate.pem;
        ssl_certificate_key files/key.pem;
        ssl_protocols TLSv1.2 TLSv1.3;
        %s
        location / {
            proxy_pass http://shop;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
