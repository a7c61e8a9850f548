// Command onecoreandhotfunction is sick in two ways. It uses one processor of all that there are,
// which is the bottleneck; and most of what that does is one function, which counts the ways to
// stamp a parcel by trying each of them.
//
// --cure first leaves GOMAXPROCS to the runtime, --cure second counts with a table, --cure both
// does both.
package main

import (
	"fmt"
	"net/http"
	"runtime"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// postage is what a parcel costs, and stamps are what there is to pay with.
const postage = 265

var stamps = []int{100, 75, 50, 40, 30, 25, 20, 15, 10, 5}

var cures = ward.Cures()

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	all, quick := cures(p)
	if !all {
		runtime.GOMAXPROCS(1)
	}
	ways := waysByTrying
	if quick {
		ways = waysByTable
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, ways(postage, stamps), work.Do(4))
	}), nil
}

// waysByTrying takes the first kind of stamp, or never again, and tries on.
func waysByTrying(postage int, stamps []int) int {
	if postage == 0 {
		return 1
	}
	if postage < 0 || len(stamps) == 0 {
		return 0
	}
	return waysByTrying(postage-stamps[0], stamps) + waysByTrying(postage, stamps[1:])
}

// waysByTable adds, stamp by stamp, the ways to pay each smaller postage.
func waysByTable(postage int, stamps []int) int {
	ways := make([]int, postage+1)
	ways[0] = 1
	for _, stamp := range stamps {
		for p := stamp; p <= postage; p++ {
			ways[p] += ways[p-stamp]
		}
	}
	return ways[postage]
}
