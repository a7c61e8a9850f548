// Command mizzens is an nginx that shows how a ship's mizzen mast is rigged. It puts a page
// together from parts, by server-side includes. A part is the ship's own, or else the one that all
// ships have, and no file may be a symbolic link, as crews upload them. There is no
// open_file_cache, so for each part of each request nginx walks along the path of each file that
// there might be, directory by directory, to find the same files as the last time.
//
// Cured, there is an open_file_cache, which also remembers what was not found.
package main

import (
	"fmt"
	"strings"

	"plimsoll/examples/patients/front"
)

// Most parts of a mizzen are the same on all ships, so most files that nginx looks for first are
// not there.
const (
	ships   = 10
	ownEach = 4 // one part in so many is the ship's own
	lines   = 8 // of rigging in a part
)

var (
	areas  = []string{"standing", "running", "spars", "sails"}
	pieces = []string{"course", "topsail", "topgallant", "royal", "gaff", "boom"}
	sides  = []string{"port", "starboard"}
)

func main() { front.Main(rigging) }

func rigging(cured bool) (*front.Site, error) {
	cache := ""
	if cured {
		cache = openFileCache
	}
	return &front.Site{
		Files: plans(),
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, drawn(), cache, listen)
		},
	}, nil
}

// drawn tells nginx to draw one of the ships for a request.
func drawn() string {
	shares := strings.Builder{}
	for ship := range ships - 1 {
		fmt.Fprintf(&shares, "%d%% %d; ", 100/ships, ship)
	}
	fmt.Fprintf(&shares, "* %d;", ships-1)
	return shares.String()
}

// plans are the page, and the files with its parts.
func plans() map[string]string {
	files, page := map[string]string{}, strings.Builder{}
	page.WriteString("<html>\n" + title)
	number := 0
	for _, area := range areas {
		for _, piece := range pieces {
			for _, side := range sides {
				part := fmt.Sprintf("rigging/%s/%s/%s.html", area, piece, side)
				fmt.Fprintf(&page, include, part)
				addPart(files, part, number)
				number++
			}
		}
	}
	page.WriteString("</html>\n")
	files["index.html"] = page.String()
	return files
}

// addPart writes a part for all ships, and another for each ship that has her own.
func addPart(files map[string]string, part string, number int) {
	files["common/"+part] = plan(part, number, 0)
	for ship := range ships {
		if (number+ship)%ownEach == 0 {
			files[fmt.Sprintf("ships/%d/%s", ship, part)] = plan(part, number, 1+ship)
		}
	}
}

// plan says how long and how thick the lines of a part are.
func plan(part string, number, variant int) string {
	table := strings.Builder{}
	fmt.Fprintf(&table, "<h2>%s</h2>\n<table>\n", part)
	for line := range lines {
		metres := 4 + float64((number*37+variant*11+line*53)%900)/100
		fmt.Fprintf(&table, row, line+1, metres/0.3048, metres, 8+(number+variant+line)%14)
	}
	table.WriteString("</table>\n")
	return table.String()
}

const title = `<h1>Mizzen of ship <!--# echo var="ship" --></h1>` + "\n"

const include = `<!--# include virtual="/%s?units=$arg_units" -->` + "\n"

// A row is in the units that the client wants.
const row = `<tr><td>line %d</td><td>` +
	`<!--# if expr="$arg_units = feet" -->%.1f ft<!--# else -->%.2f m<!--# endif -->` +
	"</td><td>%d mm</td></tr>\n"

const openFileCache = `
    open_file_cache max=10000 inactive=10m;
    open_file_cache_valid 1m;
    open_file_cache_errors on;`

const config = `
worker_processes auto;
error_log stderr crit;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    split_clients $request_id $ship { %s }
    disable_symlinks on from=$document_root;%s
    server {
        listen %s backlog=4096;
        root files;
        ssi on;
        location /rigging/ {
            try_files /ships/$ship$uri /common$uri =404;
        }
    }
}
`
