// Command ferrymen replaces the trip that a ferryman offers with one at another price. Passengers
// who have booked refer to their trip, and there is no index on the column that does. Before an
// offer is deleted, PostgreSQL makes sure that nobody refers to it, and for that it reads all
// passengers, for each request.
//
// Cured, there is an index on the column that refers to trips.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// connections are as many as PostgreSQL can do something for, and some that wait for us.
	connections = 24
	// ferrymen have one offer each.
	ferrymen = 500
)

// Booked trips have fifteen passengers each.
const tables = `DROP TABLE IF EXISTS passengers, trips;
CREATE TABLE trips (
	id bigserial PRIMARY KEY, ferryman int NOT NULL, price int NOT NULL, booked bool NOT NULL);
CREATE TABLE passengers (
	id bigserial PRIMARY KEY, trip bigint NOT NULL REFERENCES trips, name text NOT NULL);
CREATE INDEX offers ON trips (ferryman) WHERE NOT booked;
INSERT INTO trips (ferryman, price, booked) SELECT n % 500, 5, true FROM generate_series(1, 3000) n;
INSERT INTO passengers (trip, name)
	SELECT id, 'passenger ' || n FROM trips, generate_series(1, 15) n WHERE booked;
INSERT INTO trips (ferryman, price, booked) SELECT n, 5, false FROM generate_series(0, 499) n;
ANALYZE trips, passengers`

const byTrip = "CREATE INDEX passengers_trip ON passengers (trip)"

func main() { ward.Main(landing) }

func landing(p *ward.Patient) (http.Handler, error) {
	statements := []string{tables}
	if p.Cured {
		statements = append(statements, byTrip)
	}
	db, err := postgres.Open(p, connections, statements...)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ferryman, price := rand.IntN(ferrymen), 3+rand.IntN(9)
		trip, err := offer(r.Context(), db, ferryman, price)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "trip %d of ferryman %d for %d\n%s\n", trip, ferryman, price, work.Do(3))
	}), nil
}

// offer replaces what a ferryman offers, and returns the new trip's number.
func offer(ctx context.Context, db *sql.DB, ferryman, price int) (trip int64, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx,
		"DELETE FROM trips WHERE ferryman = $1 AND NOT booked", ferryman); err != nil {
		return 0, fmt.Errorf("withdraw the offer: %w", err)
	}
	if err := tx.QueryRowContext(ctx,
		"INSERT INTO trips (ferryman, price, booked) VALUES ($1, $2, false) RETURNING id",
		ferryman, price).Scan(&trip); err != nil {
		return 0, fmt.Errorf("make the offer: %w", err)
	}
	return trip, tx.Commit()
}
