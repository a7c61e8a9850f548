// Command healthy is the control: it has no disease. Its pages cost what they have to, and the
// processor is the bottleneck.
package main

import (
	"fmt"
	"net/http"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

func main() { ward.Main(shop) }

func shop(*ward.Patient) (http.Handler, error) {
	mux := http.NewServeMux()
	for path, units := range map[string]int{"/{$}": 6, "/search": 9, "/cart": 3} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, work.Do(units))
		})
	}
	return mux, nil
}
