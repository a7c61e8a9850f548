// Command barges tells whether a barge may enter a canal. It asks the canal's office over HTTPS, and
// as the status of the answer says all that it wants to know, it closes the body without reading it.
// A connection with an answer that is not read cannot be used again, so that each question begins
// with a TLS handshake. Nothing is shown.
//
// Cured, the body is read before it is closed.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	barges = 3000
	most   = 4096 // bytes of an answer that are read
)

// office says who may enter. Any goroutine may ask it.
type office struct {
	url    string
	client http.Client
	cured  bool
}

// admits asks for a barge.
func (o *office) admits(ctx context.Context, barge int) (bool, error) {
	url := fmt.Sprintf("%s/permits/%d", o.url, barge)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	answer, err := o.client.Do(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	if o.cured {
		_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, most))
	}
	return answer.StatusCode == http.StatusOK, err
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	barge := rand.IntN(barges)
	admitted, err := o.admits(r.Context(), barge)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	body, err := json.Marshal(map[string]any{
		"barge": barge, "admitted": admitted, "seal": work.Do(3),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

// trusted are the certificates in a file; those of the machine where there is none.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_CERTIFICATE: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool, nil
}

func open(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_SERVICE")
	pool, err := trusted(os.Getenv("PATIENT_CERTIFICATE"))
	if address == "" {
		err = cmp.Or(err, errors.New("PATIENT_SERVICE is not set: give it as HOST:PORT, "+
			"or let bench/patients.py start one"))
	}
	if err != nil {
		return nil, err
	}
	return &office{url: "https://" + address, cured: p.Cured, client: http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: pool},
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     2 * time.Minute,
		},
	}}, nil
}

func main() { ward.Main(open) }
