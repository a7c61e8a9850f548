// Command boatyard is an nginx whose two workers may have 28 descriptors open each, as somebody
// wrote worker_rlimit_nofile for a smaller machine. Each request takes two, to the client and to
// the service behind, which waits 60 ms; and what comes beyond cannot be accepted.
//
// Cured, worker_rlimit_nofile is 16384.
package main

import (
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

// waits is how long the service behind waits for something else before it works.
const waits = 60 * time.Millisecond

const few, many = 28, 16384

func main() { front.Main(yard) }

func yard(cured bool) (*front.Site, error) {
	descriptors := few
	if cured {
		descriptors = many
	}
	service := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(waits)
			fmt.Fprintln(w, work.Do(2))
		}),
	}
	return &front.Site{
		Service: service,
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, descriptors, behind, listen)
		},
	}, nil
}

const config = `
worker_processes 2;
worker_rlimit_nofile %d;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    upstream yard { server %s; keepalive 256; }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass http://yard;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
