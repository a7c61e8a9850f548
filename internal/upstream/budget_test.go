package upstream

import (
	"testing"
	"time"
)

func TestRetriesAreAShareOfTheRequests(t *testing.T) {
	now := 1000 * second
	b := newBudget(0.2, 1, now) // the requests count although nothing has turned it yet
	b.tokens = 0
	for range 1000 {
		b.request()
	}
	allowed := 0
	for range 1000 {
		if b.retry(now) {
			allowed++
		}
	}
	if allowed != 200 {
		t.Errorf("%d retries of 1000 requests, want 200", allowed)
	}
	// Nine seconds later the requests still count, and so do the retries; the floor has filled
	// once.
	if again := allowance(&b, now+9*second); again != 10 {
		t.Errorf("%d more, want the floor's 10", again)
	}
}

// allowance is how many retries are allowed at one moment.
func allowance(b *budget, now int64) int {
	n := 0
	for b.retry(now) {
		n++
	}
	return n
}

func TestTenRetriesASecondAreAlwaysAllowed(t *testing.T) {
	for loops, want := range map[int]int{1: 1000, 2: 500, 20: 50} {
		now := 1000 * second
		b := newBudget(0.2, loops, now)
		n := allowance(&b, now)
		for range 1000 {
			now += second / 10
			n += allowance(&b, now)
		}
		if n < want || n > want+10 {
			t.Errorf("a loop of %d allows %d in 100 seconds without a request, want about %d", loops, n, want)
		}
	}
}

func TestOldRequestsNoLongerPayForRetries(t *testing.T) {
	now := 1000 * second
	b := newBudget(0.5, 1, now)
	for range 100 {
		b.request()
	}
	now += 10 * second
	if n := allowance(&b, now); n != 10 {
		t.Errorf("%d retries, want the floor's 10", n)
	}
}

func TestAStormOfFailuresIsNotDoubled(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(DefaultOptions(addresses(2)...)).Local(0)
	requests, retries := 0, 0
	for range 60 * 1000 {
		w.now += int64(time.Millisecond)
		if w.now%second == 0 {
			l.Sweep(w.now)
		}
		l.Request()
		requests++
		if l.Retry(w.now) {
			retries++
		}
	}
	if share := float64(retries) / float64(requests); share < 0.19 || share > 0.23 {
		t.Errorf("of all requests failing, %.3f are tried again, want about 0.2", share)
	}
}
