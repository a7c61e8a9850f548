// Command schooners is an nginx in front of a service that tells where a schooner is, over TLS. Its
// visitors' browsers may also follow a schooner by a WebSocket, so the Connection header that nginx
// sends on is made by the map that is in every guide: "upgrade" for who asks for an upgrade, and
// "close" for all others. keepalive is set, but has nothing to keep: the service closes each
// connection, as it was told to, and each request begins with a TLS handshake.
//
// Cured, the map sends an empty Connection header for all others.
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

// schooners are under way, each from its port on its course.
const schooners = 240

// position is where a schooner is after so many hours, in degrees.
func position(schooner int, hours float64) (north, east float64) {
	knots := 4 + float64(schooner*31%50)/10
	course := float64(schooner*17%360) * math.Pi / 180
	miles := knots * hours
	north = 40 + miles*math.Cos(course)/60
	return north, -30 + miles*math.Sin(course)/60/math.Cos(north*math.Pi/180)
}

func where(w http.ResponseWriter, _ *http.Request) {
	schooner := rand.IntN(schooners)
	north, east := position(schooner, 48*rand.Float64())
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"schooner":%d,"north":%.4f,"east":%.4f,"seal":%q}`+"\n",
		schooner, north, east, work.Do(2))
}

func main() { front.Main(bay) }

func bay(cured bool) (*front.Site, error) {
	certificate, err := selfsigned.ECDSA()
	if err != nil {
		return nil, err
	}
	others := "close"
	if cured {
		others = ""
	}
	return &front.Site{
		Service: &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       5 * time.Minute,
			Handler:           http.HandlerFunc(where),
		},
		Wrap: func(l net.Listener) net.Listener {
			return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}})
		},
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, others, behind, listen)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    map $http_upgrade $connection_upgrade {
        default upgrade;
        '' '%s';
    }
    upstream schooners {
        server %s;
        keepalive 128;
        keepalive_requests 1000000;
    }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass https://schooners;
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
        }
    }
}
`
