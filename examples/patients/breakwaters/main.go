// Command breakwaters is an nginx in front of a service that tells how high the waves are behind a
// breakwater, which listens with TLS at two ports. Somebody added least_conn at the end of the
// upstream block, where it undoes the keepalive before it: nginx says in a warning that the method
// was redefined, and keeps no connection, so that each request begins with a TLS handshake.
//
// Cured, keepalive comes after least_conn.
package main

import (
	"crypto/tls"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/work"
)

const (
	places = 90 // behind breakwaters
	keep   = "keepalive 256; keepalive_requests 1000000;"
	least  = "least_conn;"
)

// behind is how much of a wave is left at a place, by the angle at which it comes.
func behind(place int, metres, angle float64) float64 {
	open := 0.2 + float64(place*37%60)/100
	return metres * open * math.Abs(math.Cos(angle+float64(place)/9))
}

func waves(w http.ResponseWriter, _ *http.Request) {
	place, metres, angle := rand.IntN(places), 4*rand.Float64(), math.Pi*rand.Float64()
	fmt.Fprintf(w, "%d %.2f %.2f %s\n", place, metres, behind(place, metres, angle), work.Do(2))
}

func main() { front.Main(coast) }

func coast(cured bool) (*front.Site, error) {
	certificate, err := selfsigned.ECDSA()
	if err != nil {
		return nil, err
	}
	secure := func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}
	service := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       5 * time.Minute,
		Handler:           http.HandlerFunc(waves),
	}
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen at the second port: %w", err)
	}
	go service.Serve(secure(second)) // until front closes the service
	one, other := keep, least
	if cured {
		one, other = least, keep
	}
	return &front.Site{
		Service: service,
		Wrap:    secure,
		Config: func(listen, first string) string {
			return fmt.Sprintf(config, first, second.Addr(), one, other, listen)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    upstream waves {
        server %s;
        server %s;
        %s
        %s
    }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass https://waves;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
