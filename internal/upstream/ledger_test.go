package upstream

import (
	"testing"
	"time"

	"plimsoll/internal/invariant"
)

// The ledger allows what the budget allows, and not one more.
func TestARetryBeyondTheBudgetIsNoticed(t *testing.T) {
	was := invariant.On
	invariant.On = true
	defer func() { invariant.On = was }()
	w := newWorld(t, 1)
	o := weighted(RoundRobin, 1)
	o.RetryBudget = 0.5
	l := w.upstream(o).Local(0)
	now := w.now
	spent := 0
	for range 100 {
		now += int64(5 * time.Millisecond)
		l.Request(now)
		for l.Retry(now) {
			l.Retried(now)
			spent++
		}
	}
	if spent != 50 {
		t.Errorf("%d retries of 100 requests, want 50", spent)
	}
	defer func() {
		if recover() == nil {
			t.Error("one more is not noticed")
		}
	}()
	l.Retried(now)
}
