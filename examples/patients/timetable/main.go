// Command timetable shows the next departures. They come with their times as text, and to sort them
// it reads the times of two departures for each comparison. Only pprof is shown.
//
// Cured, each time is read once, when the departures come.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	departures = 4000
	near       = 500 // of them are sorted for a quay
	shown      = 12
)

// departure is a ship that leaves.
type departure struct {
	Ship string `json:"ship"`
	To   string `json:"to"`
	At   string `json:"at"`
	read time.Time
}

// board has the departures, which do not change.
type board struct {
	all   []*departure
	order func(a, b *departure) int
}

// asRead compares times as they were read.
func asRead(a, b *departure) int {
	return cmp.Or(a.read.Compare(b.read), cmp.Compare(a.Ship, b.Ship))
}

// asWritten compares times as they are written.
func asWritten(a, b *departure) int {
	return cmp.Or(at(a).Compare(at(b)), cmp.Compare(a.Ship, b.Ship))
}

// at is when a ship leaves; never where that cannot be read.
func at(d *departure) time.Time {
	t, err := time.Parse(time.RFC1123, d.At)
	if err != nil {
		return time.Time{}
	}
	return t
}

func (b *board) next(first int) []*departure {
	some := slices.Clone(b.all[first : first+near])
	slices.SortFunc(some, b.order)
	return some[:shown]
}

func (b *board) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(struct {
		Seal string       `json:"seal"`
		Next []*departure `json:"next"`
	}{work.Do(3), b.next(rand.IntN(departures - near))})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

func open(p *ward.Patient) (http.Handler, error) {
	b := &board{order: asWritten}
	day := time.Date(2026, time.May, 4, 0, 0, 0, 0, time.UTC)
	for i := range departures {
		d := &departure{
			Ship: fmt.Sprintf("Skua %d", i%173),
			To:   fmt.Sprintf("Holm %d", i%61),
			At:   day.Add(time.Duration(i*7919%20160) * time.Minute).Format(time.RFC1123),
		}
		d.read = at(d)
		b.all = append(b.all, d)
	}
	if p.Cured {
		b.order = asRead
	}
	return b, nil
}

func main() { ward.Main(open) }
