// Command charters tells what a charter costs. For each of its legs it asks the brokers for a price
// while the rows of the legs are still being read, so that a connection to PostgreSQL is taken for
// all of that time; and its pool has eight.
//
// Cured, all legs are read before the first price is asked for.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 8
	takes       = 8 * time.Millisecond // to ask the brokers
	charters    = 3000
	legs        = 3 // of each charter
)

var tables = []string{
	"DROP TABLE IF EXISTS legs",
	"CREATE TABLE legs (charter int, leg int, miles int, PRIMARY KEY (charter, leg))",
	fmt.Sprintf("INSERT INTO legs SELECT c, l, 40 + (c * 31 + l * 17) %% 700 "+
		"FROM generate_series(0, %d) c, generate_series(1, %d) l", charters-1, legs),
	"VACUUM ANALYZE legs",
}

type office struct {
	db      *sql.DB
	brokers *upstream.Upstream
	cured   bool
}

// price is what the brokers want for so many miles.
func (o *office) price(ctx context.Context, miles int) (int, error) {
	answer, err := o.brokers.Ask(ctx)
	return miles * (50 + len(answer)%7), err
}

// cost is what a charter costs.
func (o *office) cost(ctx context.Context, charter int) (cents int, err error) {
	rows, err := o.db.QueryContext(ctx,
		"SELECT miles FROM legs WHERE charter = $1 ORDER BY leg", charter)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var later []int
	for rows.Next() {
		var miles int
		if err := rows.Scan(&miles); err != nil {
			return 0, err
		}
		if o.cured {
			later = append(later, miles)
			continue
		}
		c, err := o.price(ctx, miles)
		if err != nil {
			return 0, err
		}
		cents += c
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	for _, miles := range later {
		c, err := o.price(ctx, miles)
		if err != nil {
			return 0, err
		}
		cents += c
	}
	return cents, nil
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	charter := rand.IntN(charters)
	cents, err := o.cost(r.Context(), charter)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, charter, cents, work.Do(3))
}

func open(p *ward.Patient) (http.Handler, error) {
	brokers, err := upstream.Start(p, 256, takes)
	if err != nil {
		return nil, err
	}
	db, err := postgres.Open(p, connections, tables...)
	if err != nil {
		return nil, err
	}
	p.Registry.MustRegister(collectors.NewDBStatsCollector(db, "legs"))
	return &office{db: db, brokers: brokers, cured: p.Cured}, nil
}

func main() { upstream.Main(open) }
