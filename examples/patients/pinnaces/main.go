// Command pinnaces is an nginx with the pages of a yard that builds pinnaces. Most pages have
// moved, and a map sends those who ask for one of the 900 old addresses to the new one. Each line
// of the map is a regular expression, as it was in the rewrite rules that it was made from, so
// nginx tries one after the other until one matches, and tries all of them for each page that did
// not move. perf is allowed.
//
// Cured, the lines are plain texts, which nginx finds in a hash table.
package main

import (
	"fmt"
	"strings"

	"plimsoll/examples/patients/front"
)

const (
	moved = 900 // pages
	boats = 500 // on the page that most ask for, which has about 55 KB then
)

// years is where the old pages are, which are sorted by the year in which a boat was built, and
// where the pages of the years still are.
const years = "/pinnaces-for-navies-and-yachts/built-in-our-own-yard/"

// lines are those of the map. Old addresses were taken in upper case and lower case, and both
// kinds of lines do that. None begins otherwise than with years, whatever ".*" may stand for.
func lines(cured bool) string {
	format := `"~*^.*/%[2]d/number-%[3]d\.html$" /boats/%[4]d.html;` + "\n"
	if cured {
		format = `"%s%d/number-%d.html" /boats/%d.html;` + "\n"
	}
	var text strings.Builder
	for i := range moved {
		fmt.Fprintf(&text, format, years, 1950+i/18, i, 7000+i)
	}
	return text.String()
}

// page is the list of boats like those of 1987. It has kept its address.
func page() string {
	woods := []string{"larch on oak", "mahogany", "teak", "plywood", "pitch pine"}
	var text strings.Builder
	text.WriteString("<!doctype html><title>Pinnaces like those of 1987</title><table>\n")
	for i := range boats {
		fmt.Fprintf(&text, "<tr><td><a href=\"/boats/%d.html\">No. %d</a><td>%d feet<td>%s<td>%d oars"+
			"<td>built %d<td>%d.00\n", 7000+7*i, 7*i, 20+i*i%17, woods[i*i%len(woods)], 6+2*(i%6),
			1950+7*i/18, 1900+i*7919%9000)
	}
	text.WriteString("</table>\n")
	return text.String()
}

func main() { front.Main(yard) }

func yard(cured bool) (*front.Site, error) {
	return &front.Site{
		Files: map[string]string{
			"moved.map":                  lines(cured),
			"site" + years + "1987.html": page(),
		},
		Config: func(listen, _ string) string { return fmt.Sprintf(config, listen) },
	}, nil
}

// Paths are relative to nginx's own folder. With reuseport each worker has a queue of its own for
// new connections; without it one of them may take nearly all.
const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    default_type text/html;
    gzip on;
    gzip_comp_level 3;
    map_hash_max_size 8192;
    map_hash_bucket_size 256;
    map $uri $new {
        include files/moved.map;
    }
    server {
        listen %s backlog=4096 reuseport;
        root files/site;
        open_file_cache max=100 inactive=1h;
        if ($new) {
            return 301 $new;
        }
    }
}
`
