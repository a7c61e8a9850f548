// Command jetties is an nginx in front of four servers that tell which jetty is free, and serve
// four requests at a time each. It has ip_hash, so that a visitor stays with a server; but as a CDN
// was put in front of it, all requests come from one address, and one server gets them all. Nothing
// is shown.
//
// Cured, there is no ip_hash, and each server gets its share.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

const (
	servers = 4
	workers = 4 // of each
	units   = 3 // of work for each request
	// role is the environment variable that makes the program one of the servers.
	role = "PATIENT_SERVER"
)

// planner is what a server does: it asks the tide gauge, and looks for a jetty that is deep enough.
type planner struct {
	gauge   string
	client  *http.Client
	workers chan struct{}
}

func (p *planner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.workers <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	defer func() { <-p.workers }()
	tide, err := p.tide(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, tide, work.Do(units))
}

func (p *planner) tide(r *http.Request) (string, error) {
	question, err := http.NewRequestWithContext(r.Context(), http.MethodGet, p.gauge, nil)
	if err != nil {
		return "", err
	}
	answer, err := p.client.Do(question)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return strings.TrimSpace(string(text)), err
}

// serve is a server. It prints where it listens, and serves until it is told to stop.
func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Handler: &planner{
			gauge: "http://" + os.Getenv("PATIENT_SERVICE"),
			client: &http.Client{
				Timeout:   10 * time.Second,
				Transport: &http.Transport{MaxIdleConnsPerHost: workers},
			},
			workers: make(chan struct{}, workers),
		},
	}
	fmt.Println(l.Addr())
	return server.Serve(l)
}

// start starts a server, which ends with us, and returns its line in nginx.conf.
func start() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	child := exec.Command("setpriv", "--pdeathsig", "TERM", "--", program)
	child.Env = append(os.Environ(), role+"=yes")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err := errors.Join(err, child.Start()); err != nil {
		return "", fmt.Errorf("start a server: %w", err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	return "server " + strings.TrimSpace(address) + ";", err
}

func harbour(cured bool) (*front.Site, error) {
	lines := []string{"ip_hash;"}
	if cured {
		lines = nil
	}
	for range servers {
		line, err := start()
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return &front.Site{Config: func(listen, _ string) string {
		return fmt.Sprintf(config, strings.Join(lines, " "), listen)
	}}, nil
}

func main() {
	if os.Getenv(role) == "" {
		front.Main(harbour)
	} else if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(2)
	}
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    upstream planners { %s keepalive 256; }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass http://planners;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
