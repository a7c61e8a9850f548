// Command hails sorts what ships call over the radio into reports with a name, a place and a time,
// and counts those that are none. The function that takes a call apart compiles its regular
// expressions each time that it is called, since they stand where they are used. Only pprof is
// shown.
//
// Cured, they are compiled once, when the program starts.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	calls = 2000 // are known
	batch = 28   // of them are sorted for a request
)

// The parts of a call.
const (
	shipPattern  = `this is (MV|SV|FV) ([A-Z][a-z]+(?: [A-Z][a-z]+)?)`
	placePattern = `position (\d{1,2})°(\d{2})'([NS]) (\d{1,3})°(\d{2})'([EW])`
	timePattern  = `at ([01]\d|2[0-3]):([0-5]\d) UTC`
)

var (
	ship  = regexp.MustCompile(shipPattern)
	place = regexp.MustCompile(placePattern)
	clock = regexp.MustCompile(timePattern)
)

// report is what was in a call.
type report struct {
	Ship  string `json:"ship"`
	North int    `json:"north"` // minutes of arc
	East  int    `json:"east"`
	At    string `json:"at"`
}

// station sorts calls.
type station struct {
	calls []string
	parse func(call string) (report, bool)
}

// parseCompiling is the disease.
func parseCompiling(call string) (report, bool) {
	ship := regexp.MustCompile(shipPattern)
	place := regexp.MustCompile(placePattern)
	clock := regexp.MustCompile(timePattern)
	return take(ship.FindStringSubmatch(call), place.FindStringSubmatch(call),
		clock.FindStringSubmatch(call))
}

func parseCompiled(call string) (report, bool) {
	return take(ship.FindStringSubmatch(call), place.FindStringSubmatch(call),
		clock.FindStringSubmatch(call))
}

// take makes a report of the parts that were found, where all were.
func take(ship, place, clock []string) (report, bool) {
	if ship == nil || place == nil || clock == nil {
		return report{}, false
	}
	return report{
		Ship:  ship[1] + " " + ship[2],
		North: minutes(place[1:4], "S"),
		East:  minutes(place[4:7], "W"),
		At:    clock[1] + ":" + clock[2],
	}, true
}

// minutes are degrees and minutes, less than nothing on the other side.
func minutes(parts []string, other string) int {
	degrees, _ := strconv.Atoi(parts[0]) // both are digits, or they were not found
	m, _ := strconv.Atoi(parts[1])
	if parts[2] == other {
		return -60*degrees - m
	}
	return 60*degrees + m
}

func (s *station) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	first := rand.IntN(len(s.calls) - batch)
	var answer struct {
		Reports []report `json:"reports"`
		Others  int      `json:"others"`
		Seal    string   `json:"seal"`
	}
	for _, call := range s.calls[first : first+batch] {
		if r, ok := s.parse(call); ok {
			answer.Reports = append(answer.Reports, r)
		} else {
			answer.Others++
		}
	}
	answer.Seal = work.Do(2)
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

// heard makes the calls; each fifth has no place in it.
func heard() []string {
	names := strings.Fields("Aurora Borea Calypso Dorado Esmeralda Fulmar Gannet Halcyon")
	all := make([]string, calls)
	for i := range all {
		where := fmt.Sprintf("position %d°%02d'N %d°%02d'W", 40+i%20, i*7%60, 5+i%30, i*11%60)
		if i%5 == 0 {
			where = "position to follow"
		}
		all[i] = fmt.Sprintf("Coast radio, this is MV %s, %s at %02d:%02d UTC, all well on board",
			names[i%len(names)], where, i%24, i*13%60)
	}
	return all
}

func open(p *ward.Patient) (http.Handler, error) {
	s := &station{calls: heard(), parse: parseCompiling}
	if p.Cured {
		s.parse = parseCompiled
	}
	return s, nil
}

func main() { ward.Main(open) }
