// Command paddles is an nginx in front of the service that lends paddles, and limit_conn lets it
// have ten requests at a time from one address. That was for visitors; but a load balancer has been
// put in front of it since, so that all visitors come from one address, and who comes while ten are
// inside is turned away with 503. Nothing is shown.
//
// Cured, limit_conn is 2000, which is enough for all of them.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

const (
	// lending is what the service does for a request itself, in tenths of a millisecond.
	lending = 1
	// kept is how many connections to the boathouse may be kept: more than there ever are.
	kept = 512
)

// lender asks the boathouse which paddles are in, and picks those that fit.
type lender struct {
	boathouse string
	client    *http.Client
}

func (l *lender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	paddles, err := l.ask(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, paddles, work.Do(lending))
}

func (l *lender) ask(r *http.Request) (string, error) {
	question, err := http.NewRequestWithContext(r.Context(), http.MethodGet, l.boathouse, nil)
	if err != nil {
		return "", err
	}
	answer, err := l.client.Do(question)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the boathouse answers %s", answer.Status)
	}
	text, err := io.ReadAll(answer.Body)
	return strings.TrimSpace(string(text)), err
}

func lend(cured bool) (*front.Site, error) {
	atATime := 10
	if cured {
		atATime = 2000
	}
	boathouse := os.Getenv("PATIENT_SERVICE")
	if boathouse == "" {
		return nil, errors.New("PATIENT_SERVICE does not say where the boathouse is")
	}
	return &front.Site{
		Service: &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       5 * time.Minute,
			Handler: &lender{
				boathouse: "http://" + boathouse + "/paddles",
				client: &http.Client{
					Timeout:   10 * time.Second,
					Transport: &http.Transport{MaxIdleConns: kept, MaxIdleConnsPerHost: kept},
				},
			},
		},
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, behind, atATime, listen)
		},
	}, nil
}

func main() { front.Main(lend) }

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    upstream paddles { server %s; keepalive 256; keepalive_requests 1000000; }
    limit_conn_zone $binary_remote_addr zone=visitors:1m;
    limit_conn visitors %d;
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass http://paddles;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
