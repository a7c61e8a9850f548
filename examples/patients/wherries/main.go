// Command wherries shows the trips of a wherry, which PostgreSQL keeps as JSON documents with a GIN
// index on them. It compares a member that it takes out of each document with ->>, which that index
// does not help with, so that PostgreSQL reads all trips for each request. Nothing is shown.
//
// Cured, it asks with @> for the documents that contain the member, which the index finds.
package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 24
	wherries    = 700
	trips       = 7000
)

var tables = []string{
	"DROP TABLE IF EXISTS trips",
	"CREATE TABLE trips (id int PRIMARY KEY, trip jsonb)",
	fmt.Sprintf("INSERT INTO trips SELECT n, jsonb_build_object("+
		"'wherry', 'Wherry ' || n %% %d, 'from', 'Stairs ' || n %% 37, 'to', 'Stairs ' || n %% 41, "+
		"'passengers', n %% 6, 'pence', 20 + n * 7 %% 300) FROM generate_series(1, %d) n",
		wherries, trips),
	"CREATE INDEX ON trips USING gin (trip jsonb_path_ops)",
	"VACUUM ANALYZE trips",
}

const (
	byMember   = "SELECT trip FROM trips WHERE trip->>'wherry' = $1 ORDER BY id"
	byDocument = "SELECT trip FROM trips WHERE trip @> jsonb_build_object('wherry', $1::text) " +
		"ORDER BY id"
)

type trip struct {
	From       string `json:"from"`
	To         string `json:"to"`
	Passengers int    `json:"passengers"`
	Pence      int    `json:"pence"`
}

// office knows the trips of all wherries.
type office struct {
	db    *sql.DB
	query string
}

// trips are those of a wherry.
func (o *office) trips(r *http.Request, wherry string) (all []trip, err error) {
	found, err := o.db.QueryContext(r.Context(), o.query, wherry)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var text []byte
		if err := found.Scan(&text); err != nil {
			return nil, err
		}
		var t trip
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, found.Err()
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wherry := fmt.Sprint("Wherry ", rand.IntN(wherries))
	all, err := o.trips(r, wherry)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	pence := 0
	for _, t := range all {
		pence += t.Passengers * t.Pence
	}
	fmt.Fprintln(w, wherry, all, pence, work.Do(4))
}

func open(p *ward.Patient) (http.Handler, error) {
	db, err := postgres.Open(p, connections, tables...)
	if err != nil {
		return nil, err
	}
	o := &office{db: db, query: byMember}
	if p.Cured {
		o.query = byDocument
	}
	return o, nil
}

func main() { ward.Main(open) }
