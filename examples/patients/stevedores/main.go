// Command stevedores lists the lifts that a gang of stevedores made on a day. It turns the time of
// each lift into a date, to compare that with the day, so that the index on the time is of no use,
// and PostgreSQL reads all lifts for each request. Only pprof is shown.
//
// Cured, it asks for the times from the beginning of the day to its end, which the index finds.
package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/examples/patients/postgres"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	connections = 48
	unused      = 2 * time.Minute // how long a connection may be
	days        = 1000
	lifts       = 24 // of all gangs on a day, one in each hour
	gangs       = 3
)

var first = time.Date(2024, time.March, 1, 0, 0, 0, 0, time.UTC)

var tables = []string{
	"DROP TABLE IF EXISTS lifts",
	"CREATE TABLE lifts (id int PRIMARY KEY, at timestamp, gang int, crate text, tonnes int)",
	fmt.Sprintf("INSERT INTO lifts SELECT n, timestamp '%s' + n * interval '1 hour', n %% %d, "+
		"'Crate ' || n * 7919 %% 100000, 1 + n * 31 %% 40 FROM generate_series(0, %d) n",
		first.Format(time.DateOnly), gangs, days*lifts-1),
	"CREATE INDEX ON lifts (at)",
	"VACUUM ANALYZE lifts",
}

const (
	byDate = "SELECT at, crate, tonnes FROM lifts " +
		"WHERE at::date = $1::date AND gang = $2 ORDER BY at"
	byTime = "SELECT at, crate, tonnes FROM lifts " +
		"WHERE at >= $1::date AND at < $1::date + 1 AND gang = $2 ORDER BY at"
)

// lift is a crate that was lifted.
type lift struct {
	at     time.Time
	crate  string
	tonnes int
}

// book is where the lifts stand.
type book struct {
	db    *sql.DB
	query string
}

// day are the lifts of a gang on a day.
func (b *book) day(r *http.Request, day time.Time, gang int) (all []lift, err error) {
	found, err := b.db.QueryContext(r.Context(), b.query, day, gang)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var l lift
		if err := found.Scan(&l.at, &l.crate, &l.tonnes); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, found.Err()
}

func (b *book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	day, gang := first.AddDate(0, 0, rand.IntN(days)), rand.IntN(gangs)
	all, err := b.day(r, day, gang)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, day.Format(time.DateOnly), "gang", gang)
	for _, l := range all {
		fmt.Fprintln(w, l.at.Format(time.TimeOnly), l.crate, l.tonnes)
	}
	fmt.Fprintln(w, work.Do(2))
}

func open(p *ward.Patient) (http.Handler, error) {
	db, err := postgres.Open(p, connections, tables...)
	if err != nil {
		return nil, err
	}
	db.SetConnMaxIdleTime(unused)
	b := &book{db: db, query: byDate}
	if p.Cured {
		b.query = byTime
	}
	return b, nil
}

func main() { ward.Main(open) }
