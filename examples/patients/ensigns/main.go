// Command ensigns is an nginx that gives the programs of shipping agents a list of ships and their
// flags, compressed, after a look at their password. A password is a random token, which nobody can
// guess, but it was written into the file by htpasswd -B as the password of a person would be, so
// nginx computes a bcrypt hash of two milliseconds for each request.
//
// Cured, the file has the same password with one round of SHA-1 and a salt.
package main

import (
	"fmt"
	"strings"

	"plimsoll/examples/patients/front"
)

// ships is how long the list is: enough that to compress it takes about a millisecond.
const ships = 2400

// The password is Zk3vQ8n1TfYw5LxR2sHc9A.
const (
	bcrypt = "pilotage:$2y$05$eN7uYq3sHw1KpV0cXz8RDe/oOuoWlgeHTlVeKoacLHgjE9bB.snkS\n"
	ssha   = "pilotage:{SSHA}nUp/kMdf8LbCD4sSGFF2CHuTE3dxN1RtMVp4NA==\n"
)

func main() { front.Main(list) }

func list(cured bool) (*front.Site, error) {
	agents := bcrypt
	if cured {
		agents = ssha
	}
	return &front.Site{
		Files: map[string]string{
			"agents.htpasswd":   agents,
			"public/index.html": page(),
		},
		Config: func(listen, _ string) string { return fmt.Sprintf(config, listen) },
	}, nil
}

// page lists the ships with what they fly.
func page() string {
	names := []string{"Aurora", "Brigid", "Cormorant", "Doris", "Esmeralda", "Fulmar", "Gannet"}
	flags := []string{"Norway", "Malta", "Panama", "Liberia", "Greece", "Denmark"}
	table := strings.Builder{}
	table.WriteString("<html><table>\n")
	for i := range ships {
		fmt.Fprintf(&table, "<tr><td>%s %d</td><td>%s</td><td>IMO %07d</td></tr>\n",
			names[i%len(names)], 1+i/len(names), flags[i*i%len(flags)], 9_000_000+i*7919%999_983)
	}
	table.WriteString("</table></html>\n")
	return table.String()
}

const config = `
worker_processes auto;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    open_file_cache max=1000 inactive=10m;
    open_file_cache_valid 1m;
    gzip on;
    gzip_comp_level 5;
    server {
        listen %s backlog=4096;
        root files/public;
        auth_basic "ships and flags";
        auth_basic_user_file files/agents.htpasswd;
    }
}
`
