// Command lightships is an nginx that speaks TLS to those who ask in what state a lightship is, and
// asks the service behind. keepalive_timeout is 0, as somebody wrote it when the workers had few
// connections and idle clients held them, so each request begins with a handshake.
//
// Cured, a client's connection is kept for two minutes.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/work"
)

const ships = 40

// hours is for how long a ship's battery lasts, by what its lamp and its horn take.
func hours(ship int, fog float64) float64 {
	full, lamp, horn := 900+float64(ship*53%400), 2.5, 6*fog
	return full / (lamp + horn) * math.Pow(0.98, float64(ship%9))
}

func state(w http.ResponseWriter, _ *http.Request) {
	ship, fog := rand.IntN(ships), rand.Float64()
	fmt.Fprintf(w, "%d fog %.1f hours %.0f %s\n", ship, fog, hours(ship, fog), work.Do(2))
}

func main() { front.Main(watch) }

func watch(cured bool) (*front.Site, error) {
	timeout := "0"
	if cured {
		timeout = "2m"
	}
	certificate, err := selfsigned.RSA()
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return nil, err
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return &front.Site{
		Service: &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       5 * time.Minute,
			Handler:           http.HandlerFunc(state),
		},
		Files: map[string]string{
			"certificate.pem": block("CERTIFICATE", certificate.Certificate[0]),
			"key.pem":         block("PRIVATE KEY", key),
		},
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, timeout, behind, listen)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_timeout %s;
    keepalive_requests 1000000;
    upstream state { server %s; keepalive 256; keepalive_requests 1000000; }
    server {
        listen %s ssl backlog=4096;
        ssl_certificate files/certificate.pem;
        ssl_certificate_key files/key.pem;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:clients:10m;
        location / {
            proxy_pass http://state;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
