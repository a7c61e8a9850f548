// Command hotfunction has one function that takes most of the processor: it looks for duplicates in
// a list by comparing each with each, which nobody noticed while lists were short.
//
// Cured, it remembers what it has seen, and the time grows with the list rather than with its
// square.
package main

import (
	"fmt"
	"net/http"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	visitors = 2100    // in the list that each request looks at
	numbers  = 1 << 16 // that a visitor can have
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	list := make([]uint32, visitors)
	for i := range list {
		list[i] = uint32(i*2654435761) % numbers
	}
	distinct := distinctByComparing
	if p.Cured {
		distinct = distinctByMark
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, distinct(list), work.Do(3))
	}), nil
}

// distinctByComparing is the disease.
func distinctByComparing(list []uint32) (n int) {
	for i, a := range list {
		seen := false
		for _, b := range list[:i] {
			seen = seen || a == b
		}
		if !seen {
			n++
		}
	}
	return n
}

// distinctByMark keeps a bit for each number that a visitor can have.
func distinctByMark(list []uint32) (n int) {
	var seen [numbers / 64]uint64
	for _, a := range list {
		if seen[a/64]&(1<<(a%64)) == 0 {
			seen[a/64] |= 1 << (a % 64)
			n++
		}
	}
	return n
}
