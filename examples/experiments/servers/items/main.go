// Command items lists goods as JSON and keeps many more in memory, as a service with a cache does:
// the server of keepalive.yaml, gogc.yaml, build.yaml and somaxconn.yaml.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"time"

	"plimsoll/examples/experiments/servers/catalog"
)

func main() {
	keepalive := flag.Bool("keepalive", true, "keep connections open between requests")
	cached := flag.Int("cache", 0, "keep so many goods in memory")
	profile := flag.String("profile", "",
		"serve nobody: work for two seconds, and write what the processor did to this file")
	listen, metrics := catalog.Addresses()
	cache := catalog.Items(*cached)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(catalog.Items(catalog.Shown))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-Cached", fmt.Sprint(len(cache)))
		// The error cannot be reported to a client that has gone.
		_, _ = w.Write(body)
	})
	if *profile != "" {
		if err := work(mux, *profile); err != nil {
			log.Fatal(err)
		}
		return
	}
	catalog.Metrics(metrics)
	server := &http.Server{Addr: listen, Handler: mux}
	server.SetKeepAlivesEnabled(*keepalive)
	log.Fatal(server.ListenAndServe())
}

// work serves requests that nobody sent, and writes a processor profile of it: what a build with
// -pgo learns from.
func work(handler http.Handler, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/items", nil))
	}
	pprof.StopCPUProfile()
	return f.Close()
}
