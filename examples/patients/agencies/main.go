// Command agencies keeps the accounts of the agents of a shipping line. Each agent has a pool of
// connections to PostgreSQL, of sixteen at most, which was right for one; four of them together may
// ask for more than the database takes, and then requests fail which had only to wait a little.
//
// Cured, all agents share one pool of sixteen.
package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 16 // of a pool
	unused      = 3 * time.Second
	accounts    = 2000
)

var agents = []string{"bergen", "lisbon", "malta", "odessa"}

var statements = []string{
	"DROP TABLE IF EXISTS accounts",
	"CREATE TABLE accounts (agent text, id int, cents bigint, PRIMARY KEY (agent, id))",
}

// balance takes about five milliseconds, nearly all of them to wait.
const balance = "SELECT cents FROM accounts, pg_sleep(0.005) WHERE agent = $1 AND id = $2"

// connect opens a pool.
func connect(p *ward.Patient, address, name string) (*sql.DB, error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	p.OnEnd(func() { db.Close() })
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(unused)
	db.SetConnMaxLifetime(5 * time.Minute)
	p.Registry.MustRegister(collectors.NewDBStatsCollector(db, name))
	return db, nil
}

// fill opens the accounts, and shows how many connections the database takes.
func fill(p *ward.Patient, db *sql.DB) error {
	for _, s := range statements {
		if _, err := db.ExecContext(p.Context, s); err != nil {
			return fmt.Errorf("make the table: %w", err)
		}
	}
	for _, agent := range agents {
		if _, err := db.ExecContext(p.Context, "INSERT INTO accounts "+
			"SELECT $1, n, n * 7919 % 100000 FROM generate_series(0, $2) n",
			agent, accounts-1); err != nil {
			return fmt.Errorf("open accounts: %w", err)
		}
	}
	var most float64
	if err := db.QueryRowContext(p.Context,
		"SELECT current_setting('max_connections')::float").Scan(&most); err != nil {
		return fmt.Errorf("ask the database for its limit: %w", err)
	}
	p.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pg_settings_max_connections",
		Help: "Connections that the server takes at most, from all its clients.",
	}, func() float64 { return most }))
	return nil
}

func open(p *ward.Patient) (http.Handler, error) {
	address, err := postgres.Address()
	if err != nil {
		return nil, err
	}
	pools := make([]*sql.DB, len(agents))
	for i, agent := range agents {
		if p.Cured && i > 0 {
			pools[i] = pools[0]
			continue
		}
		db, err := connect(p, address, agent)
		if err != nil {
			return nil, err
		}
		pools[i] = db
	}
	if err := fill(p, pools[0]); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := rand.IntN(len(agents))
		var cents int64
		err := pools[i].QueryRowContext(r.Context(), balance, agents[i], rand.IntN(accounts)).Scan(&cents)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, agents[i], cents, work.Do(5))
	}), nil
}

func main() { ward.Main(open) }
