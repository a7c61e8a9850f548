// Command yawls tells how far a yawl has sailed in a race, and how fast she was, from the log of
// her transponder. A log is text with a position in each line, and the positions are read with
// fmt.Sscanf, which takes the format apart once more for each line, and reads the line rune by
// rune. Only pprof is shown.
//
// Cured, a line is cut at its spaces, and package strconv reads the numbers.
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	yawls       = 24
	lines       = 800      // of a log: one for each quarter of a minute of more than three hours
	every       = 15       // seconds
	earthRadius = 3440.065 // nautical miles
	radian      = math.Pi / 180
)

// position is where a yawl was, in degrees, and how fast, in knots.
type position struct {
	second                     int
	latitude, longitude, speed float64
}

// scan reads a line of a log.
func scan(line string) (p position, err error) {
	_, err = fmt.Sscanf(line, "%d %f %f %f", &p.second, &p.latitude, &p.longitude, &p.speed)
	return p, err
}

// cut reads a line of a log.
func cut(line string) (p position, err error) {
	second, rest, _ := strings.Cut(line, " ")
	if p.second, err = strconv.Atoi(second); err != nil {
		return p, err
	}
	for _, number := range []*float64{&p.latitude, &p.longitude, &p.speed} {
		var text string
		text, rest, _ = strings.Cut(rest, " ")
		if *number, err = strconv.ParseFloat(text, 64); err != nil {
			return p, err
		}
	}
	return p, nil
}

// miles is how far it is from one position to another, along a great circle.
func miles(a, b position) float64 {
	north := math.Sin((b.latitude - a.latitude) * radian / 2)
	east := math.Sin((b.longitude - a.longitude) * radian / 2)
	both := math.Cos(a.latitude*radian) * math.Cos(b.latitude*radian)
	return 2 * earthRadius * math.Asin(math.Sqrt(north*north+both*east*east))
}

// race is what the committee knows. Any goroutine may ask it.
type race struct {
	logs []string
	read func(line string) (position, error)
}

// sailed is what the log of a yawl comes to.
func (r *race) sailed(log string) (distance, fastest float64, err error) {
	var before position
	for line := range strings.Lines(log) {
		now, err := r.read(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return 0, 0, fmt.Errorf("line %q: %w", line, err)
		}
		if now.second > 0 {
			distance += miles(before, now)
		}
		fastest = max(fastest, now.speed)
		before = now
	}
	return distance, fastest, nil
}

func (r *race) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	yawl := rand.IntN(len(r.logs))
	distance, fastest, err := r.sailed(r.logs[yawl])
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "yawl %d: %.2f miles, at most %.1f knots %s\n",
		yawl, distance, fastest, work.Do(3))
}

// log is what the transponder of a yawl has sent.
func log() string {
	var text strings.Builder
	p := position{latitude: 54.32, longitude: 10.14}
	for range lines {
		p.speed = 4 + 5*rand.Float64()
		fmt.Fprintf(&text, "%d %.6f %.6f %.1f\n", p.second, p.latitude, p.longitude, p.speed)
		p.second += every
		p.latitude += p.speed * every / 3600 / 60 * rand.Float64()
		p.longitude += p.speed * every / 3600 / 60 * rand.Float64()
	}
	return text.String()
}

func open(p *ward.Patient) (http.Handler, error) {
	r := &race{read: scan}
	if p.Cured {
		r.read = cut
	}
	for range yawls {
		r.logs = append(r.logs, log())
	}
	return r, nil
}

func main() { ward.Main(open) }
