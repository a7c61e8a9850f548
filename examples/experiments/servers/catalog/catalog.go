// Package catalog is what the servers of the experiments have in common: the goods they list, their
// flags, and a page of metrics of Go's runtime. It is small on purpose, so that what a server costs
// is the server's own.
package catalog

import (
	"flag"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Item is one of the goods.
type Item struct {
	ID    int      `json:"id"`
	Name  string   `json:"name"`
	Cents int      `json:"cents"`
	Tags  []string `json:"tags"`
}

// Items are so many goods, made again for each call as if they came from a database.
func Items(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{
			ID:    i,
			Name:  "a thing that is on sale",
			Cents: 100 * (i + 1),
			Tags:  []string{"new", "cheap"},
		}
	}
	return items
}

// Shown is how many goods a page lists.
const Shown = 20

// Addresses reads the flags that every server has: where it serves, and where its metrics are.
func Addresses() (serve, metrics string) {
	at := flag.String("listen", "127.0.0.1:8080", "serve here")
	admin := flag.String("metrics", "", "serve /metrics here; empty serves none")
	flag.Parse()
	return *at, *admin
}

// Metrics serves /metrics at an address, beside the server, so that they cost every server the
// same. It returns at once.
func Metrics(address string) {
	if address == "" {
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { log.Fatal(http.ListenAndServe(address, mux)) }()
}
