// Command bookings shows the journeys of a customer, which it reads from a database at some
// distance: 6 ms for a query. Its pool may have three connections to it, a figure that was copied
// from the settings for development. The others wait for one of them. Nothing is shown.
//
// Cured, the pool may have 40.
package main

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/examples/patients/database"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	customers = 4000
	journeys  = 5 // of each customer
	few, many = 3, 40
)

const tables = `
CREATE TABLE IF NOT EXISTS journeys (customer int, day date, harbour text, cents int);
TRUNCATE journeys;
INSERT INTO journeys
	SELECT i %% %[1]d, date '2026-01-01' + i %% 300, 'harbour ' || i %% 40, 900 + i * 7 %% 9000
	FROM generate_series(1, %[2]d) i;
CREATE INDEX IF NOT EXISTS journeys_of ON journeys (customer);
ANALYZE journeys;`

// The sleep stands for the way to the database and back.
const query = `SELECT j.day, j.harbour, j.cents FROM journeys j, (SELECT pg_sleep(0.006)) AS way
	WHERE j.customer = $1 ORDER BY j.day`

// journey is a row.
type journey struct {
	Day     time.Time `json:"day"`
	Harbour string    `json:"harbour"`
	Cents   int       `json:"cents"`
}

// office answers from the database.
type office struct{ db *sql.DB }

// journeys are those of a customer.
func (o *office) journeys(r *http.Request, customer int) ([]journey, error) {
	rows, err := o.db.QueryContext(r.Context(), query, customer)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []journey
	for rows.Next() {
		var j journey
		if err := rows.Scan(&j.Day, &j.Harbour, &j.Cents); err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	return all, rows.Err()
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	customer := rand.IntN(customers)
	all, err := o.journeys(r, customer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	body, err := json.Marshal(struct {
		Customer string    `json:"customer"`
		Seal     string    `json:"seal"`
		Journeys []journey `json:"journeys"`
	}{card(customer), work.Do(6), all})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

// card is what is printed on the card of a customer.
func card(customer int) string {
	sum := sha256.Sum256(fmt.Append(nil, "customer ", customer))
	return hex.EncodeToString(sum[:8])
}

func open(p *ward.Patient) (http.Handler, error) {
	most := few
	if p.Cured {
		most = many
	}
	db, err := database.Open(p, most, most)
	if err != nil {
		return nil, err
	}
	fill := fmt.Sprintf(tables, customers, customers*journeys)
	if _, err := db.ExecContext(p.Context, fill); err != nil {
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return &office{db}, nil
}

func main() { ward.Main(open) }
