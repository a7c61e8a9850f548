// Command drafts tells which drafts of a chart are the same as the one that is shown. It compares
// them with reflect.DeepEqual, sounding by sounding.
//
// Cured, they are compared with methods that are written by hand.
package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	charts    = 24
	versions  = 10 // of each chart
	soundings = 400
)

// sounding is a depth at a place.
type sounding struct {
	Latitude, Longitude, Metres float64
	Ground                      string
	Checked                     bool
}

// light is a light on a chart.
type light struct {
	Name    string
	Seconds []int
}

// draft is one version of a chart.
type draft struct {
	Title     string
	Soundings []*sounding
	Lights    []light
}

func (d *draft) equal(other *draft) bool {
	return d.Title == other.Title &&
		slices.EqualFunc(d.Soundings, other.Soundings, func(a, b *sounding) bool { return *a == *b }) &&
		slices.EqualFunc(d.Lights, other.Lights, func(a, b light) bool {
			return a.Name == b.Name && slices.Equal(a.Seconds, b.Seconds)
		})
}

// deeply is the disease.
func deeply(a, b *draft) bool { return reflect.DeepEqual(a, b) }

// survey makes a version of a chart. Those with an odd number differ in their last light.
func survey(chart, version int) *draft {
	d := &draft{Title: fmt.Sprintf("Sound %d", chart)}
	for i := range soundings {
		d.Soundings = append(d.Soundings, &sounding{
			Latitude:  54 + float64(i%40)/100,
			Longitude: 10 + float64(i/40)/100,
			Metres:    2 + float64((i*chart+i)%300)/10,
			Ground:    []string{"mud", "sand", "rock"}[i%3],
			Checked:   i%7 == 0,
		})
	}
	for i := range 20 {
		d.Lights = append(d.Lights, light{fmt.Sprint("Light ", i), []int{i, 5 + i%4, 60}})
	}
	d.Lights[19].Seconds[2] += version % 2
	return d
}

// archive has the drafts, which do not change.
type archive struct {
	charts [charts][versions]*draft
	same   func(a, b *draft) bool
}

func (a *archive) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	chart, shown := &a.charts[rand.IntN(charts)], rand.IntN(versions)
	var same []int
	for i, d := range chart {
		if i != shown && a.same(d, chart[shown]) {
			same = append(same, i)
		}
	}
	fmt.Fprintln(w, chart[shown].Title, shown, same, work.Do(3))
}

func open(p *ward.Patient) (http.Handler, error) {
	a := &archive{same: deeply}
	if p.Cured {
		a.same = (*draft).equal
	}
	for i := range a.charts {
		for j := range a.charts[i] {
			a.charts[i][j] = survey(i, j)
		}
	}
	return a, nil
}

func main() { ward.Main(open) }
