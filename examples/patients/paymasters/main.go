// Command paymasters is an nginx in front of the service that writes pay sheets. Before it passes a
// request on, auth_request has it ask the paymasters' register whether the token in it is good. The
// register looks that up in a directory and serves three at a time, and nginx asks it for each
// request, though most come with a token that it asked about a second ago. Nothing is shown.
//
// Cured, proxy_cache has nginx keep what the register says of a token for a minute.
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
	workers = 3 // of the register
	// writing is what a pay sheet takes, in tenths of a millisecond.
	writing = 3
	// role is the environment variable that makes the program the register.
	role = "PATIENT_REGISTER"
)

// register says 204 for a token that is good.
type register struct {
	directory string
	client    *http.Client
	workers   chan struct{}
}

func (g *register) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	select {
	case g.workers <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	defer func() { <-g.workers }()
	if err := g.look(r, token); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (g *register) look(r *http.Request, token string) error {
	url := g.directory + "/tokens/" + token
	question, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := g.client.Do(question)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the directory answers %s", answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// serve is the register. It prints where it listens, and serves until it is told to stop.
func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       5 * time.Minute,
		Handler: &register{
			directory: "http://" + os.Getenv("PATIENT_SERVICE"),
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

// start starts the register, which ends with us, and returns its address.
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
		return "", fmt.Errorf("start the register: %w", err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(address), err
}

func office(cured bool) (*front.Site, error) {
	cache := "off"
	if cured {
		cache = "tokens"
	}
	asked, err := start()
	if err != nil {
		return nil, err
	}
	return &front.Site{
		Service: &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       5 * time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintln(w, "pay sheet", work.Do(writing))
			}),
		},
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, behind, asked, listen, cache)
		},
	}, nil
}

func main() {
	if os.Getenv(role) == "" {
		front.Main(office)
	} else if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "register:", err)
		os.Exit(2)
	}
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    proxy_cache_path cache keys_zone=tokens:1m;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    upstream sheets { server %s; keepalive 128; keepalive_requests 1000000; }
    upstream register { server %s; keepalive 128; keepalive_requests 1000000; }
    server {
        listen %s backlog=4096;
        location / {
            auth_request /register;
            proxy_pass http://sheets;
        }
        location = /register {
            internal;
            proxy_pass http://register;
            proxy_pass_request_body off;
            proxy_cache %s;
            proxy_cache_key $http_authorization;
            proxy_cache_valid 204 1m;
            proxy_cache_lock on;
        }
    }
}
`
