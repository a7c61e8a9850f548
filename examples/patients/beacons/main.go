// Command beacons shows the last reports of ships. Each report ends with a checksum, and the table
// that is needed for it is made once more for each report. Only pprof is shown.
//
// Cured, there is one table.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"strconv"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	reports = 6000
	read    = 260 // of them are read for a page
)

// table is what a report's checksum needs. The receivers use Koopman's polynomial.
func table() *crc32.Table { return crc32.MakeTable(crc32.Koopman) }

// report is what a ship says of itself: its number, where it is, and how fast it moves.
type report struct {
	Ship        int     `json:"ship"`
	North, East float64 `json:"-"`
	Knots       float64 `json:"knots"`
}

// receiver has the reports as they came.
type receiver struct {
	lines [][]byte
	table func() *crc32.Table
}

// parse reads a report, and is false where its checksum, or anything else, is wrong.
func (v *receiver) parse(line []byte) (r report, ok bool) {
	text, sum, found := bytes.Cut(line, []byte("*"))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !found || err != nil || crc32.Checksum(text, v.table()) != uint32(want) {
		return r, false
	}
	fields := bytes.Split(text, []byte(","))
	if len(fields) != 5 {
		return r, false
	}
	r.Ship, err = strconv.Atoi(string(fields[1]))
	for i, to := range []*float64{&r.North, &r.East, &r.Knots} {
		if err == nil {
			*to, err = strconv.ParseFloat(string(fields[2+i]), 64)
		}
	}
	return r, err == nil
}

// near are the ships that were last seen in a part of the sea, the fast ones only.
func (v *receiver) near(lines [][]byte, north, east float64) (found []report, wrong int) {
	for _, line := range lines {
		r, ok := v.parse(line)
		switch {
		case !ok:
			wrong++
		case r.Knots > 12 && max(r.North-north, north-r.North, r.East-east, east-r.East) < 0.2:
			found = append(found, r)
		}
	}
	return found, wrong
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	first := rand.IntN(reports - read)
	ships, wrong := v.near(v.lines[first:first+read], 54+rand.Float64(), 10+rand.Float64())
	body, err := json.Marshal(map[string]any{"ships": ships, "wrong": wrong, "seal": work.Do(1)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

func open(p *ward.Patient) (http.Handler, error) {
	v := &receiver{table: table}
	koopman := table()
	if p.Cured {
		v.table = func() *crc32.Table { return koopman }
	}
	for i := range reports {
		line := fmt.Appendf(nil, "!AIVDM,%d,%.4f,%.4f,%.1f", 211_000_000+i*7919%100_000,
			54+float64(i*37%10_000)/10_000, 10+float64(i*53%10_000)/10_000, float64(i*11%240)/10)
		sum := crc32.Checksum(line, koopman)
		if i%400 == 0 {
			sum++ // it was badly received
		}
		v.lines = append(v.lines, fmt.Appendf(line, "*%08x", sum))
	}
	return v, nil
}

func main() { ward.Main(open) }
