// Command tonnages writes certificates of how much a ship can carry, and tells the register of
// ships of each. The number of a certificate comes from a row that is counted up at the beginning
// of the transaction, so PostgreSQL keeps that row locked until the register has answered, and the
// other certificates wait for the lock. Only pprof is shown.
//
// Cured, the number comes from a sequence, which nobody has to wait for.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// connections are enough for all that wait.
	connections = 64
	ships       = 9000
	patient     = 10 * time.Second // at most, for an answer of the register
)

var tables = []string{
	"DROP TABLE IF EXISTS certificates, numbers; DROP SEQUENCE IF EXISTS certificate_numbers",
	// There is room in the page, so that a row which is changed all the time stays in it.
	"CREATE TABLE numbers (kind text PRIMARY KEY, last bigint NOT NULL) WITH (fillfactor = 20)",
	"INSERT INTO numbers VALUES ('certificate', 0), ('survey', 0), ('receipt', 0)",
	"CREATE SEQUENCE certificate_numbers",
	"CREATE TABLE certificates (number bigint PRIMARY KEY, ship int NOT NULL, " +
		"tonnes int NOT NULL, register text NOT NULL)",
}

const (
	fromRow = "UPDATE numbers SET last = last + 1 WHERE kind = 'certificate' RETURNING last"
	fromSeq = "SELECT nextval('certificate_numbers')"
	insert  = "INSERT INTO certificates VALUES ($1, $2, $3, $4)"
)

// desk is where certificates are written.
type desk struct {
	db       *sql.DB
	number   string // the query that gives the next one
	register string // the address of the register of ships
	client   *http.Client
}

// tell tells the register of a certificate, and returns what it answers.
func (d *desk) tell(ctx context.Context, number int64, ship int) (string, error) {
	url := fmt.Sprintf("http://%s/certificates/%d?ship=%d", d.register, number, ship)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := d.client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 512))
	return string(text), err
}

// certify writes a certificate. None is kept that the register was not told of.
func (d *desk) certify(ctx context.Context, ship, tonnes int) (number int64, err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if err := tx.QueryRowContext(ctx, d.number).Scan(&number); err != nil {
		return 0, err
	}
	said, err := d.tell(ctx, number, ship)
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, insert, number, ship, tonnes, said); err != nil {
		return 0, err
	}
	return number, tx.Commit()
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ship := rand.IntN(ships)
	tonnes := 100 + ship*7%9000
	number, err := d.certify(r.Context(), ship, tonnes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, number, ship, tonnes, work.Do(4))
}

func open(p *ward.Patient) (http.Handler, error) {
	register := os.Getenv("PATIENT_SERVICE")
	if register == "" {
		return nil, errors.New("PATIENT_SERVICE is not set: give it as HOST:PORT, " +
			"or let bench/patients.py start one")
	}
	db, err := postgres.Open(p, connections, tables...)
	if err != nil {
		return nil, err
	}
	kept := &http.Transport{MaxIdleConnsPerHost: connections}
	p.OnEnd(kept.CloseIdleConnections)
	d := &desk{
		db:       db,
		number:   fromRow,
		register: register,
		client:   &http.Client{Transport: kept, Timeout: patient},
	}
	if p.Cured {
		d.number = fromSeq
	}
	return d, nil
}

func main() { ward.Main(open) }
