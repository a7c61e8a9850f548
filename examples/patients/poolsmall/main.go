// Command poolsmall has a pool of three connections for a database that could serve many more
// queries at once (database-pool-small). Requests wait for a connection while the processor idles.
//
// Cured, the pool is as large as the work needs.
package main

import (
	"net/http"

	"plimsoll/examples/patients/database"
	"plimsoll/examples/patients/ward"
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	most := 3
	if p.Cured {
		most = 24
	}
	db, err := database.Open(p, most, most)
	if err != nil {
		return nil, err
	}
	return database.Serve(db, 3), nil
}
