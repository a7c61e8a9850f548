// Command onecore uses one processor of all that there are: GOMAXPROCS was set once, in a container
// that has grown since.
//
// Cured, it is left to the runtime.
package main

import (
	"fmt"
	"net/http"
	"runtime"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	if !p.Cured {
		runtime.GOMAXPROCS(1)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, work.Do(10))
	}), nil
}
