// Command nginxupstream is an nginx that asks the service behind it over TLS and keeps none of its
// connections: nginx speaks HTTP/1.0 to a service and closes, unless it is told otherwise. Each
// request begins with a connection and a handshake.
//
// Cured, nginx speaks HTTP/1.1 and each of its workers keeps 128 connections.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/work"
)

func main() { front.Main(shop) }

func shop(cured bool) (*front.Site, error) {
	certificate, err := selfsigned.ECDSA()
	if err != nil {
		return nil, err
	}
	pool, version := "", ""
	if cured {
		pool = "keepalive 128; keepalive_requests 1000000;"
		version = `proxy_http_version 1.1; proxy_set_header Connection "";`
	}
	service := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, work.Do(2))
		}),
	}
	return &front.Site{
		Service: service,
		Wrap: func(l net.Listener) net.Listener {
			return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}})
		},
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, behind, pool, listen, version)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    upstream shop { server %s; %s }
    server {
        listen %s backlog=4096;
        location / { proxy_pass https://shop; %s }
    }
}
`
