// Command consignments shows a consignment: one query over nine tables finds all of it by primary
// keys. default_query_exec_mode=exec is left in the address of the database from when there was a
// PgBouncer that could not keep prepared statements; so PostgreSQL parses and plans the query again
// for each request, which takes far longer than to run it. Nothing is shown.
//
// Cured, it is not there, and the statement is prepared once for each connection.
package main

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections  = 24
	consignments = 20_000
	others       = 500 // rows of each of the other tables
	leftOver     = "&default_query_exec_mode=exec"
)

// belongs are the tables that a consignment belongs to, each with a row of its own.
var belongs = []string{
	"shippers", "consignees", "vessels", "ports", "terminals", "agents", "brokers", "insurers",
}

// tables makes all of them, in one statement.
func tables() string {
	var all strings.Builder
	for i, t := range belongs {
		fmt.Fprintf(&all, "DROP TABLE IF EXISTS %s CASCADE;\n", t)
		fmt.Fprintf(&all, "CREATE TABLE %s (id int PRIMARY KEY, name text NOT NULL);\n", t)
		fmt.Fprintf(&all, "INSERT INTO %s SELECT n, '%s ' || n * %d FROM "+
			"generate_series(0, %d) n;\nANALYZE %s;\n", t, t, i+3, others-1, t)
	}
	all.WriteString("DROP TABLE IF EXISTS consignments;\n" +
		"CREATE TABLE consignments (id int PRIMARY KEY")
	for _, t := range belongs {
		fmt.Fprintf(&all, ", %s_id int NOT NULL REFERENCES %s", t, t)
	}
	all.WriteString(");\nINSERT INTO consignments SELECT n")
	for i := range belongs {
		fmt.Fprintf(&all, ", n * %d %% %d", 2*i+3, others)
	}
	fmt.Fprintf(&all, " FROM generate_series(0, %d) n;\nANALYZE consignments;\n", consignments-1)
	return all.String()
}

// query finds the names of all that a consignment belongs to, in a line.
func query() string {
	names, joins := make([]string, len(belongs)), make([]string, len(belongs))
	for i, t := range belongs {
		names[i] = t + ".name"
		joins[i] = fmt.Sprintf("JOIN %s ON %s.id = c.%s_id", t, t, t)
	}
	return "SELECT concat_ws(', ', " + strings.Join(names, ", ") + ") FROM consignments c " +
		strings.Join(joins, " ") + " WHERE c.id = $1"
}

// desk answers for consignments.
type desk struct {
	db    *sql.DB
	query string
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, line := rand.IntN(consignments), ""
	if err := d.db.QueryRowContext(r.Context(), d.query, id).Scan(&line); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, id, line, work.Do(3))
}

func open(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_DATABASE")
	if address == "" {
		return nil, errors.New("PATIENT_DATABASE is not set: " +
			"give it as postgres://user@127.0.0.1:5432/postgres?sslmode=disable, " +
			"or let bench/patients.py start one")
	}
	if !p.Cured {
		address += leftOver
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	p.OnEnd(func() { db.Close() })
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if _, err := db.ExecContext(p.Context, tables()); err != nil {
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return &desk{db: db, query: query()}, nil
}

func main() { ward.Main(open) }
