// Command charthouses is an nginx that serves the catalogue of a chart house, a JSON file of 35 KB
// that is made each night, and compresses it for each client. Somebody read that the highest level
// is the best, and set gzip_comp_level to 9: zlib then looks at ever more places where a piece of
// the text may have stood before, and gains next to nothing by it. perf is allowed.
//
// Cured, gzip_comp_level is 5.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"plimsoll/examples/patients/front"
)

// best and enough are levels of compression.
const best, enough = 9, 5

// charts is how many the catalogue has.
const charts = 140

type chart struct {
	Number    string    `json:"number"`
	Title     string    `json:"title"`
	Scale     string    `json:"scale"`
	Corner    []float64 `json:"corner"`
	Edition   string    `json:"edition"`
	Soundings string    `json:"soundings"`
}

// catalogue is the same at each start, so that all measure the same file.
func catalogue() (string, error) {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]chart, charts)
	for i := range all {
		all[i] = chart{
			Number:    fmt.Sprintf("INT %d", 1000+3*i),
			Title:     fmt.Sprintf("Approaches to port %d, sheet %d", i/4, i%4+1),
			Scale:     fmt.Sprintf("1:%d000", 10+5*random.IntN(40)),
			Corner:    []float64{50 + float64(random.IntN(999))/100, float64(random.IntN(999)) / 100},
			Edition:   fmt.Sprintf("%d-%02d", 1990+random.IntN(36), 1+random.IntN(12)),
			Soundings: soundings(random),
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	return string(text), err
}

// soundings are the depths along the middle of a chart, in decimetres.
func soundings(random *rand.Rand) string {
	var line strings.Builder
	for range 20 {
		fmt.Fprintf(&line, "%d ", random.IntN(400))
	}
	return line.String()
}

func main() { front.Main(house) }

func house(cured bool) (*front.Site, error) {
	level := best
	if cured {
		level = enough
	}
	text, err := catalogue()
	if err != nil {
		return nil, err
	}
	return &front.Site{
		Files: map[string]string{"catalogue.json": text},
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, level, listen)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    types { application/json json; }
    sendfile on;
    gzip on;
    gzip_types application/json;
    gzip_comp_level %d;
    gzip_min_length 1024;
    open_file_cache max=100 inactive=10m;
    open_file_cache_valid 1m;
    server {
        listen %s backlog=4096;
        root files;
    }
}
`
