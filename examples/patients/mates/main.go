// Command mates is an nginx with the sheets on which the mates of a shipping company see their
// watches. It asks for a name and a password, and compares the password with a hash of the kind
// that is in /etc/shadow, which takes a millisecond or two of a processor on purpose.
// worker_processes is 1, as it is when nobody sets it, so one processor does that for all mates,
// whatever the machine has.
//
// Cured, worker_processes is auto: there is a worker for each processor.
package main

import (
	"fmt"
	"strings"

	"plimsoll/examples/patients/front"
)

const (
	days    = 7
	watches = 6 // of four hours each, on a day
)

// hashed has the passwords, as "openssl passwd -6" hashes them. The one of "mate" is "sextant".
const hashed = "mate:$6$rounds=2000$Qm3vT8kLw2$yPwhMwLodiaWsH1Pzy9HLWgTZ/NMlDOV7MU6biQaHLmm" +
	"1gt8H2ZwrRJzDI48Fb/fdwhlF27EDaoLvTr.2n8qM.\n"

// sheet is what all mates see: who has which watch this week. It is written on Sundays.
func sheet() string {
	mates := []string{"first mate", "second mate", "third mate"}
	var text strings.Builder
	text.WriteString("<!doctype html><title>Watches</title><table>\n")
	for day := range days {
		for watch := range watches {
			of := mates[(day+watch)%len(mates)]
			fmt.Fprintf(&text, "<tr><td>day %d<td>%02d:00 to %02d:00<td>%s\n",
				day+1, 4*watch, 4*watch+4, of)
		}
	}
	text.WriteString("</table>\n")
	return text.String()
}

func main() { front.Main(company) }

func company(cured bool) (*front.Site, error) {
	workers := "1"
	if cured {
		workers = "auto"
	}
	return &front.Site{
		Files: map[string]string{"passwords": hashed, "sheets/index.html": sheet()},
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, workers, listen)
		},
	}, nil
}

// Paths are relative to nginx's own folder.
const config = `
worker_processes %s;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    default_type text/html;
    server {
        listen %s backlog=4096;
        root files/sheets;
        open_file_cache max=100 inactive=1h;
        auth_basic "Mates";
        auth_basic_user_file files/passwords;
    }
}
`
