package upstream

import (
	"testing"

	"plimsoll/internal/concurrency"
)

// A limit that binds is the gateway's own doing; a breaker that took it for trouble of the target
// would open in every overload.
func TestAConcurrencyLimitThatBindsIsNotSaturation(t *testing.T) {
	w, u := single(t, 2, func(o *Options) {
		o.MaxConnections = 100
		o.Concurrency = &concurrency.Options{Initial: 1, Min: 1, Max: 1}
	})
	m := mustPick(t, u.Local(0), w.now, 0)
	open(t, w, m)
	m.Begin(w.now)
	if m.Open(w.now) {
		t.Fatal("a second request is let through a limit of one")
	}
	if s := m.saturation(); s != 0.02 {
		t.Errorf("one of 100 connections in use on each of two loops is a saturation of %v, want 0.02", s)
	}
}
