// Command arrivals tells which ships a quay waits for. Each of its quays listens for notices of
// PostgreSQL over a connection that it takes from the pool and never gives back, so that queries
// have four of the 24.
//
// Cured, all quays listen over one connection.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 24
	quays       = 20
)

var tables = []string{
	"DROP TABLE IF EXISTS arrivals",
	"CREATE TABLE arrivals (quay int, ship text, day date, tonnes int)",
	fmt.Sprintf("INSERT INTO arrivals SELECT n %% %d, 'Ship ' || n, date '2026-01-01' + n %% 300, "+
		"100 + n * 7 %% 9000 FROM generate_series(1, 200) n", quays),
	"CREATE INDEX ON arrivals (quay)",
	"VACUUM ANALYZE arrivals",
}

// The sleep stands for the way to the database and back.
const query = `SELECT a.ship, a.tonnes FROM arrivals a, (SELECT pg_sleep(0.010)) AS way
	WHERE a.quay = $1 ORDER BY a.day`

// board shows what each quay waits for.
type board struct {
	db      *sql.DB
	notices atomic.Int64
	ended   sync.WaitGroup
}

// listen counts what is told of some quays, until ctx ends.
func (b *board) listen(ctx context.Context, quays ...int) error {
	c, err := b.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for _, quay := range quays {
		if _, err := c.ExecContext(ctx, fmt.Sprintf("LISTEN quay%d", quay)); err != nil {
			c.Close()
			return fmt.Errorf("listen: %w", err)
		}
	}
	b.ended.Go(func() {
		defer c.Close()
		c.Raw(func(driver any) error {
			for {
				if _, err := driver.(*stdlib.Conn).Conn().WaitForNotification(ctx); err != nil {
					return err
				}
				b.notices.Add(1)
			}
		})
	})
	return nil
}

// ships are those that a quay waits for, and their tonnes.
func (b *board) ships(r *http.Request, quay int) (names []string, tonnes int, err error) {
	rows, err := b.db.QueryContext(r.Context(), query, quay)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var own int
		if err := rows.Scan(&name, &own); err != nil {
			return nil, 0, err
		}
		names, tonnes = append(names, name), tonnes+own
	}
	return names, tonnes, rows.Err()
}

func (b *board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	quay := rand.IntN(quays)
	names, tonnes, err := b.ships(r, quay)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, quay, names, tonnes, b.notices.Load(), work.Do(4))
}

func open(p *ward.Patient) (http.Handler, error) {
	address, err := postgres.Address()
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	b := &board{db: db}
	p.OnEnd(func() { db.Close() })
	p.OnEnd(b.ended.Wait)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	for _, statement := range tables {
		if _, err := db.ExecContext(p.Context, statement); err != nil {
			return nil, fmt.Errorf("make the table: %w", err)
		}
	}
	var all []int
	for quay := range quays {
		if all = append(all, quay); p.Cured {
			continue
		}
		if err := b.listen(p.Context, quay); err != nil {
			return nil, err
		}
	}
	if p.Cured {
		if err := b.listen(p.Context, all...); err != nil {
			return nil, err
		}
	}
	p.Registry.MustRegister(collectors.NewDBStatsCollector(db, "arrivals"))
	return b, nil
}

func main() { ward.Main(open) }
