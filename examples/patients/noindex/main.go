// Command noindex looks for a customer's orders in a table that has no index on the customer, so
// PostgreSQL reads all of it for each request.
//
// Cured, there is one.
package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"

	"plimsoll/examples/patients/database"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 32
	// customers have ten orders each.
	customers = 3000
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	db, err := database.Open(p, connections, connections)
	if err != nil {
		return nil, err
	}
	statements := []string{
		"DROP TABLE IF EXISTS orders",
		"CREATE TABLE orders (id serial PRIMARY KEY, customer int, price int)",
		fmt.Sprintf("INSERT INTO orders (customer, price) "+
			"SELECT n %% %d, n FROM generate_series(1, %d) n", customers, 10*customers),
	}
	if p.Cured {
		statements = append(statements, "CREATE INDEX ON orders (customer)")
	}
	for _, statement := range append(statements, "VACUUM ANALYZE orders") {
		if _, err := db.ExecContext(p.Context, statement); err != nil {
			return nil, fmt.Errorf("make the table: %w", err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sum int
		err := db.QueryRowContext(r.Context(), "SELECT sum(price) FROM orders WHERE customer = $1",
			rand.IntN(customers)).Scan(&sum)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, sum, work.Do(3))
	}), nil
}
