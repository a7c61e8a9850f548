// Command voyages shows a page of the voyages of a line. It counts pages with OFFSET, so that
// PostgreSQL reads all the voyages before a page, and throws them away. Nothing is shown.
//
// Cured, a page begins after the last voyage of the one before it, which the index finds.
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
	voyages     = 60_000
	rows        = 20 // on a page
)

var tables = []string{
	"DROP TABLE IF EXISTS voyages",
	"CREATE TABLE voyages (id int PRIMARY KEY, ship text, harbour text, tonnes int)",
	fmt.Sprintf("INSERT INTO voyages SELECT n, 'Ship ' || n %% 700, 'Harbour ' || n %% 90, "+
		"100 + n * 7 %% 9000 FROM generate_series(1, %d) n", voyages),
	"VACUUM ANALYZE voyages",
}

const (
	byNumber = "SELECT id, ship, harbour, tonnes FROM voyages ORDER BY id LIMIT 20 OFFSET $1"
	after    = "SELECT id, ship, harbour, tonnes FROM voyages WHERE id > $1 ORDER BY id LIMIT 20"
)

type voyage struct {
	id, tonnes    int
	ship, harbour string
}

// line shows its voyages.
type line struct {
	db    *sql.DB
	query string
}

// page are the voyages of a page.
func (l *line) page(r *http.Request, number int) (all []voyage, err error) {
	found, err := l.db.QueryContext(r.Context(), l.query, number*rows)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var v voyage
		if err := found.Scan(&v.id, &v.ship, &v.harbour, &v.tonnes); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, found.Err()
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number := rand.IntN(voyages / rows)
	all, err := l.page(r, number)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, number, all, work.Do(2))
}

func open(p *ward.Patient) (http.Handler, error) {
	db, err := postgres.Open(p, connections, tables...)
	if err != nil {
		return nil, err
	}
	l := &line{db: db, query: byNumber}
	if p.Cured {
		l.query = after
	}
	return l, nil
}

func main() { ward.Main(open) }
