// Command nginxconnections is an nginx whose two workers may have 16 connections open each, to
// clients and to the service behind together. When these are taken, clients are turned away.
//
// Cured, worker_connections is 4096.
package main

import (
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

// waits is how long the service behind waits for something else before it works.
const waits = 15 * time.Millisecond

func main() { front.Main(shop) }

func shop(cured bool) (*front.Site, error) {
	connections := 16
	if cured {
		connections = 4096
	}
	service := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(waits)
			fmt.Fprintln(w, work.Do(5))
		}),
	}
	return &front.Site{
		Service: service,
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, connections, behind, listen)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections %d; }
http {
    access_log off;
    keepalive_requests 1000000;
    upstream shop { server %s; keepalive 256; }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass http://shop;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
