// Command victuals tells a cook what is left in the stores of his ship. It calls sql.Open for each
// request, and closes what that returns, as if it were one connection and not a pool; so for each
// request a connection is made, and PostgreSQL starts a process for it. Nothing is shown.
//
// Cured, it is called once, when the service starts.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	ships       = 500
	provisions  = 12 // of each ship
	connections = 40 // of the pool
)

var statements = []string{
	"DROP TABLE IF EXISTS victuals",
	"CREATE TABLE victuals (ship int, name text, kilos int, best date, PRIMARY KEY (ship, name))",
	fmt.Sprintf("INSERT INTO victuals SELECT s, 'barrel ' || n, (s * n) %% 400, "+
		"date '2026-03-01' + (s + 17 * n) %% 200 "+
		"FROM generate_series(0, %d - 1) s, generate_series(1, %d) n", ships, provisions),
	"VACUUM ANALYZE victuals",
}

const query = "SELECT name, kilos, best FROM victuals WHERE ship = $1 ORDER BY best, name"

// victual is a row.
type victual struct {
	Name  string    `json:"name"`
	Kilos int       `json:"kilos"`
	Best  time.Time `json:"best"`
}

// galley has the stores of all ships.
type galley struct {
	address string
	kept    *sql.DB // nil where the database is opened for each request
}

// open returns the database, and what to do with it afterwards.
func (g *galley) open() (*sql.DB, func() error, error) {
	if g.kept != nil {
		return g.kept, func() error { return nil }, nil
	}
	db, err := connect(g.address)
	if err != nil {
		return nil, nil, err
	}
	return db, db.Close, nil
}

func connect(address string) (*sql.DB, error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// stores are what a ship has, the first to be eaten first.
func (g *galley) stores(ctx context.Context, ship int) ([]victual, error) {
	db, done, err := g.open()
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := db.QueryContext(ctx, query, ship)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []victual
	for rows.Next() {
		var v victual
		if err := rows.Scan(&v.Name, &v.Kilos, &v.Best); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

func (g *galley) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ship := rand.IntN(ships)
	all, err := g.stores(r.Context(), ship)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	body, err := json.Marshal(map[string]any{"ship": ship, "stores": all, "seal": work.Do(4)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

func open(p *ward.Patient) (http.Handler, error) {
	address, err := postgres.Address()
	if err != nil {
		return nil, err
	}
	db, err := connect(address)
	if err != nil {
		return nil, err
	}
	for _, s := range statements {
		if _, err := db.ExecContext(p.Context, s); err != nil {
			db.Close()
			return nil, fmt.Errorf("make the table: %w", err)
		}
	}
	if !p.Cured {
		return &galley{address: address}, db.Close()
	}
	p.OnEnd(func() { db.Close() })
	return &galley{kept: db}, nil
}

func main() { ward.Main(open) }
