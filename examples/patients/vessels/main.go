// Command vessels tells where the vessels of an owner are, which it reads with pgx from a database
// in another city: 10 ms for a query. Nobody has set pool_max_conns, and pgxpool's own choice is
// four connections on a machine with four processors or fewer, so four requests at a time are
// answered, and the others wait for a connection. Only pprof is shown.
//
// Cured, pool_max_conns is 40.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	owners = 3000
	each   = 4  // vessels of an owner
	many   = 40 // connections of the cured service's pool
)

var tables = []string{
	"DROP TABLE IF EXISTS vessels",
	"CREATE TABLE vessels (owner int, name text, latitude float8, longitude float8)",
	fmt.Sprintf("INSERT INTO vessels SELECT i %% %d, 'vessel ' || i, i * 7 %% 140 - 70, "+
		"i * 11 %% 360 - 180 FROM generate_series(1, %d) i", owners, owners*each),
	"CREATE INDEX ON vessels (owner)",
	"VACUUM ANALYZE vessels",
}

// The sleep stands for the way to the other city and back.
const query = `SELECT v.name, v.latitude, v.longitude
	FROM vessels v, (SELECT pg_sleep(0.010)) AS way WHERE v.owner = $1 ORDER BY v.name`

// vessel is a row.
type vessel struct {
	Name      string  `json:"name"`
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

// register answers from the database.
type register struct{ pool *pgxpool.Pool }

// fleet is the vessels of an owner.
func (g *register) fleet(ctx context.Context, owner int) ([]vessel, error) {
	rows, err := g.pool.Query(ctx, query, owner)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[vessel])
}

func (g *register) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	owner := rand.IntN(owners)
	vessels, err := g.fleet(r.Context(), owner)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	body, err := json.Marshal(struct {
		Owner   int      `json:"owner"`
		Seal    string   `json:"seal"`
		Vessels []vessel `json:"vessels"`
	}{owner, work.Do(4), vessels})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

// connect makes the pool. Without the cure it is as large as pgxpool makes it by itself.
func connect(p *ward.Patient) (*pgxpool.Pool, error) {
	address, err := postgres.Address()
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("PATIENT_DATABASE: %w", err)
	}
	if p.Cured {
		config.MaxConns = many // as pool_max_conns in the address would
	}
	return pgxpool.NewWithConfig(p.Context, config)
}

func open(p *ward.Patient) (http.Handler, error) {
	pool, err := connect(p)
	if err != nil {
		return nil, err
	}
	p.OnEnd(pool.Close)
	for _, statement := range tables {
		if _, err := pool.Exec(p.Context, statement); err != nil {
			return nil, fmt.Errorf("make the table: %w", err)
		}
	}
	return &register{pool}, nil
}

func main() { ward.Main(open) }
