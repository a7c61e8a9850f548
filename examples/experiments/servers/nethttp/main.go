// Command nethttp lists goods as JSON with the standard library's server: one of the three of
// frameworks.yaml.
package main

import (
	"encoding/json"
	"log"
	"net/http"

	"plimsoll/examples/experiments/servers/catalog"
)

func main() {
	listen, metrics := catalog.Addresses()
	catalog.Metrics(metrics)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(catalog.Items(catalog.Shown))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		// The error cannot be reported to a client that has gone.
		_, _ = w.Write(body)
	})
	log.Fatal(http.ListenAndServe(listen, mux))
}
