// Command collector spends its time collecting garbage: it keeps a large index alive, makes garbage
// for each request, and somebody has set GOGC to 20 "to save memory". So the whole index is marked
// again each time that a fifth of its size has been allocated.
//
// Cured, GOGC is 400: the index is marked a twentieth as often.
package main

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	products = 300_000 // that are kept
	matches  = 3000    // that are made for each request, and thrown away
)

// product is small and full of pointers, as an index made of structs is.
type product struct {
	name, shelf *string
	next        *product
	price       int
}

// match is what a request makes many of.
type match struct {
	product *product
	score   int
	reasons [6]*string
}

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	debug.SetGCPercent(20)
	if p.Cured {
		debug.SetGCPercent(400)
	}
	index := stock()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, best(index).price, work.Do(2))
	}), nil
}

func stock() []*product {
	index := make([]*product, products)
	for i := range index {
		name, shelf := fmt.Sprint("product ", i), fmt.Sprint("shelf ", i%977)
		index[i] = &product{name: &name, shelf: &shelf, price: i * 7919 % 10007}
		if i > 0 {
			index[i].next = index[i-1]
		}
	}
	return index
}

// best makes a match of each product that it looks at, and keeps none.
func best(index []*product) *product {
	found := make([]*match, 0, matches)
	for i := range matches {
		p := index[i*331%len(index)]
		found = append(found, &match{
			product: p,
			score:   p.price,
			reasons: [6]*string{p.name, p.shelf},
		})
	}
	top := found[0]
	for _, m := range found {
		if m.score > top.score {
			top = m
		}
	}
	return top.product
}
