// Command bollards is an nginx that serves the list of a port's bollards, a JSON file of 60 KB that
// is made each night, and compresses it for each client. worker_cpu_affinity binds its workers to
// the first processor, as it was written for a machine that had only one, and nobody looked at it
// when the machine was replaced: both workers share one processor, and the other has nothing to do.
// Nothing is shown.
//
// Cured, there is no worker_cpu_affinity, so each worker may have a processor of its own.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"plimsoll/examples/patients/front"
)

// bound is the setting from the old machine: a worker for which there is no mask gets the last one.
const bound = "worker_cpu_affinity 01;"

// bollards is how many the port has.
const bollards = 800

type bollard struct {
	Number    string    `json:"number"`
	Quay      string    `json:"quay"`
	Tons      int       `json:"tons"`
	Position  []float64 `json:"position"`
	Inspected string    `json:"inspected"`
	Remark    string    `json:"remark,omitempty"`
}

var remarks = []string{
	"",
	"paint is worn",
	"one of four bolts was replaced",
	"not for ships of more than 8,000 tons",
	"the quay is low here at spring tide",
}

// list is the same at each start, so that all measure the same file.
func list() (string, error) {
	random := rand.New(rand.NewPCG(3, 5))
	all := make([]bollard, bollards)
	for i := range all {
		all[i] = bollard{
			Number: fmt.Sprintf("B%04d", 10+3*i),
			Quay:   fmt.Sprintf("Quay %d, from metre %d", i/24+1, 25*(i%24)),
			Tons:   20 + 5*random.IntN(30),
			Position: []float64{
				51 + float64(random.IntN(100_000))/1e6,
				4 + float64(random.IntN(100_000))/1e6,
			},
			Inspected: fmt.Sprintf("2026-%02d-%02d", 1+random.IntN(9), 1+random.IntN(28)),
			Remark:    remarks[random.IntN(len(remarks))],
		}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func main() { front.Main(port) }

func port(cured bool) (*front.Site, error) {
	text, err := list()
	if err != nil {
		return nil, err
	}
	affinity := bound
	if cured {
		affinity = ""
	}
	return &front.Site{
		Files: map[string]string{"bollards.json": text},
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, affinity, listen)
		},
	}, nil
}

const config = `
worker_processes auto;
%s
events { worker_connections 4096; }
http {
    types { application/json json; }
    access_log off;
    keepalive_requests 1000000;
    open_file_cache max=100;
    gzip on;
    gzip_types application/json;
    gzip_comp_level 6;
    server {
        listen %s backlog=4096;
        root files;
    }
}
`
