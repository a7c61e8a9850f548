// Command taffrails quotes for the rail around a vessel's stern: it cuts the sections from planks,
// and asks the timber yard, over HTTPS, how many planks it has. The client that asks trusts the
// yard's certificate and no other. It is made for each question, with a transport of its own, and
// its connections are closed afterwards, so each request shakes hands with the yard anew.
//
// Cured, the service has one client, which keeps its connections.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// plank is how long a plank of the yard is, in centimetres.
	plank = 420
	// sections are what a rail is made of.
	sections = 24
	// connections to the yard are kept, as many as requests may wait for it at once.
	connections = 1000
	// drawing is how much work it is to draw a rail.
	drawing = 2
)

func main() { ward.Main(quotes) }

func quotes(p *ward.Patient) (http.Handler, error) {
	yard, err := newYard(p.Cured)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rail := measure()
		planks := cut(rail)
		stock, err := yard.stock(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, quote(planks, stock))
	}), nil
}

// yard is the timber yard. Any goroutine may ask it.
type yard struct {
	address string
	trusted *x509.CertPool
	kept    *http.Client // nil where each question has a client of its own
}

func newYard(cured bool) (*yard, error) {
	address, file := os.Getenv("PATIENT_SERVICE"), os.Getenv("PATIENT_CERTIFICATE")
	if address == "" || file == "" {
		return nil, errors.New("PATIENT_SERVICE and PATIENT_CERTIFICATE are not set: " +
			"give the yard as 127.0.0.1:443, and a file with its certificate")
	}
	certificate, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_CERTIFICATE: %w", err)
	}
	y := &yard{address: address, trusted: x509.NewCertPool()}
	if !y.trusted.AppendCertsFromPEM(certificate) {
		return nil, fmt.Errorf("PATIENT_CERTIFICATE: %s has no certificate", file)
	}
	if cured {
		y.kept = y.client()
	}
	return y, nil
}

// client makes a client that trusts the yard, and nobody else.
func (y *yard) client() *http.Client {
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: y.trusted},
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     time.Minute,
		},
	}
}

// stock asks how many planks the yard has.
func (y *yard) stock(ctx context.Context) (int, error) {
	client := y.kept
	if client == nil {
		client = y.client()
		defer client.CloseIdleConnections()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+y.address, nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask the yard: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the yard answered %s", answer.Status)
	}
	says, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
	if err != nil {
		return 0, fmt.Errorf("read what the yard says: %w", err)
	}
	var planks int
	if _, err := fmt.Sscanf(string(says), "%d in stock", &planks); err != nil {
		return 0, fmt.Errorf("the yard says %q: %w", says, err)
	}
	return planks, nil
}

// measure returns how long the sections of some vessel's rail are, in centimetres.
func measure() []int {
	rail := make([]int, sections)
	for i := range rail {
		rail[i] = 40 + rand.IntN(plank/2)
	}
	return rail
}

// cut returns which sections are cut from each plank. The longest are cut first, each from the
// first plank that is long enough.
func cut(rail []int) (planks [][]int) {
	slices.SortFunc(rail, func(a, b int) int { return b - a })
	var left []int
	for _, section := range rail {
		i := slices.IndexFunc(left, func(l int) bool { return l >= section })
		if i < 0 {
			i = len(left)
			left, planks = append(left, plank), append(planks, nil)
		}
		left[i] -= section
		planks[i] = append(planks[i], section)
	}
	return planks
}

// quote is what the customer is told.
func quote(planks [][]int, stock int) string {
	page := strings.Builder{}
	for i, from := range planks {
		waste := plank
		for _, section := range from {
			waste -= section
		}
		fmt.Fprintf(&page, "plank %d: %v cm, waste %d cm\n", i+1, from, waste)
	}
	when := "at once"
	if len(planks) > stock {
		when = fmt.Sprintf("when %d more planks have come", len(planks)-stock)
	}
	fmt.Fprintf(&page, "%d planks, %s\ndrawing %s\n", len(planks), when, work.Do(drawing))
	return page.String()
}
