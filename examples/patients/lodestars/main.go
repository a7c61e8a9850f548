// Command lodestars is an nginx in front of the service of a shop that sells star almanacs. The
// service says how many it has of one, and nginx adds the page that the almanac opens with: where
// the stars are by which navigators steer. A request takes two connections, one of the client and
// one to the service, and worker_connections counts both. It was set for a shop with few readers.
// When more requests are under way, nginx closes connections of clients to have enough for the
// others, and some of these clients have just asked.
//
// Cured, worker_connections is 4096.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"plimsoll/examples/patients/front"
)

// An almanac opens with the places of these stars at so many times.
const times = 60

var stars = []string{"Polaris", "Vega", "Arcturus", "Sirius", "Capella", "Altair", "Deneb", "Spica"}

func main() { front.Main(shop) }

func shop(cured bool) (*front.Site, error) {
	service := os.Getenv("PATIENT_SERVICE")
	if service == "" {
		return nil, errors.New("PATIENT_SERVICE does not say where the service of the shop is")
	}
	connections := 32
	if cured {
		connections = 4096
	}
	files, page := map[string]string{}, strings.Builder{}
	for i, star := range stars {
		name := fmt.Sprintf("stars/%s.html", strings.ToLower(star))
		files[name] = places(i, star)
		fmt.Fprintf(&page, "<!--# include file=\"/%s\" -->\n", name)
	}
	files["almanac.html"] = page.String()
	return &front.Site{
		Files: files,
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, connections, service, listen)
		},
	}, nil
}

// places says where a star is, hour angle and height, at one time after the other.
func places(n int, star string) string {
	table := strings.Builder{}
	fmt.Fprintf(&table, "<h2>%s</h2>\n<table>\n", star)
	for i := range times {
		minute := i * 24
		angle := (n*4700 + minute*25) % 36_000 // in hundredths of a degree, as is the height
		height := 1200 + (n*1310+i*97)%7000
		fmt.Fprintf(&table, "<tr><td>%02d:%02d</td><td>%d.%02d°</td><td>%d.%02d°</td></tr>\n",
			minute/60, minute%60, angle/100, angle%100, height/100, height%100)
	}
	table.WriteString("</table>\n")
	return table.String()
}

const config = `
worker_processes auto;
events { worker_connections %d; }
http {
    access_log off;
    keepalive_requests 1000000;
    open_file_cache max=1000 inactive=10m;
    open_file_cache_valid 1m;
    gzip on;
    gzip_comp_level 2;
    upstream shop {
        server %s;
        keepalive 512;
        keepalive_requests 1000000;
    }
    server {
        listen %s backlog=4096;
        root files;
        location = / {
            proxy_pass http://shop;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            addition_types text/plain;
            add_after_body /almanac.html;
        }
        location = /almanac.html {
            internal;
            ssi on;
        }
    }
}
`
