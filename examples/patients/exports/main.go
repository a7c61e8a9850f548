// Command exports writes the stock of a shop as CSV. Somebody was worried about memory once, and has
// the garbage collected after each export, which marks all that the service keeps.
//
// Cured, the runtime decides when to collect.
package main

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	articles = 120_000
	rows     = 150
)

// article is a row of the export.
type article struct {
	sku, title string
	shelf      *shelf
	pieces     int
}

type shelf struct{ hall, place string }

// stock is what the service keeps. It does not change, so any goroutine may read it.
type stock struct {
	articles []*article
	tidy     func()
}

func fill() []*article {
	all := make([]*article, 0, articles)
	for i := range articles {
		all = append(all, &article{
			sku:    fmt.Sprintf("P%06d", i),
			title:  fmt.Sprintf("Shackle, %d mm", 4+i%60),
			shelf:  &shelf{fmt.Sprint("hall ", i%7), fmt.Sprint("place ", i%311)},
			pieces: i * 31 % 1009,
		})
	}
	return all
}

func (s *stock) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	defer s.tidy()
	w.Header().Set("Content-Type", "text/csv")
	out := csv.NewWriter(w)
	first := rand.IntN(articles - rows)
	for _, a := range s.articles[first : first+rows] {
		out.Write([]string{a.sku, a.title, a.shelf.hall, a.shelf.place, strconv.Itoa(a.pieces)})
	}
	out.Write([]string{"seal", work.Do(8)})
	out.Flush()
}

func open(p *ward.Patient) (http.Handler, error) {
	s := &stock{fill(), runtime.GC}
	if p.Cured {
		s.tidy = func() {}
	}
	return s, nil
}

func main() { ward.Main(open) }
