// Command refits finds the refits of ships in PostgreSQL, by the number of an invoice or by the
// call sign of a ship, whatever a clerk types into the one box. The query joins the two tables and
// says OR between a column of the one and a column of the other. Both have an index, and neither
// helps with that, so that PostgreSQL joins all refits with all ships for each request. Nothing is
// shown.
//
// Cured, there is a query for each of the two columns, with UNION between them, and each finds its
// rows by an index.
package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 24
	ships       = 1200
	refits      = 9600
)

var tables = []string{
	"DROP TABLE IF EXISTS refits, ships",
	"CREATE TABLE ships (id int PRIMARY KEY, sign text UNIQUE, name text)",
	"CREATE TABLE refits (invoice text PRIMARY KEY, ship int REFERENCES ships, yard text, " +
		"days int, pounds int)",
	fmt.Sprintf("INSERT INTO ships SELECT n, 'MQ' || n, 'Ship ' || n "+
		"FROM generate_series(1, %d) n", ships),
	fmt.Sprintf("INSERT INTO refits SELECT 'R' || n, 1 + n * 7 %% %d, 'Yard ' || n %% 23, "+
		"3 + n %% 40, 900 + n * 7919 %% 90000 FROM generate_series(1, %d) n", ships, refits),
	"CREATE INDEX ON refits (ship)",
	"VACUUM ANALYZE ships",
	"VACUUM ANALYZE refits",
}

const (
	join = "SELECT s.name, r.invoice, r.yard, r.days, r.pounds " +
		"FROM refits r JOIN ships s ON s.id = r.ship WHERE "
	either = join + "r.invoice = $1 OR s.sign = $1 ORDER BY 2"
	each   = join + "r.invoice = $1 UNION " + join + "s.sign = $1 ORDER BY 2"
)

type refit struct {
	ship, invoice, yard string
	days, pounds        int
}

// office finds refits.
type office struct {
	db    *sql.DB
	query string
}

// find returns the refit with that invoice, or those of the ship with that call sign.
func (o *office) find(r *http.Request, typed string) (all []refit, err error) {
	found, err := o.db.QueryContext(r.Context(), o.query, typed)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var f refit
		if err := found.Scan(&f.ship, &f.invoice, &f.yard, &f.days, &f.pounds); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, found.Err()
}

// typed is what a clerk looks for: of three, two know the ship, and one has the invoice.
func typed() string {
	if rand.IntN(3) == 0 {
		return fmt.Sprint("R", 1+rand.IntN(refits))
	}
	return fmt.Sprint("MQ", 1+rand.IntN(ships))
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := typed()
	all, err := o.find(r, what)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	days, pounds := 0, 0
	for _, f := range all {
		fmt.Fprintln(w, f.ship, f.invoice, f.yard, f.days, f.pounds)
		days, pounds = days+f.days, pounds+f.pounds
	}
	fmt.Fprintln(w, what, len(all), days, pounds, work.Do(2))
}

func open(p *ward.Patient) (http.Handler, error) {
	db, err := postgres.Open(p, connections, tables...)
	if err != nil {
		return nil, err
	}
	o := &office{db: db, query: either}
	if p.Cured {
		o.query = each
	}
	return o, nil
}

func main() { ward.Main(open) }
