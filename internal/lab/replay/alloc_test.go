//go:build !race

package replay_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/pace"
)

// The loop's side allocates nothing. The reading goroutine goes on meanwhile, so what is measured
// is taken from one batch that is there already.
func TestAllocNothingForARequestOfALog(t *testing.T) {
	_, s := startForever(t, 1)
	schedule, player := s.Arrivals(0, 1).(pace.Streamed), s.Player(0, 1, 1)
	buffer, answer := make([]byte, 0, 4096), &load.Answer{Status: 404}
	one := func() {
		if _, ok := schedule.Next(); !ok {
			return
		}
		session := player.Begin()
		session.Request(buffer[:0])
		session.Answer(answer)
		session.End()
	}
	one()
	// The reader waits for room by now: what it does when it gets some costs it less than one
	// allocation for a hundred requests.
	if n := testing.AllocsPerRun(3000, one); n > 0.01 {
		t.Errorf("%v allocations for a request", n)
	}
}

func TestAllocBoundedMemoryForAMillionLines(t *testing.T) {
	f, s := startForever(t, 2)
	schedules := [2]pace.Streamed{
		s.Arrivals(0, 2).(pace.Streamed), s.Arrivals(1, 2).(pace.Streamed),
	}
	players := [2]load.Player{s.Player(0, 2, 1), s.Player(1, 2, 1)}
	var before, m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	largest := uint64(0)
	for i := range 1_000_000 {
		take(t, schedules[i%2])
		session := players[i%2].Begin()
		session.Request(nil)
		session.End()
		if i%100_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			largest = max(largest, m.HeapAlloc)
		}
	}
	if f.lines < 1_000_000 {
		t.Errorf("%d lines were read", f.lines)
	}
	if largest > before.HeapAlloc+16<<20 {
		t.Errorf("the heap grew from %d KB to %d KB", before.HeapAlloc>>10, largest>>10)
	}
}

// The batches are all there is: were one of them kept for a slow answer, or lost, these would not
// end.

func TestAllocASlowAnswerHoldsNothingUp(t *testing.T) {
	_, s := startForever(t, 1)
	schedule, player := s.Arrivals(0, 1).(pace.Streamed), s.Player(0, 1, 1)
	take(t, schedule)
	slow := player.Begin()
	slow.Request(nil)
	for range 300_000 {
		take(t, schedule)
		session := player.Begin()
		session.Request(nil)
		session.End()
	}
	slow.Answer(&load.Answer{Status: 200})
	slow.End()
}

// Arrivals that wait for a connection are held, as many as there are batches for; then the schedule
// has nothing, until some of them were sent.
func TestAllocWhatWaitsForAConnectionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := startForever(t, 1)
		schedule, player := s.Arrivals(0, 1).(pace.Streamed), s.Player(0, 1, 1)
		waiting := 0
		for more := true; more; {
			synctest.Wait()
			for _, more = schedule.Next(); more; _, more = schedule.Next() {
				waiting++
			}
			synctest.Wait()
			if _, more = schedule.Next(); more {
				waiting++
			}
		}
		if waiting < 100_000 || waiting > 1024*256 || !schedule.Pending() {
			t.Errorf("%d arrivals were given without one of them having been begun", waiting)
		}
		for i := range waiting {
			session := player.Begin()
			if request, _ := session.Request(nil); !strings.Contains(string(request),
				fmt.Sprintf("/%08d?page=2 HTTP/1.1", i)) {
				t.Fatalf("request %d is %q", i, request[:100])
			}
			session.End()
		}
		synctest.Wait()
		if _, ok := schedule.Next(); !ok {
			t.Error("nothing more is given after they were sent")
		}
	})
}

// A request that was never sent is begun and ended all the same, and gives its place back.
func TestAllocWhatIsNeverSentIsGivenBack(t *testing.T) {
	_, s := startForever(t, 1)
	schedule, player := s.Arrivals(0, 1).(pace.Streamed), s.Player(0, 1, 1)
	for range 300_000 {
		take(t, schedule)
		player.Begin().End()
	}
}
