// Command topsails is an nginx in front of a service that says which sails a ship sets in the wind
// that is forecast. The service runs as eight replicas, which speak TLS. nginx keeps two idle
// connections to them, and that is for all eight together: the connection that it has kept is
// seldom one to the replica whose turn it is. So it connects to a replica for most requests, and
// both sides pay for a handshake.
//
// Cured, nginx keeps 64 idle connections.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"plimsoll/examples/patients/work"
)

const (
	replicas = 8
	// host is where the replicas are, and hostname what their certificate says.
	host, hostname = "127.0.0.2", "sails.internal"
	// ships have a plan each.
	ships = 400
	// startTime is how long nginx may take until it answers, endTime how long to stop.
	startTime, endTime = 10 * time.Second, 1500 * time.Millisecond
)

func main() {
	address := flag.String("address", "127.0.0.1:18800", "where to listen; port 0 takes a free one")
	flag.String("debug", "", "there is nothing to look inside: it is taken as all patients take it")
	cured := flag.Bool("cured", false, "without the disease")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *cured); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address string, cured bool) error {
	dir, err := os.MkdirTemp("", "topsails")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	certificate, err := certify()
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	servers, err := serve(certificate)
	if err != nil {
		return fmt.Errorf("start the replicas: %w", err)
	}
	address, err = free(address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	kept := 2
	if cured {
		kept = 64
	}
	authority := pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "authority.pem"), authority, 0o644),
		os.WriteFile(filepath.Join(dir, "nginx.conf"),
			fmt.Appendf(nil, config, servers, kept, address, hostname), 0o644))
	if err != nil {
		return err
	}
	return front(ctx, dir, address)
}

// front runs nginx until ctx ends.
func front(ctx context.Context, dir, address string) error {
	// nginx is told to stop when the thread that started it ends
	runtime.LockOSThread()
	nginx := exec.Command("nginx", "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	nginx.Stderr = os.Stderr
	nginx.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := nginx.Start(); err != nil {
		return err
	}
	// workers outlive a master that was killed
	defer syscall.Kill(-nginx.Process.Pid, syscall.SIGKILL)
	ended := make(chan error, 1)
	go func() { ended <- nginx.Wait() }()
	answers := make(chan error, 1)
	go func() { answers <- await("http://" + address) }()
	for {
		select {
		case err := <-answers:
			if err != nil {
				return fmt.Errorf("nginx does not answer: %w", err)
			}
			fmt.Println("ready", address)
			answers = nil
		case err := <-ended:
			return fmt.Errorf("nginx ended: %v", err)
		case <-ctx.Done():
			nginx.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(endTime):
			}
			return nil
		}
	}
}

// await returns nil when url is answered.
func await(url string) error {
	for end := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(url)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(answer.Status)
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// free returns address, with a free port in place of port 0.
func free(address string) (string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// certify makes a certificate that vouches for itself.
func certify() (tls.Certificate, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return tls.Certificate{}, err
	}
	about := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              []string{hostname},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(30 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// serve starts the replicas, and returns them as nginx lists servers.
func serve(certificate tls.Certificate) (string, error) {
	servers := strings.Builder{}
	for range replicas {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&servers, "server %s;\n        ", l.Addr())
		server := &http.Server{
			Handler:           http.HandlerFunc(plan),
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       2 * time.Minute,
			// replicas share no keys, so none of them could resume a session of another
			TLSConfig: &tls.Config{
				Certificates:           []tls.Certificate{certificate},
				SessionTicketsDisabled: true,
			},
		}
		go func() { log.Fatal(server.ServeTLS(l, "", "")) }()
	}
	return servers.String(), nil
}

// sails are set from the first to the last as the wind drops: each has an area in square metres,
// and the strongest wind, in knots, that it stands.
var sails = []struct {
	name string
	area int
	wind int
}{
	{"fore topmast staysail", 42, 50},
	{"lower topsails", 310, 45},
	{"foresail", 230, 38},
	{"upper topsails", 340, 34},
	{"mainsail", 260, 28},
	{"topgallants", 280, 23},
	{"royals", 170, 16},
	{"flying jib", 38, 12},
}

// plan answers which sails a ship sets in each of the next hours.
func plan(w http.ResponseWriter, _ *http.Request) {
	ship := mathrand.IntN(ships)
	wind := 8 + mathrand.IntN(36)
	fmt.Fprintf(w, "ship %d\n", ship)
	for hour := range 12 {
		wind = max(3, wind+mathrand.IntN(9)-4)
		area, last := 0, "bare poles"
		for _, sail := range sails {
			if wind+ship%5 <= sail.wind {
				area, last = area+sail.area, sail.name
			}
		}
		fmt.Fprintf(w, "%+d h: %d kn, %d m2, up to %s\n", hour, wind, area, last)
	}
	fmt.Fprintln(w, "seal", work.Do(4))
}

const config = `
daemon off;
worker_processes 2;
worker_rlimit_nofile 8192;
pid nginx.pid;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream sails {
        %skeepalive %d;
        keepalive_requests 1000000;
    }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass https://sails;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_ssl_name %s;
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate authority.pem;
        }
    }
}
`
