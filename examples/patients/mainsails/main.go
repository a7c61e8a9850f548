// Command mainsails is an nginx with the price list of a sailmaker, a JSON file that is made each
// night, and compresses it for each client. Its configuration was begun from the one that comes
// with nginx, in which worker_processes is 1, and nobody has changed that when the machine got more
// processors. So one processor compresses, whatever the machine has. Nothing is shown.
//
// Cured, worker_processes is auto: there is a worker for each processor.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"plimsoll/examples/patients/front"
)

// sails is how many the list has, which is about 95 KB then.
const sails = 480

type sail struct {
	Number string  `json:"number"`
	Boat   string  `json:"boat"`
	Cloth  string  `json:"cloth"`
	Reefs  int     `json:"reefs"`
	Luff   float64 `json:"luff_metres"`
	Foot   float64 `json:"foot_metres"`
	Leech  float64 `json:"leech_metres"`
	Price  float64 `json:"price"`
	Note   string  `json:"note"`
}

// list is the same at each start, so that all measure the same file.
func list() (string, error) {
	random := rand.New(rand.NewPCG(3, 4))
	boats := []string{"dinghy", "day sailer", "sloop", "cutter", "yawl", "ketch"}
	cloths := []string{"polyester, crosscut", "polyester, radial", "laminate", "cotton"}
	notes := []string{
		"with full battens and a leech line",
		"with short battens, for a track on the mast",
		"loose at the foot, with two cunninghams",
		"with a window and tell-tales at each batten",
	}
	metres := func(most float64) float64 { return float64(int(100*most*random.Float64())) / 100 }
	all := make([]sail, sails)
	for i := range all {
		all[i] = sail{
			Number: fmt.Sprintf("MS-%05d", 20000+37*i),
			Boat:   boats[random.IntN(len(boats))],
			Cloth:  cloths[random.IntN(len(cloths))],
			Reefs:  random.IntN(4),
			Luff:   6 + metres(12),
			Foot:   2 + metres(4),
			Leech:  7 + metres(12),
			Price:  400 + metres(4000),
			Note:   notes[random.IntN(len(notes))],
		}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func main() { front.Main(sailmaker) }

func sailmaker(cured bool) (*front.Site, error) {
	workers := "1"
	if cured {
		workers = "auto"
	}
	text, err := list()
	if err != nil {
		return nil, err
	}
	return &front.Site{
		Files: map[string]string{"mainsails.json": text},
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, workers, listen)
		},
	}, nil
}

// Paths are relative to nginx's own folder. With reuseport each worker has a queue of its own for
// new connections; without it one of them may take nearly all.
const config = `
worker_processes %s;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    types { application/json json; }
    gzip on;
    gzip_comp_level 5;
    gzip_types application/json;
    server {
        listen %s backlog=4096 reuseport;
        root files;
        open_file_cache max=100 inactive=1h;
    }
}
`
