// Command throttled is a healthy service in a cgroup that lets it have half a core
// (cgroup-throttled): whenever it has used its share of a tenth of a second it stands still until
// the next begins, and requests with it. The disease is around the service and not in it:
// bench/patients.py makes the cgroup, with 0.5 cores for the sick one and 2 for the cured one, and
// --cured changes nothing.
package main

import (
	"fmt"
	"net/http"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

func main() { ward.Main(shop) }

func shop(*ward.Patient) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, work.Do(9))
	}), nil
}
