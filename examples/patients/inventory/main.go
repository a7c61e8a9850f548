// Command inventory keeps an index of all articles in memory. It was given a limit for its memory
// when it had a tenth of them. The index has grown since, until it takes nearly all of the limit,
// so the collector begins again as soon as it is done.
//
// Cured, the limit is four times what the index takes.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	articles = 220_000
	looked   = 900 // articles that are looked at for a request
	shown    = 20
)

// article is what the index has of a thing.
type article struct {
	ID, Name string
	Shelf    *shelf
	Like     *article // the one before it of the same kind
	Cents    int
}

type shelf struct{ Hall, Row string }

// found is an article in an answer.
type found struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Where string `json:"where"`
	Cents int    `json:"cents"`
	words []string
	score int
}

func stock() []*article {
	all := make([]*article, articles)
	for i := range all {
		all[i] = &article{
			ID:    fmt.Sprintf("A%07d", i),
			Name:  fmt.Sprintf("Shackle %d mm, galvanised, lot %d", 4+i%28, i),
			Shelf: &shelf{fmt.Sprint("hall ", i%7), fmt.Sprint("row ", i%311)},
			Cents: 90 + i*7919%10007,
		}
		if i >= 28 {
			all[i].Like = all[i-28]
		}
	}
	return all
}

// search looks at an article and those that are like it.
func search(all []*article, asked string) []found {
	var matches []*found
	for a := all[len(all)-1-rand.IntN(len(all)/4)]; a != nil && len(matches) < looked; a = a.Like {
		m := &found{ID: a.ID, Name: a.Name, Where: a.Shelf.Hall + ", " + a.Shelf.Row, Cents: a.Cents}
		m.words = strings.Fields(strings.ToLower(a.Name))
		for _, w := range m.words {
			if strings.HasPrefix(w, asked) {
				m.score++
			}
		}
		matches = append(matches, m)
	}
	slices.SortFunc(matches, func(a, b *found) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Cents, b.Cents),
			cmp.Compare(a.ID, b.ID))
	})
	best := make([]found, 0, shown)
	for _, m := range matches[:min(shown, len(matches))] {
		best = append(best, *m)
	}
	return best
}

// limit sets the memory limit by what the index takes.
func limit(cured bool) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	taken := int64(m.Sys - m.HeapReleased - m.HeapIdle)
	if cured {
		debug.SetMemoryLimit(4 * taken)
		return
	}
	debug.SetMemoryLimit(taken + taken/12)
}

func open(p *ward.Patient) (http.Handler, error) {
	all := stock()
	limit(p.Cured)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(struct {
			Seal  string  `json:"seal"`
			Found []found `json:"found"`
		}{work.Do(2), search(all, "galv")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}), nil
}

func main() { ward.Main(open) }
