// Command transoms is the nginx of a chandler, who sells the brackets by which outboard motors hang
// on transoms. It asks another service, which takes its time, how many of a bracket are in stock,
// adds the price list of one of the brands below the answer, and compresses both. A worker may have
// no more than 48 connections, and a request takes two of them, one to the client and one to the
// service. When they are used up, nginx turns clients away: it closes connections that were kept,
// and new ones as soon as it has accepted them.
//
// Cured, a worker may have 4096 connections.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"plimsoll/examples/patients/front"
)

// A brand has a list of so many brackets: enough that to compress it takes about a third of a
// millisecond.
const (
	brands   = 4
	brackets = 300
)

func main() { front.Main(shop) }

func shop(cured bool) (*front.Site, error) {
	stock := os.Getenv("PATIENT_SERVICE")
	if stock == "" {
		return nil, errors.New("PATIENT_SERVICE does not say where the service for the stock is")
	}
	connections := 48
	if cured {
		connections = 4096
	}
	files := map[string]string{}
	for brand := range brands {
		files[fmt.Sprintf("prices/%d.html", brand+1)] = prices(brand + 1)
	}
	return &front.Site{
		Files: files,
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, connections, stock, listen)
		},
	}, nil
}

// prices lists a brand's brackets: for which weight of a motor, at how much.
func prices(brand int) string {
	table := strings.Builder{}
	fmt.Fprintf(&table, "<h2>Brand %d</h2>\n<table>\n", brand)
	for i := range brackets {
		weight := 12 + (i*37+brand*11)%190
		cents := 1900 + weight*(83+brand) + i*7%100
		fmt.Fprintf(&table, "<tr><td>bracket %d-%03d</td><td>%d kg</td><td>%d.%02d</td></tr>\n",
			brand, i+1, weight, cents/100, cents%100)
	}
	table.WriteString("</table>\n")
	return table.String()
}

const config = `
worker_processes auto;
error_log error.log;
events { worker_connections %d; }
http {
    access_log off;
    default_type text/html;
    keepalive_requests 1000000;
    open_file_cache max=1000 inactive=10m;
    open_file_cache_valid 1m;
    gzip on;
    gzip_comp_level 5;
    split_clients $request_id $brand {
        25%% 1;
        25%% 2;
        25%% 3;
        *   4;
    }
    upstream stock {
        server %s;
        keepalive 64;
        keepalive_requests 1000000;
    }
    server {
        listen %s backlog=4096;
        root files;
        location / {
            proxy_pass http://stock;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            addition_types *;
            gzip_types *;
            add_after_body /prices;
        }
        location = /prices {
            internal;
            try_files /prices/$brand.html =404;
        }
    }
}
`
