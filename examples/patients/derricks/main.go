// Command derricks is an nginx that serves the load charts of cranes. It puts a page together from
// the charts, by server-side includes, and compresses it. Its error_log has the level debug, which
// somebody set to find a fault and left there, so it writes hundreds of lines for each request, and
// sends each of them to syslog.
//
// Cured, the level is warn.
package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"plimsoll/examples/patients/front"
)

// A page has so many charts of so many loads: enough that to compress it takes about half a
// millisecond.
const (
	cranes = 4
	rows   = 400
)

func main() { front.Main(charts) }

func charts(cured bool) (*front.Site, error) {
	collector, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go collect(collector)
	level := "debug"
	if cured {
		level = "warn"
	}
	files, page := map[string]string{}, strings.Builder{}
	for crane := range cranes {
		name := fmt.Sprintf("cranes/%d.html", crane+1)
		files[name] = chart(crane + 1)
		fmt.Fprintf(&page, "<!--# include file=\"/%s\" -->\n", name)
	}
	files["index.html"] = "<html>\n" + page.String() + "</html>\n"
	return &front.Site{
		Files: files,
		Config: func(listen, _ string) string {
			return fmt.Sprintf(config, collector.LocalAddr(), level, listen)
		},
	}, nil
}

// collect stands for the machine's syslog. It takes about a thousand lines a second, and the kernel
// drops what does not fit into the socket: nobody who sends a datagram waits for it.
func collect(lines net.PacketConn) {
	line := make([]byte, 4096)
	for {
		if _, _, err := lines.ReadFrom(line); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// chart says what a crane may lift at which reach.
func chart(crane int) string {
	table := strings.Builder{}
	fmt.Fprintf(&table, "<h2>Crane %d</h2>\n<table>\n", crane)
	for i := range rows {
		reach := 80 + 2*i // in tenths of a metre
		fmt.Fprintf(&table, "<tr><td>%d.%d m</td><td>%d°</td><td>%d kg</td></tr>\n",
			reach/10, reach%10, 82-i*3/20, (7_000_000+crane*310_000)/reach)
	}
	table.WriteString("</table>\n")
	return table.String()
}

const config = `
worker_processes auto;
error_log syslog:server=%s,tag=derricks %s;
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
        root files;
        ssi on;
    }
}
`
