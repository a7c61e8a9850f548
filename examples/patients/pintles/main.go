// Command pintles is an nginx that serves the catalogue of a chandler who sells rudder fittings.
// The page is put together from a file for each fitting, by server-side includes, and compressed.
// A file is looked for in the customer's country, then in his language, and then among those for
// everyone, each time down a deep tree of folders. Symbolic links are forbidden there, so nginx
// opens one folder after the other. There is no open_file_cache, so it does all that again for
// each fitting of each request.
//
// Cured, there is an open_file_cache, which also remembers files that were not found.
package main

import (
	"fmt"
	"strings"

	"plimsoll/examples/patients/front"
)

// So many fittings are on the page, and each comes in so many sizes: enough that to compress it
// takes about half a millisecond.
const (
	fittings = 12
	sizes    = 40
)

// shelf is where a fitting is in each of the catalogue's three trees.
const shelf = "hardware/steering/rudders/fittings/pintles/stainless/metric"

func main() { front.Main(catalogue) }

func catalogue(cured bool) (*front.Site, error) {
	cache := ""
	if cured {
		cache = fileCache
	}
	files, page := map[string]string{}, strings.Builder{}
	for i := range fittings {
		name := fmt.Sprintf("%s/%02d.html", shelf, i+1)
		files[tree(i)+"/"+name] = fitting(i + 1)
		fmt.Fprintf(&page, "<!--# include virtual=\"/%s\" -->\n", name)
	}
	files["index.html"] = "<html>\n" + page.String() + "</html>\n"
	return &front.Site{
		Files: files,
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, cache, listen)
		},
	}, nil
}

// tree is the folder that a fitting is in: some are sold in one country only, and some of the
// others are described in the customer's language.
func tree(fitting int) string {
	switch fitting % 6 {
	case 0:
		return "countries/ch"
	case 1, 2:
		return "languages/de"
	}
	return "everyone"
}

// fitting is what the catalogue says of a fitting: its sizes, what they carry, and prices.
func fitting(number int) string {
	table := strings.Builder{}
	fmt.Fprintf(&table, "<h2>Pintle %d</h2>\n<table>\n", number)
	for i := range sizes {
		pin := 6 + i // in millimetres
		cents := 890 + number*35 + pin*pin*7
		fmt.Fprintf(&table, "<tr><td>%d mm</td><td>%d kg</td><td>%d.%02d</td></tr>\n",
			pin, pin*pin*(31+number)/10, cents/100, cents%100)
	}
	table.WriteString("</table>\n")
	return table.String()
}

const fileCache = `
    open_file_cache max=2000 inactive=10m;
    open_file_cache_valid 1m;
    open_file_cache_errors on;`

const config = `
worker_processes auto;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    gzip on;
    gzip_comp_level 5;%s
    server {
        listen %s backlog=4096;
        root files;
        ssi on;
        disable_symlinks on from=$document_root;
        location /hardware/ {
            try_files /countries/ch$uri /languages/de$uri /everyone$uri =404;
        }
    }
}
`
