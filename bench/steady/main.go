// Command steady sends requests at a steady rate, whatever the answers, and counts every failure by
// its kind. The reload and upgrade measurements use it, because wrk slows down when its server does
// and so hides what went wrong.
//
// It knows HTTP/1.1 over net/http's reader, and nothing of plimsoll: it can be aimed at any server.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

// run reads the flags, sends, and prints the result as JSON.
func run() error {
	target := flag.String("url", "", "what to ask for, http or https")
	rate := flag.Float64("rate", 10000, "requests a second")
	duration := flag.Duration("duration", 30*time.Second, "how long")
	connections := flag.Int("connections", 100,
		"keep-alive connections; each holds at most one request")
	timeout := flag.Duration("timeout", 5*time.Second, "after which a request has failed")
	ca := flag.String("ca", "", "PEM file that an https server's certificate is checked against")
	flag.Parse()
	u, err := url.Parse(*target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("-url %q is not an http or https URL", *target)
	}
	if *rate <= 0 || *connections <= 0 || *timeout <= 0 || *duration <= 0 ||
		*rate*duration.Seconds() > 50e6 {
		return fmt.Errorf("-rate, -connections, -timeout and -duration must be above zero, " +
			"and the requests at most 50 million")
	}
	var secure *tls.Config
	if u.Scheme == "https" {
		pem, err := os.ReadFile(*ca)
		if err != nil {
			return fmt.Errorf("https needs -ca: %w", err)
		}
		secure = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: u.Hostname()}
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no PEM certificate", *ca)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	result := send(ctx, plan{
		address:     u.Host,
		tls:         secure,
		request:     requestFor(u),
		rate:        *rate,
		total:       int(*rate * duration.Seconds()),
		connections: *connections,
		timeout:     *timeout,
	})
	return json.NewEncoder(os.Stdout).Encode(result)
}

func requestFor(u *url.URL) []byte {
	return []byte("GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host +
		"\r\nUser-Agent: steady\r\n\r\n")
}
