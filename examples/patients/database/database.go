// Package database opens the PostgreSQL of those patients that have one, and shows its pool at
// /metrics. It must not know how large a pool ought to be: that is what the patients differ in.
package database

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// lifetime is how long a connection may be used: long enough that making another costs nothing,
// short enough for a failover.
const lifetime = 5 * time.Minute

// Open connects to the PostgreSQL that the environment names in PATIENT_DATABASE, with a pool of at
// most open connections, 0 being no limit, of which at most idle are kept while nobody uses them.
// It is closed when the patient ends.
func Open(p *ward.Patient, open, idle int) (*sql.DB, error) {
	address := os.Getenv("PATIENT_DATABASE")
	if address == "" {
		return nil, errors.New("PATIENT_DATABASE is not set: " +
			"give it as postgres://user@127.0.0.1:5432/postgres, " +
			"or let bench/patients.py start one")
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	p.OnEnd(func() { db.Close() })
	db.SetMaxOpenConns(open)
	db.SetMaxIdleConns(idle)
	db.SetConnMaxLifetime(lifetime)
	var limit string
	if err := db.QueryRowContext(p.Context, "SHOW max_connections").Scan(&limit); err != nil {
		return nil, fmt.Errorf("ask the database for its limit: %w", err)
	}
	most, err := strconv.ParseFloat(limit, 64)
	if err != nil {
		return nil, fmt.Errorf("the database's max_connections: %w", err)
	}
	p.Registry.MustRegister(collectors.NewDBStatsCollector(db, "patient"),
		gauge("go_sql_max_idle_connections", "Idle connections that the pool keeps at most.",
			float64(idle)),
		gauge("go_sql_max_lifetime_seconds", "How long a connection may be used.",
			lifetime.Seconds()),
		gauge("pg_settings_max_connections",
			"Connections that the server takes at most, from all its clients.", most))
	return db, nil
}

// Serve answers each request with one query, which holds a connection for about five milliseconds
// and the processor for little of it, and with units of work (see package work).
func Serve(db *sql.DB, units int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var stock int
		err := db.QueryRowContext(r.Context(),
			"SELECT sum(n) FROM generate_series(1, 20) n, pg_sleep(0.004)").Scan(&stock)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, stock, work.Do(units))
	})
}

// gauge is a figure that does not change.
func gauge(name, help string, value float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		return value
	})
}
