// Command nginxfiles is an nginx that puts a page together from sixty small files, and checks that
// no part of their paths is a symbolic link. It looks each file up, opens it and closes it again
// for each page, as it has no open_file_cache.
//
// Cured, open_file_cache keeps what was opened.
package main

import (
	"fmt"
	"strings"

	"plimsoll/examples/patients/front"
)

// parts is how many files a page is made of.
const parts = 60

func main() { front.Main(catalogue) }

func catalogue(cured bool) (*front.Site, error) {
	cache := "open_file_cache off;"
	if cured {
		cache = "open_file_cache max=1000 inactive=10m; open_file_cache_valid 1m;"
	}
	files, page := map[string]string{}, strings.Builder{}
	for i := range parts {
		name := fmt.Sprintf("catalogue/parts/%02d.html", i)
		files[name] = fmt.Sprintf("<li>Part %d, from stock.</li>\n", i)
		fmt.Fprintf(&page, "<!--# include file=\"/%s\" -->", name)
	}
	files["index.html"] = "<html><ul>" + page.String() + "</ul></html>\n"
	return &front.Site{
		Files: files,
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, cache, listen)
		},
	}, nil
}

const config = `
worker_processes 2;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    disable_symlinks on from=$document_root;
    %s
    server {
        listen %s backlog=4096;
        root files;
        ssi on;
    }
}
`
