// Command tillers hands out tickets at a boatyard that repairs tillers. A request looks up a boat
// and what was done to its tiller before, and takes the next ticket, in a transaction. Somebody
// has limited the pool to fewer connections than PostgreSQL allows, and has left SetMaxIdleConns
// alone, so the pool keeps only two that are not in use. When more requests are under way,
// many of them open a connection, which costs far more than what they ask, and close it again.
//
// Cured, the pool keeps as many connections as it may open.
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
	// connections leave some of PostgreSQL's hundred to others.
	connections = 80
	// unset is how many idle ones database/sql keeps if nobody says.
	unset = 2
	boats = 5000
)

const tables = `DROP TABLE IF EXISTS boats, repairs, tickets;
CREATE TABLE boats (id int PRIMARY KEY, name text NOT NULL, workshop int NOT NULL);
CREATE TABLE repairs (boat int NOT NULL, done date NOT NULL, what text NOT NULL);
CREATE UNLOGGED TABLE tickets (id bigserial PRIMARY KEY, boat int NOT NULL);
CREATE INDEX repairs_boat ON repairs (boat, done);
INSERT INTO boats SELECT n, 'boat ' || n, n % 40 FROM generate_series(0, 4999) n;
INSERT INTO repairs SELECT n % 5000, date '2020-01-01' + n / 20, 'pintle ' || n % 17
	FROM generate_series(0, 29999) n;
ANALYZE boats, repairs`

func main() { ward.Main(boatyard) }

func boatyard(p *ward.Patient) (http.Handler, error) {
	db, err := postgres.Open(p, connections, tables)
	if err != nil {
		return nil, err
	}
	if !p.Cured {
		db.SetMaxIdleConns(unset)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, err := admit(r.Context(), db, rand.IntN(boats))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s\n%s\n", page, work.Do(2))
	}), nil
}

// history finds a boat, and what was done to its tiller, the latest first.
const history = `SELECT name, workshop, coalesce(
	(SELECT string_agg(done || ' ' || what, E'\n') FROM
		(SELECT done, what FROM repairs WHERE boat = boats.id ORDER BY done DESC LIMIT 5) latest),
	'nothing')
FROM boats WHERE id = $1`

// admit takes a ticket for a boat, and returns what the workshop has to know.
func admit(ctx context.Context, db *sql.DB, boat int) (string, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback()
	var name, before string
	var workshop int
	row := tx.QueryRowContext(ctx, history, boat)
	if err := row.Scan(&name, &workshop, &before); err != nil {
		return "", fmt.Errorf("look up the boat: %w", err)
	}
	var ticket int64
	row = tx.QueryRowContext(ctx, "INSERT INTO tickets (boat) VALUES ($1) RETURNING id", boat)
	if err := row.Scan(&ticket); err != nil {
		return "", fmt.Errorf("take a ticket: %w", err)
	}
	page := fmt.Sprintf("ticket %d of workshop %d for %s\n%s", ticket, workshop, name, before)
	return page, tx.Commit()
}
