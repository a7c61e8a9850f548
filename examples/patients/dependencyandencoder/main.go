// Command dependencyandencoder is sick in two ways. It asks a service that serves four at a time,
// which is the bottleneck; and it turns a catalogue that never changes into JSON for each request,
// to hash it, which is the bottleneck when the other service has been fixed.
//
// --cure first gives the other service 32 workers, --cure second hashes the catalogue once, --cure
// both does both.
package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// takes is how long a worker of the other service is busy with a request: long enough to be the
	// bottleneck on a slow machine too.
	takes    = 12 * time.Millisecond
	products = 2500 // in the catalogue
)

var cures = ward.Cures()

func main() { upstream.Main(shop) }

type product struct {
	Name  string   `json:"name"`
	Price float64  `json:"price"`
	Tags  []string `json:"tags"`
	Size  struct {
		Width, Height float64
	} `json:"size"`
}

func shop(p *ward.Patient) (http.Handler, error) {
	served, hashed := cures(p)
	workers := 4
	if served {
		workers = 32
	}
	warehouse, err := upstream.Start(p, workers, takes)
	if err != nil {
		return nil, err
	}
	all := catalogue()
	kept, err := version(all)
	if err != nil {
		return nil, err
	}
	find := func() (uint32, error) { return version(all) }
	if hashed {
		find = func() (uint32, error) { return kept, nil }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stock, err := warehouse.Ask(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		version, err := find()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%x %d %s\n", version, len(stock), work.Do(2))
	}), nil
}

// version is a hash of what a client would be sent.
func version(all []product) (uint32, error) {
	h := crc32.NewIEEE()
	err := json.NewEncoder(h).Encode(all)
	return h.Sum32(), err
}

func catalogue() []product {
	all := make([]product, products)
	for i := range all {
		all[i] = product{
			Name:  fmt.Sprint("product ", i),
			Price: float64(i) * 1.37,
			Tags:  []string{"new", "round"},
		}
		all[i].Size.Width, all[i].Size.Height = float64(i)/7, float64(i)/3
	}
	return all
}
