// Command topsails is an nginx in front of a service that says which sails a ship sets in the wind
// that is forecast. The service runs as eight replicas, which speak TLS. nginx keeps two idle
// connections to them, and that is for all eight together: the connection that it has kept is
// rarely one to the replica whose turn it is. So it connects to a replica for most requests, and
// both sides pay for a handshake.
//
// Cured, nginx keeps 64 idle connections.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

const (
	replicas = 8
	// host is where the replicas are, and hostname what their certificate says.
	host, hostname = "127.0.0.2", "sails.internal"
	// ships have a plan each.
	ships = 400
)

func main() { front.Main(shipyard) }

func shipyard(cured bool) (*front.Site, error) {
	certificate, err := certify()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	servers, err := serve(certificate)
	if err != nil {
		return nil, fmt.Errorf("start the replicas: %w", err)
	}
	kept := 2
	if cured {
		kept = 64
	}
	authority := pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	return &front.Site{
		Files: map[string]string{"authority.pem": string(authority)},
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, servers, kept, listen, hostname)
		},
	}, nil
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
worker_processes 2;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
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
            proxy_ssl_trusted_certificate files/authority.pem;
        }
    }
}
`
