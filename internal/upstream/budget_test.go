package upstream

import (
	"slices"
	"testing"
	"time"
)

func TestRetriesAreAShareOfTheRequests(t *testing.T) {
	now := 1000 * second
	b := newBudget(0.2, 1, now) // the requests count although nothing has turned it yet
	b.tokens = 0
	for range 1000 {
		b.request(now)
	}
	allowed := 0
	for range 1000 {
		if b.retry(now) {
			allowed++
		}
	}
	if allowed != 100 {
		t.Errorf("%d retries of 1000 requests at once, want half of a second's share", allowed)
	}
	for range 500 {
		b.request(now)
		if b.retry(now) {
			allowed++
		}
	}
	if allowed != 200 {
		t.Errorf("%d retries of 1500 requests with the failures of 500 more, want 200", allowed)
	}
	// Nine tenths of a second later the requests still count, and so do the retries. The floor has
	// filled once, but is for those who have less.
	if again := allowance(&b, now+second*9/10); again != 0 {
		t.Errorf("%d more, want none", again)
	}
	// A second later the requests no longer count, and the retries do: this second has had its share.
	if again := allowance(&b, now+second); again != 0 {
		t.Errorf("a second later %d, want none: the second that ends now has had 200", again)
	}
	if again := allowance(&b, now+second+budgetSlot); again != 10 {
		t.Errorf("after that %d, want the floor's 10", again)
	}
}

// Every request fails and would be tried again three times, after a calm time that has paid for a
// second of retries. No second that ends with a retry has more than its share, wherever it begins,
// and neither has the storm.
func TestNoSecondOfAStormHasMoreRetriesThanItsShare(t *testing.T) {
	now := 1000 * second
	b := newBudget(0.2, 1, now)
	var requests, retries []int64
	for i := range 16_000 {
		now += 1_237_000 // in no step with the slots
		requests = append(requests, now)
		b.request(now)
		if i < 2000 {
			continue
		}
		for try := 0; try < 3 && b.retry(now); try++ {
			retries = append(retries, now)
		}
	}
	since := func(times []int64, after int64) int {
		at, _ := slices.BinarySearch(times, after)
		return len(times) - at
	}
	first := 0
	for i, at := range retries {
		for retries[first] <= at-second {
			first++
		}
		asked := since(requests, at-second+1) - since(requests, at+1)
		if n := i + 1 - first; 5*n > asked {
			t.Fatalf("%d retries of %d requests in the second up to %v", n, asked, time.Duration(at))
		}
	}
	// The retries of a second that the calm paid for come at once, and cost those of the second after.
	if asked := 14_000; 5*len(retries) > asked || len(retries) < asked*19/100 {
		t.Errorf("%d retries of %d requests, want at most a fifth and nearly that", len(retries), asked)
	}
}

// The good time before a failure pays for no storm when it comes.
func TestAStormHasNoBeginning(t *testing.T) {
	now := 1000 * second
	b := newBudget(0.2, 1, now)
	spent := 0
	for i := range 20 * 1000 {
		now += int64(time.Millisecond)
		b.request(now)
		if i < 10*1000 { // all is well
			continue
		}
		for try := 0; try < 3 && b.retry(now); try++ {
			spent++
		}
		if i%1000 == 999 {
			if spent > 200 {
				t.Fatalf("%d retries in a second with 1000 requests", spent)
			}
			spent = 0
		}
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
		b.request(now)
	}
	now += second
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
		l.Request(w.now)
		requests++
		if l.Retry(w.now) {
			retries++
		}
	}
	if share := float64(retries) / float64(requests); share < 0.19 || share > 0.2 {
		t.Errorf("of all requests failing, %.3f are tried again, want about 0.2", share)
	}
}
