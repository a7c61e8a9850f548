package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// visitTimeout bounds every single request of a visit.
	visitTimeout = 10 * time.Second
	// visitors is how many requests of one kind are under way at once.
	visitors = 8
	// maxAnswer is the longest body a visitor reads; the shop's are under 2 KB.
	maxAnswer = 64 << 10
)

// Visitor sends a fixed set of requests, good and bad ones, to a gateway in front of the shop.
type Visitor struct {
	// HTTP and HTTPS are the gateway's listeners, each "host:port".
	HTTP, HTTPS string
	// Certificate is the PEM that the HTTPS listener's certificate is checked against.
	Certificate []byte
	// Stock is how many pieces of each item the shop was opened with; nobody else may have bought.
	Stock int64
}

// Row is what came of the requests of one kind.
type Row struct {
	// Kind names the requests, and Over what they were sent over: "http", "https" or "both".
	Kind, Over string
	// Sent is how many there were.
	Sent int
	// Statuses counts the answers by status, and Wanted is what it had to be.
	Statuses, Wanted map[int]int
	// Problems are the first few things that were wrong beside statuses: failures, and answers with
	// a wrong content.
	Problems []string
	// P50 and P99 of the answers' times.
	P50, P99 time.Duration
}

// kind is one kind of request: how many, and how one is sent. send returns the answer's status, and
// what was wrong with it.
type kind struct {
	name, over string
	count      int
	wanted     map[int]int
	send       func(ctx context.Context, i int) (status int, err error)
}

// Visit sends all the requests and returns a row for each kind. It fails only when it cannot begin.
// When ctx ends, the requests left fail.
func (v Visitor) Visit(ctx context.Context) ([]Row, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(v.Certificate) {
		return nil, errors.New("the demo's certificate is not PEM")
	}
	client := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			MaxIdleConnsPerHost: visitors,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	defer client.CloseIdleConnections()
	var rows []Row
	for _, k := range append(v.goodKinds(client), v.badKinds()...) {
		rows = append(rows, k.run(ctx))
	}
	return rows, nil
}

func (k kind) run(ctx context.Context) Row {
	row := Row{Kind: k.name, Over: k.over, Sent: k.count, Statuses: map[int]int{}, Wanted: k.wanted}
	var (
		took   []time.Duration
		mu     sync.Mutex
		all    sync.WaitGroup
		places = make(chan struct{}, visitors)
	)
	for i := range k.count {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			one, cancel := context.WithTimeout(ctx, visitTimeout)
			defer cancel()
			began := time.Now()
			status, err := k.send(one, i)
			elapsed := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, elapsed)
			if status != 0 {
				row.Statuses[status]++
			}
			if err != nil && len(row.Problems) < 3 {
				row.Problems = append(row.Problems, err.Error())
			}
		})
	}
	all.Wait()
	row.P50, row.P99 = percentile(took, 50), percentile(took, 99)
	return row
}

func (v Visitor) goodKinds(client *http.Client) []kind {
	on := func(i int) string {
		if i%2 == 0 {
			return "http://" + v.HTTP
		}
		return "https://" + v.HTTPS
	}
	get := func(
		path string, check func(*http.Response, []byte) error,
	) func(context.Context, int) (int, error) {
		return func(ctx context.Context, i int) (int, error) {
			return exchange(ctx, client, "GET", on(i)+path, nil, check)
		}
	}
	buy := func(item string, body func() io.Reader) func(context.Context, int) (int, error) {
		return func(ctx context.Context, i int) (int, error) {
			return exchange(ctx, client, "POST", on(i)+"/api/v1/items/"+item+"/buy", body(), nil)
		}
	}
	sold, refused := int(v.Stock), 30
	return []kind{
		{"GET /api/v1/items", "both", 100, map[int]int{200: 100}, get("/api/v1/items", isList)},
		{
			"GET /api/v1/items/{id}",
			"both",
			100,
			map[int]int{200: 100},
			get("/api/v1/items/2", isItem("2")),
		},
		{
			"GET /items/{id}, rewritten",
			"both",
			20,
			map[int]int{200: 20},
			get("/items/4", isItem("4")),
		},
		{"GET /api/v1/items/99", "both", 10, map[int]int{404: 10}, get("/api/v1/items/99", nil)},
		{"GET /, redirected", "both", 10, map[int]int{307: 10}, get("/", nil)},
		{"GET /health, by the gateway", "both", 20, map[int]int{200: 20}, get("/health", nil)},
		{"GET /nowhere", "both", 10, map[int]int{404: 10}, get("/nowhere", nil)},
		{"POST buy until sold out", "both", sold + refused, map[int]int{200: sold, 409: refused},
			buy("3", func() io.Reader { return strings.NewReader(`{"pieces":1}`) })},
		// A reader of unknown length makes net/http send chunks.
		{"POST buy, chunked", "both", 20, map[int]int{200: 20},
			buy("1", func() io.Reader {
				return io.MultiReader(strings.NewReader(`{"pieces"`), strings.NewReader(`:1}`))
			})},
	}
}

// exchange sends one request and reads its answer whole.
func exchange(ctx context.Context, client *http.Client, method, url string, body io.Reader,
	check func(*http.Response, []byte) error) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return response.StatusCode, err
	}
	if check != nil {
		err = check(response, content)
	}
	return response.StatusCode, err
}

func isList(r *http.Response, body []byte) error {
	var items []Item
	if err := json.Unmarshal(body, &items); err != nil || len(items) == 0 {
		return fmt.Errorf("the list of items came as %q", head(body))
	}
	return hasRequestID(r)
}

func isItem(id string) func(*http.Response, []byte) error {
	return func(_ *http.Response, body []byte) error {
		var item Item
		if err := json.Unmarshal(body, &item); err != nil || item.ID != id {
			return fmt.Errorf("item %s came as %q", id, head(body))
		}
		return nil
	}
}

func hasRequestID(r *http.Response) error {
	if r.Header.Get("X-Request-Id") == "" {
		return errors.New("the answer has no X-Request-Id")
	}
	return nil
}

func head(b []byte) []byte { return bytes.TrimSpace(b[:min(len(b), 60)]) }
