// Command lockages tells what a ship has paid for a lockage. There is a partition of the table for
// each day, and the query does not say of which day the lockage is, though its number begins with
// the day; so PostgreSQL looks into the index of every partition, and locks them all. Nothing is
// shown.
//
// Cured, the query says of which day the lockage is.
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
	days        = 120
	ofDay       = 200 // lockages
)

// tables are made by one statement, so that all is there or nothing.
var tables = fmt.Sprintf(`
DROP TABLE IF EXISTS lockages;
CREATE TABLE lockages (number int NOT NULL, day int NOT NULL, ship text, paid int)
    PARTITION BY LIST (day);
DO $$ BEGIN
    FOR d IN 0..%d LOOP
        EXECUTE format('CREATE TABLE lockages_%%s PARTITION OF lockages '
            'FOR VALUES IN (%%s)', d, d);
    END LOOP;
END $$;
INSERT INTO lockages
    SELECT d * 1000 + n, d, 'Ship ' || (d * 31 + n * 7) %% 900, 100 + n * 37 %% 4000
    FROM generate_series(0, %d) d, generate_series(0, %d) n;
CREATE INDEX ON lockages (number);
ANALYZE lockages;
`, days-1, days-1, ofDay-1)

const (
	anyDay = "SELECT ship, paid FROM lockages WHERE number = $1"
	oneDay = "SELECT ship, paid FROM lockages WHERE number = $1 AND day = $2"
)

// receipts finds what was paid.
type receipts struct {
	db    *sql.DB
	cured bool
}

// find looks for lockage n of a day.
func (f *receipts) find(r *http.Request, day, n int) (ship string, paid int, err error) {
	number := day*1000 + n
	var row *sql.Row
	if f.cured {
		row = f.db.QueryRowContext(r.Context(), oneDay, number, day)
	} else {
		row = f.db.QueryRowContext(r.Context(), anyDay, number)
	}
	err = row.Scan(&ship, &paid)
	return ship, paid, err
}

func (f *receipts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	day, n := rand.IntN(days), rand.IntN(ofDay)
	ship, paid, err := f.find(r, day, n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, day, n, ship, paid, work.Do(4))
}

func open(p *ward.Patient) (http.Handler, error) {
	db, err := postgres.Open(p, connections, tables)
	if err != nil {
		return nil, err
	}
	return &receipts{db: db, cured: p.Cured}, nil
}

func main() { ward.Main(open) }
