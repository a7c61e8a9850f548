// Command bilges is an nginx that shows the crew how much water is in the bilges of a ship. It puts
// the page together from one panel for each compartment, by server-side includes, and a service
// behind it works the panels out from the last soundings. Each worker of nginx asks for all panels
// of a page at once, but keeps a single connection to the service: it opens the others for each
// page, and closes them when the panels have come.
//
// Cured, each worker keeps 256 connections.
package main

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"plimsoll/examples/patients/front"
)

const (
	compartments = 12
	tanksEach    = 3  // the soundings of a compartment: port, middle, starboard
	stations     = 60 // a hull is measured at so many places along a compartment
)

func main() { front.Main(site) }

func site(cured bool) (*front.Site, error) {
	kept := 1
	if cured {
		kept = 256
	}
	page := strings.Builder{}
	page.WriteString("<html>\n<h1>Bilges</h1>\n")
	for number := range compartments {
		fmt.Fprintf(&page, "<!--# include virtual=\"/compartments/%d\" -->\n", number+1)
	}
	page.WriteString("</html>\n")
	return &front.Site{
		Service: &http.Server{
			Handler:           newShip(),
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       2 * time.Minute,
		},
		Files: map[string]string{"index.html": page.String()},
		Config: func(listen, service string) string {
			return fmt.Sprintf(config, service, kept, listen)
		},
	}, nil
}

// ship knows what was sounded last. Many requests may ask at once.
type ship struct {
	mu           sync.RWMutex
	compartments [compartments]compartment
}

type compartment struct {
	soundings [tanksEach]float64 // how deep the water is, in metres
	length    float64            // in metres
	asked     int
}

func newShip() http.Handler {
	s := &ship{}
	for i := range s.compartments {
		s.compartments[i].length = 6 + float64(i%4)
		for j := range tanksEach {
			s.compartments[i].soundings[j] = 0.05 + float64((i*7+j*3)%11)/40
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/compartments/", s.panel)
	return mux
}

// panel answers with what a compartment holds.
func (s *ship) panel(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/compartments/"))
	if err != nil || number < 1 || number > compartments {
		http.NotFound(w, r)
		return
	}
	c := s.look(number - 1)
	water := c.volume()
	pump := "off"
	if water > 4 {
		pump = "on"
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<h2>Compartment %d</h2>\n<p>%.2f m³, pump %s, asked for %d times</p>\n",
		number, water, pump, c.asked)
	for i, depth := range c.soundings {
		fmt.Fprintf(w, "<p>well %d: %.0f cm</p>\n", i+1, depth*100)
	}
}

// look counts that somebody asks for a compartment, and returns what it is at that moment.
func (s *ship) look(i int) compartment {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compartments[i].asked++
	return s.compartments[i]
}

// volume is how much water there is, in cubic metres: the sum over the stations of the part of the
// hull's section that is below the water.
func (c *compartment) volume() float64 {
	sum := 0.0
	for station := range stations {
		rise := 0.02 * math.Sin(math.Pi*float64(station)/stations)
		for _, depth := range c.soundings {
			// a section is a parabola, so its area goes with the depth to the power of 3/2
			sum += 4.0 / 3 * math.Pow(max(depth-rise, 0), 1.5) * math.Sqrt(6)
		}
	}
	return sum * c.length / stations
}

const config = `
worker_processes auto;
events { worker_connections 8192; }
http {
    access_log off;
    default_type text/html;
    keepalive_requests 1000000;
    open_file_cache max=100 inactive=10m;
    open_file_cache_valid 1m;
    upstream soundings {
        server %s;
        keepalive %d;
        keepalive_requests 1000000;
    }
    server {
        listen %s backlog=4096;
        root files;
        ssi on;
        location /compartments/ {
            proxy_pass http://soundings;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`
