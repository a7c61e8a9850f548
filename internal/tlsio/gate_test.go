package tlsio_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"plimsoll/internal/tlsio"
)

func TestGateRunsQueuesAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := tlsio.NewGate(2, 3)
		release := make(chan struct{})
		var mu sync.Mutex
		var started []int
		for i := range 7 {
			accepted := g.Go(func() {
				mu.Lock()
				started = append(started, i)
				mu.Unlock()
				<-release
			})
			if want := i < 5; accepted != want {
				t.Errorf("function %d accepted: %v", i, accepted)
			}
			synctest.Wait()
		}
		if got, want := g.Stats(), (tlsio.GateStats{InFlight: 2, Waiting: 3, Refused: 2}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		for range 5 {
			release <- struct{}{}
			synctest.Wait()
		}
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(started, want) {
			t.Errorf("started in the order %v, want %v", started, want)
		}
		if got, want := g.Stats(), (tlsio.GateStats{Refused: 2}); got != want {
			t.Errorf("stats at the end %+v, want %+v", got, want)
		}
		if !g.Go(func() {}) {
			t.Error("an empty gate refused")
		}
	})
}

func TestGateWithoutAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := tlsio.NewGate(0, 0)
		release := make(chan struct{})
		if !g.Go(func() { <-release }) || g.Go(func() {}) {
			t.Error("a gate for one did not hold exactly one")
		}
		close(release)
	})
}
