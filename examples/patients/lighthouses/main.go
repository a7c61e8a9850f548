// Command lighthouses is a control: it has no disease. It tells which lights a ship sees, and looks
// suspicious: it has 1500 goroutines, one for each light, which mostly wait; requests wait for the
// 24 connections of its pool to PostgreSQL when there is much to do; it asks a weather office,
// which takes 5 ms; a mutex guards the book in which each request is written; and answers are JSON.
// But nothing of that holds requests up: the processors are the bottleneck.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	lights      = 1500
	coast       = 12 // lights that are near a ship
	pages       = 10_000
	connections = 24
	takes       = 5 * time.Millisecond // to ask the weather office
)

var tables = fmt.Sprintf(`
DROP TABLE IF EXISTS lights;
CREATE TABLE lights (id int PRIMARY KEY, name text NOT NULL, miles int NOT NULL);
INSERT INTO lights SELECT n, 'Light ' || n, 6 + n * 31 %% 20 FROM generate_series(0, %d) n;
ANALYZE lights;
`, lights-1)

// light is what a ship is told.
type light struct {
	Name    string `json:"name"`
	Miles   int    `json:"miles"`
	Flashes int64  `json:"flashes"`
}

// book has the last requests, in a ring. Any goroutine may write.
type book struct {
	mu   sync.Mutex
	page [pages]string
	next int
}

func (b *book) write(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.page[b.next] = line
	b.next = (b.next + 1) % pages
}

// office knows the lights.
type office struct {
	db      *sql.DB
	weather *upstream.Upstream
	flashes [lights]atomic.Int64
	book    book
}

// tend counts the flashes of a light until ctx ends.
func (o *office) tend(ctx context.Context, which int) {
	flash := time.NewTicker(time.Minute + time.Duration(which)*time.Millisecond)
	defer flash.Stop()
	for {
		select {
		case <-flash.C:
			o.flashes[which].Add(1)
		case <-ctx.Done():
			return
		}
	}
}

// near finds the lights of a coast, from the first on.
func (o *office) near(ctx context.Context, first int) ([]light, error) {
	rows, err := o.db.QueryContext(ctx, "SELECT id, name, miles FROM lights "+
		"WHERE id >= $1 AND id < $2 ORDER BY id", first, first+coast)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make([]light, 0, coast)
	for rows.Next() {
		var id int
		var l light
		if err := rows.Scan(&id, &l.Name, &l.Miles); err != nil {
			return nil, err
		}
		l.Flashes = o.flashes[id].Load()
		found = append(found, l)
	}
	return found, rows.Err()
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first := rand.IntN(lights - coast)
	_, err := o.weather.Ask(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	found, err := o.near(r.Context(), first)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	line := work.Do(4)
	o.book.write(line)
	json.NewEncoder(w).Encode(map[string]any{"lights": found, "page": line})
}

func open(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_DATABASE")
	if address == "" {
		return nil, errors.New("PATIENT_DATABASE is not set: let bench/patients.py start one")
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	p.OnEnd(func() { db.Close() })
	p.Registry.MustRegister(collectors.NewDBStatsCollector(db, "lights"))
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	_, made := db.ExecContext(p.Context, tables)
	weather, started := upstream.Start(p, 4096, takes)
	if err := errors.Join(made, started); err != nil {
		return nil, err
	}
	o := &office{db: db, weather: weather}
	for i := range lights {
		go o.tend(p.Context, i)
	}
	return o, nil
}

func main() { upstream.Main(open) }
