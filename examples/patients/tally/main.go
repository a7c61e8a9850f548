// Command tally takes votes for the photographs of a competition, and shows the ten that lead. It
// ranks all of them under the lock that guards the votes, so one request computes at a time, and the
// others wait for the lock.
//
// Cured, the lock is held to copy the votes, and the ranking is made of the copy.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	photographs = 3000
	leaders     = 10
)

// photograph is a competitor.
type photograph struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	Votes int     `json:"votes"`
	Views int     `json:"views"`
	Score float64 `json:"score"`
}

// competition counts votes. Any goroutine may use it.
type competition struct {
	mu          sync.Mutex
	photographs []photograph
}

func open() *competition {
	c := &competition{}
	for i := range photographs {
		h := fnv.New32a()
		fmt.Fprint(h, i)
		c.photographs = append(c.photographs, photograph{
			ID:    fmt.Sprintf("%08x", h.Sum32()),
			Title: fmt.Sprintf("Harbour at low water, %d", i),
			Votes: int(h.Sum32() % 400),
			Views: 400 + int(h.Sum32()%900),
		})
	}
	return c
}

// vote counts a vote and returns the leaders. It is the disease: the ranking is made under the lock.
func (c *competition) vote(i int) []photograph {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(i)
	return rank(slices.Clone(c.photographs))
}

// voteAndCopy holds the lock for the votes only.
func (c *competition) voteAndCopy(i int) []photograph {
	c.mu.Lock()
	c.count(i)
	all := slices.Clone(c.photographs)
	c.mu.Unlock()
	return rank(all)
}

func (c *competition) count(i int) {
	c.photographs[i].Votes++
	c.photographs[i].Views += 2
}

// rank sorts photographs by the least share of votes that they deserve with some certainty, so that
// one with three votes of three views does not lead.
func rank(all []photograph) []photograph {
	const z = 1.96
	for i := range all {
		p := &all[i]
		n, share := float64(p.Views), float64(p.Votes)/float64(p.Views)
		p.Score = (share + z*z/(2*n) - z*math.Sqrt((share*(1-share)+z*z/(4*n))/n)) / (1 + z*z/n)
	}
	slices.SortFunc(all, func(a, b photograph) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	return all[:leaders]
}

func main() { ward.Main(vote) }

func vote(p *ward.Patient) (http.Handler, error) {
	c := open()
	count := c.vote
	if p.Cured {
		count = c.voteAndCopy
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(struct {
			Seal    string       `json:"seal"`
			Leaders []photograph `json:"leaders"`
		}{work.Do(1), count(rand.IntN(photographs))})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}), nil
}
