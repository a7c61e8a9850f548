// Command poolabove has a pool without a limit, as a pool is that nobody set one for, in front of a
// database that takes few connections (database- pool-above-limit). As long as few requests meet
// all is well; then the pool asks for one connection too many, and requests fail which had only to
// wait a little.
//
// Cured, the pool stays below what the database takes.
package main

import (
	"net/http"

	"plimsoll/examples/patients/database"
	"plimsoll/examples/patients/ward"
)

// keep is how many idle connections are kept. Both states keep the same, so that connections are
// not made again all the time.
const keep = 7

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	most := 0
	if p.Cured {
		most = keep
	}
	db, err := database.Open(p, most, keep)
	if err != nil {
		return nil, err
	}
	return database.Serve(db, 9), nil
}
