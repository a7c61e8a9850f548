// Command passages tells how far it is from harbour to harbour. The table of distances is kept as
// the text that it came as, and is read from JSON for each request; only pprof is shown.
//
// Cured, it is read once.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const harbours = 100

// table has the miles from each harbour to each other.
type table [harbours][harbours]int

// settings are what the office sent: texts by their names.
type settings map[string][]byte

// pilotBook knows how far it is.
type pilotBook struct {
	settings settings
	read     *table
}

func received() (settings, error) {
	var t table
	for from := range t {
		for to := range t[from] {
			t[from][to] = 10 + (from*37+to*53)%900 + 7*max(from-to, to-from)
		}
	}
	text, err := json.Marshal(&t)
	return settings{"distances": text}, err
}

// distances is the table.
func (b *pilotBook) distances() (*table, error) {
	if b.read != nil {
		return b.read, nil
	}
	t := new(table)
	if err := json.Unmarshal(b.settings["distances"], t); err != nil {
		return nil, fmt.Errorf("the distances: %w", err)
	}
	return t, nil
}

// way is how far it is, with one call on the way where that is not farther.
func way(t *table, from, to int) (miles, call int) {
	miles, call = t[from][to], -1
	for by := range t {
		if by == from || by == to {
			continue
		}
		if m := t[from][by] + t[by][to]; m <= miles {
			miles, call = m, by
		}
	}
	return miles, call
}

func open(p *ward.Patient) (http.Handler, error) {
	s, err := received()
	if err != nil {
		return nil, err
	}
	b := &pilotBook{settings: s}
	if p.Cured {
		if b.read, err = b.distances(); err != nil {
			return nil, err
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t, err := b.distances()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		from, to := rand.IntN(harbours), rand.IntN(harbours)
		miles, call := way(t, from, to)
		fmt.Fprintln(w, from, to, miles, call, work.Do(3))
	}), nil
}

func main() { ward.Main(open) }
