// Command sloops draws lots for the order in which sloops start in a race, and makes a new source of
// random numbers, which has to be seeded, for each lot. The cure is to draw all lots from the source
// that math/rand keeps.
package main

import (
	"cmp"
	"fmt"
	"math/rand"
	"net/http"
	"slices"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// sloops is how many there are in a race.
const sloops = 200

// pages is the honest work that a list of starters costs, in units of package work.
const pages = 5

// start is a sloop, and the lot that was drawn for it.
type start struct {
	sloop, lot int
}

// race draws lots for races.
type race struct {
	cured bool
}

func main() {
	ward.Main(func(p *ward.Patient) (http.Handler, error) {
		return &race{cured: p.Cured}, nil
	})
}

// ServeHTTP answers with the first of the list of starters.
func (c *race) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	starts := c.drawAll()
	fmt.Fprintf(w, "sloop %d starts first, sloop %d last\n%s\n",
		starts[0].sloop, starts[len(starts)-1].sloop, work.Do(pages))
}

// drawAll draws a lot for each sloop, and puts them in order.
func (c *race) drawAll() []start {
	starts := make([]start, sloops)
	for i := range starts {
		starts[i] = start{sloop: i + 1, lot: c.draw(i)}
	}
	slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(a.lot, b.lot) })
	return starts
}

// draw draws one lot.
func (c *race) draw(i int) int {
	if c.cured {
		return rand.Int()
	}
	// the number of the sloop keeps two lots of the same moment apart
	source := rand.NewSource(time.Now().UnixNano() + int64(i))
	return rand.New(source).Int()
}
