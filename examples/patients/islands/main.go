// Command islands is an nginx that puts a page on islands together from a hundred and twenty parts,
// with server-side includes, and compresses it. It was set up for a machine with one processor, and
// worker_processes is still 1, so one process, and so one processor, serves all clients. Nothing is
// shown.
//
// Cured, worker_processes is auto: there is a worker for each processor.
package main

import (
	"fmt"
	"strings"

	"plimsoll/examples/patients/front"
)

// islands is how many parts the page has.
const islands = 120

// part is what the page says of an island. It knows the visitor's language and the time.
func part(island int) string {
	return fmt.Sprintf(`<li id="island-%d"><b>Island %d</b>, %d inhabitants, ferry at %02d:%02d
<!--# if expr="$http_accept_language = /^de/" -->(täglich)<!--# else -->(daily)<!--# endif -->
`, island, island, 37*island%1900, 6+island%14, 5*island%60)
}

func main() { front.Main(archipelago) }

func archipelago(cured bool) (*front.Site, error) {
	workers := "1"
	if cured {
		workers = "auto"
	}
	files, page := map[string]string{}, strings.Builder{}
	for island := range islands {
		name := fmt.Sprintf("parts/%03d.html", island)
		files[name] = part(island)
		fmt.Fprintf(&page, "<!--# include virtual=\"/%s\" -->\n", name)
	}
	head := "<!doctype html><title>Islands</title><ul>\n"
	files["index.html"] = head + page.String() + "</ul>\n"
	return &front.Site{
		Files: files,
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, workers, listen)
		},
	}, nil
}

// The files are kept open, so that they are not what takes time. With reuseport each worker gets
// its share of the connections.
const config = `
worker_processes %s;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    default_type text/html;
    gzip on;
    open_file_cache max=1000 inactive=1h;
    open_file_cache_valid 1h;
    server {
        listen %s backlog=4096 reuseport;
        root files;
        ssi on;
    }
}
`
