// Command encoder tells clients which version of the catalogue is in force. To find out, it turns
// the whole catalogue into JSON and hashes that, for each request, though the catalogue never
// changes.
//
// Cured, it does so once.
package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// products is how many are in the catalogue.
const products = 2500

type product struct {
	Name   string   `json:"name"`
	Price  float64  `json:"price"`
	Tags   []string `json:"tags"`
	Stock  []stock  `json:"stock"`
	Rating float64  `json:"rating"`
	Hidden bool     `json:"hidden,omitempty"`
}

type stock struct {
	Shelf string `json:"shelf"`
	Count int    `json:"count"`
}

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	all := catalogue()
	kept, err := version(all)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now, err := kept, error(nil)
		if !p.Cured {
			if now, err = version(all); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		fmt.Fprintf(w, "%x %s\n", now, work.Do(3))
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
			Name:   fmt.Sprint("product ", i),
			Price:  float64(i) * 1.37,
			Tags:   []string{"new", "blue & round"},
			Stock:  []stock{{"north", i}, {"south", 2 * i}},
			Rating: float64(i%50) / 10,
		}
	}
	return all
}
