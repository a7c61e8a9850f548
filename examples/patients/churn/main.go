// Command churn keeps one idle connection to its database (database-connections-churn). Many may be
// open, but whenever two are given back one is closed, and the next burst pays for a new one: a
// process of PostgreSQL, a log-in, a statement to prepare.
//
// Cured, the pool keeps all it may open.
package main

import (
	"net/http"

	"plimsoll/examples/patients/database"
	"plimsoll/examples/patients/ward"
)

const most = 64

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	idle := 1
	if p.Cured {
		idle = most
	}
	db, err := database.Open(p, most, idle)
	if err != nil {
		return nil, err
	}
	return database.Serve(db, 4), nil
}
