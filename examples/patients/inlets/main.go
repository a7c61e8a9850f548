// Command inlets is an nginx in front of a service that draws up the list of a coast's inlets with
// the tides in them. The list is the same for all for a minute, and proxy_cache is set. But the
// service says nothing of how long an answer may be kept, and there is no proxy_cache_valid, so
// nginx keeps none: each request goes to the service, which is busy with the list all the time.
//
// Cured, proxy_cache_valid has nginx keep an answer for a minute.
package main

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

const (
	inlets = 1400
	// drawing is what else a list takes, in tenths of a millisecond.
	drawing = 5
)

// tide is how high the water stands in an inlet, in metres.
func tide(inlet int, at time.Time) float64 {
	hours := float64(at.Unix()) / 3600
	late := float64(inlet%90) / 20
	moon := 1.9 * math.Cos(2*math.Pi*(hours-late)/12.4206)
	return moon + 0.6*math.Cos(2*math.Pi*(hours-late)/12)
}

func list(w http.ResponseWriter, _ *http.Request) {
	now := time.Now().Truncate(time.Minute)
	seal := work.Do(drawing)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for inlet := range inlets {
		fmt.Fprintf(w, "inlet %03d: %.2f m now, %.2f m in an hour, %.2f m in two\n", inlet,
			tide(inlet, now), tide(inlet, now.Add(time.Hour)), tide(inlet, now.Add(2*time.Hour)))
	}
	fmt.Fprintln(w, seal)
}

func main() { front.Main(coast) }

func coast(cured bool) (*front.Site, error) {
	valid := ""
	if cured {
		valid = "proxy_cache_valid 200 1m;"
	}
	return &front.Site{
		Service: &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       5 * time.Minute,
			Handler:           http.HandlerFunc(list),
		},
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, behind, listen, valid)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    proxy_cache_path cache keys_zone=lists:1m;
    gzip on;
    gzip_types text/plain;
    gzip_proxied any;
    gzip_comp_level 6;
    upstream inlets {
        server %s;
        keepalive 128;
        keepalive_requests 1000000;
    }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass http://inlets;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffers 8 16k;
            proxy_cache lists;
            %s
        }
    }
}
`
