// Command yachts shows when yachts come in, each time in the time of the harbour that the yacht
// comes from. It calls time.LoadLocation for each of them, which keeps nothing: a file of
// /usr/share/zoneinfo is opened, read and taken apart for each line of a page. Nothing is shown.
//
// Cured, the service remembers a time zone that it has loaded.
package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	yachts = 5000
	page   = 120
)

// homes are where yachts come from: a harbour, and the name of its time zone.
var homes = [][2]string{
	{"Cowes", "Europe/London"}, {"Kiel", "Europe/Berlin"}, {"Brest", "Europe/Paris"},
	{"Gdynia", "Europe/Warsaw"}, {"Palma", "Europe/Madrid"}, {"Genoa", "Europe/Rome"},
	{"Piraeus", "Europe/Athens"}, {"Lisbon", "Europe/Lisbon"}, {"Newport", "America/New_York"},
	{"San Diego", "America/Los_Angeles"}, {"Halifax", "America/Halifax"},
	{"Sydney", "Australia/Sydney"}, {"Auckland", "Pacific/Auckland"}, {"Chiba", "Asia/Tokyo"},
}

// yacht is one that is expected.
type yacht struct {
	name string
	home int // in homes
	due  time.Time
}

// clocks knows the time zones. Any goroutine may ask.
type clocks struct {
	remembers bool
	known     sync.Map // of *time.Location, by name
}

// zone returns the time zone of that name. Without the cure it is loaded from its file, whoever has
// asked for it before.
func (c *clocks) zone(name string) (*time.Location, error) {
	if !c.remembers {
		return time.LoadLocation(name)
	}
	if zone, ok := c.known.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		c.known.Store(name, zone)
	}
	return zone, err
}

// expect makes the list of all that are expected, the next of them first.
func expect() []yacht {
	all := make([]yacht, yachts)
	due := time.Date(2026, time.May, 1, 6, 0, 0, 0, time.UTC)
	for i := range all {
		due = due.Add(time.Duration(7+i*31%40) * time.Minute)
		all[i] = yacht{name: fmt.Sprint("Yacht ", 100+i), home: i * 5 % len(homes), due: due}
	}
	return all
}

// write makes a page of yachts.
func write(some []yacht, c *clocks) (string, error) {
	var text strings.Builder
	for _, y := range some {
		harbour, name := homes[y.home][0], homes[y.home][1]
		zone, err := c.zone(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s from %s: %s\n", y.name, harbour, y.due.In(zone).Format(time.RFC1123))
	}
	return text.String(), nil
}

func open(p *ward.Patient) (http.Handler, error) {
	all, c := expect(), &clocks{remembers: p.Cured}
	for _, home := range homes {
		// a machine without time zones is noticed when the service starts
		if _, err := time.LoadLocation(home[1]); err != nil {
			return nil, fmt.Errorf("the time zone of %s (apt-get install tzdata): %w", home[0], err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		first := rand.IntN(yachts - page)
		text, err := write(all[first:first+page], c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, text, work.Do(2))
	}), nil
}

func main() { ward.Main(open) }
