// Command rowlock sells one thing, and holds the lock on its row while it waits for the payment:
// transactions for the same thing stand in line in the database.
//
// Cured, the payment comes before the transaction.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/database"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// connections are enough for all that wait.
	connections = 60
	// payment is how long the bank takes.
	payment = 3 * time.Millisecond
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	db, err := database.Open(p, connections, connections)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(p.Context,
		"CREATE TABLE IF NOT EXISTS stock (id int PRIMARY KEY, sold int); "+
			"INSERT INTO stock VALUES (1, 0) ON CONFLICT DO NOTHING"); err != nil {
		return nil, fmt.Errorf("make the table: %w", err)
	}
	sell := sellPaying
	if p.Cured {
		sell = sellPaid
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := sell(r.Context(), db); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, work.Do(3))
	}), nil
}

// sellPaying is the disease.
func sellPaying(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET sold = sold + 1 WHERE id = 1"); err != nil {
		return err
	}
	pay()
	return tx.Commit()
}

// sellPaid holds the lock for no longer than the database takes.
func sellPaid(ctx context.Context, db *sql.DB) error {
	pay()
	_, err := db.ExecContext(ctx, "UPDATE stock SET sold = sold + 1 WHERE id = 1")
	return err
}

// pay stands for a bank.
func pay() { time.Sleep(payment) }
