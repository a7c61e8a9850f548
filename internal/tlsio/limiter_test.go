package tlsio_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"plimsoll/internal/tlsio"
)

func TestHandshakeLimiterRunsQueuesAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tlsio.NewHandshakeLimiter(2, 3)
		release := make(chan struct{})
		var mu sync.Mutex
		var started []int
		for i := range 7 {
			accepted := l.Go(func() {
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
		if got, want := l.Stats(), (tlsio.HandshakeLimiterStats{InFlight: 2, Waiting: 3, Refused: 2}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		for range 5 {
			release <- struct{}{}
			synctest.Wait()
		}
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(started, want) {
			t.Errorf("started in the order %v, want %v", started, want)
		}
		if got, want := l.Stats(), (tlsio.HandshakeLimiterStats{Refused: 2}); got != want {
			t.Errorf("stats at the end %+v, want %+v", got, want)
		}
		if !l.Go(func() {}) {
			t.Error("an empty limiter refused")
		}
	})
}

func TestHandshakeLimiterWithoutAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tlsio.NewHandshakeLimiter(0, 0)
		release := make(chan struct{})
		if !l.Go(func() { <-release }) || l.Go(func() {}) {
			t.Error("a limiter for one did not hold exactly one")
		}
		close(release)
	})
}
