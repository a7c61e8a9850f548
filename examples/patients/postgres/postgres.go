// Package postgres opens the PostgreSQL that a patient in Go asks. It must not know what is asked.
package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"plimsoll/examples/patients/ward"
)

// Address returns the address of the database, which bench/patients.py gives in the environment.
func Address() (string, error) {
	address := os.Getenv("PATIENT_DATABASE")
	if address == "" {
		return "", errors.New("PATIENT_DATABASE is not set: " +
			"give it as postgres://user@127.0.0.1:5432/postgres, " +
			"or let bench/patients.py start one")
	}
	return address, nil
}

// Open opens a pool that keeps up to so many connections, until the patient ends, and executes the
// statements that make its tables.
func Open(p *ward.Patient, connections int, tables ...string) (*sql.DB, error) {
	address, err := Address()
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	p.OnEnd(func() { db.Close() })
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	for _, statement := range tables {
		if _, err := db.ExecContext(p.Context, statement); err != nil {
			return nil, fmt.Errorf("make the tables: %w", err)
		}
	}
	return db, nil
}
