//go:build !race

// One goroutine: the race detector finds nothing here, and takes several times as long.

package telemetry_test

import (
	"fmt"
	"testing"

	"plimsoll/internal/telemetry"
)

func TestNamesKeepTheirIndexAndBeyondTheBoundShareOne(t *testing.T) {
	r := newRegistry(t, options(1))
	first := r.Route("first")
	for i := range telemetry.MaxNames {
		r.Route(fmt.Sprint(i))
	}
	if again := r.Route("first"); again != first {
		t.Errorf("a name's index went from %d to %d", first, again)
	}
	if a, b := r.Route("one too many"), r.Route("two too many"); a != b || a != r.Route("other") {
		t.Errorf("names beyond the bound got %d and %d", a, b)
	}
	routes, upstreams := r.Sizes()
	if routes != telemetry.MaxNames || upstreams != 1 {
		t.Errorf("%d routes and %d upstreams", routes, upstreams)
	}
	wantLines(t, scrape(t, r, inline), `plimsoll_names_shared_total{kind="route"} 5`)
}
