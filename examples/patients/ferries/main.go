// Command ferries tells which seats of a crossing are free. Somebody gave the lifetime of its
// connections to PostgreSQL as a number that he took for seconds, where the pool takes nanoseconds,
// so that each connection is too old when its first query is done, and is closed.
//
// Cured, the lifetime is in seconds.
package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 24
	lifetime    = 300 // of a connection
	crossings   = 2000
	seats       = 40 // on each crossing
)

var tables = []string{
	"DROP TABLE IF EXISTS seats",
	"CREATE TABLE seats (crossing int, seat int, taken bool, PRIMARY KEY (crossing, seat))",
	fmt.Sprintf("INSERT INTO seats SELECT c, s, (c * 31 + s * 17) %% 3 > 0 "+
		"FROM generate_series(0, %d) c, generate_series(1, %d) s", crossings-1, seats),
	"VACUUM ANALYZE seats",
}

// free are the seats of a crossing that nobody has taken.
func free(r *http.Request, db *sql.DB, crossing int) (found []int, err error) {
	rows, err := db.QueryContext(r.Context(),
		"SELECT seat FROM seats WHERE crossing = $1 AND NOT taken ORDER BY seat", crossing)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seat int
		if err := rows.Scan(&seat); err != nil {
			return nil, err
		}
		found = append(found, seat)
	}
	return found, rows.Err()
}

func open(p *ward.Patient) (http.Handler, error) {
	db, err := postgres.Open(p, connections, tables...)
	if err != nil {
		return nil, err
	}
	db.SetConnMaxLifetime(lifetime)
	if p.Cured {
		db.SetConnMaxLifetime(lifetime * time.Second)
	}
	p.Registry.MustRegister(collectors.NewDBStatsCollector(db, "seats"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		crossing := rand.IntN(crossings)
		seats, err := free(r, db, crossing)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, crossing, seats, work.Do(4))
	}), nil
}

func main() { ward.Main(open) }
