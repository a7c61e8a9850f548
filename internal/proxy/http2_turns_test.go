package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

const small = 5000 // that many of them come before the turn of the one that has waited the longest

func TestWhatTheClientTakesGoesByUrgency(t *testing.T) {
	s := newSharer(t)
	for _, priority := range []string{"u=5", "u=1, i", "", "u=0", "u=9", "u=7"} { // 3 to 13
		s.ask(small, "priority", priority)
	}
	s.say(opens(0, 100))
	s.expectOrder(9) // and no byte of another
	s.say(opens(0, 10*small))
	s.expectOrder(9, 5, 7, 11, 3, 13)
}

func TestStreamsOfOneUrgencyAreServedOneAfterTheOther(t *testing.T) {
	s := newSharer(t)
	for range 4 {
		s.ask(3 * small)
	}
	s.ask(3*small, "priority", "i")
	s.ask(3*small, "priority", "i")
	for range 20 { // however small the pieces
		s.say(opens(0, 1000))
	}
	s.say(opens(0, 1<<20))
	s.expectOrder(3, 5, 7, 9, 11, 13)
}

func TestIncrementalStreamsTakeTurns(t *testing.T) {
	s := newSharer(t)
	for range 3 {
		s.ask(record*3/2, "priority", "u=2,i")
	}
	s.say(opens(0, 1<<20))
	s.expectOrder(3, 5, 7, 3, 5, 7)
}

func TestAPriorityUpdateBehindAWindowCountsForIt(t *testing.T) {
	s := newSharer(t)
	s.ask(small)
	s.ask(small)
	s.say(opens(0, 100) + reprioritises(5, "u=2"))
	s.expectOrder(5)
	s.say(reprioritises(3, "u=1"))
	s.say(opens(0, 100))
	s.expectOrder(3)
	s.say(reprioritises(3, "u=9") + opens(0, 100)) // which is the default
	s.expectOrder(5)
}

func TestAPriorityUpdateMayComeBeforeItsRequest(t *testing.T) {
	s := newSharer(t)
	s.ask(small)
	s.say(reprioritises(5, "u=6") + reprioritises(7, "u=2") + reprioritises(5, "u=1"))
	s.ask(small, "priority", "u=7") // the frame is the later word, whenever it came
	s.ask(small)
	s.say(opens(0, 10*small))
	s.expectOrder(5, 7, 3)
}

func TestOnlyAFewPrioritiesAreKeptForStreamsThatHaveNotBegun(t *testing.T) {
	s := newSharer(t)
	var updates strings.Builder
	for id := uint32(5); id <= 5+2*8; id += 2 {
		updates.WriteString(reprioritises(id, "u=0"))
	}
	s.say(updates.String())
	s.ask(small, "priority", "u=1")
	for id := uint32(5); id <= 5+2*8; id += 2 {
		s.ask(small)
	}
	s.say(opens(0, 2*small))
	if got := s.order(); slices.Contains(got, 5) {
		t.Errorf("the oldest of nine early priorities counted: content came of %v", got)
	}
	if got := s.order(); got[0] != 7 {
		t.Errorf("the second of nine early priorities did not count: content came of %v", got)
	}
}

func TestAResponsesOwnPriorityOverridesItsRequests(t *testing.T) {
	s := newSharer(t)
	s.ask(small, "priority", "u=1", "answer-priority", "u=6")
	s.ask(small, "priority", "u=5", "answer-priority", "i")
	s.ask(small, "priority", "u=5")
	s.say(reprioritises(3, "u=0")) // the service knows better
	s.say(opens(0, 10*small))
	s.expectOrder(7, 5, 3)
}

func TestALessUrgentStreamTakesNoWindowOfOneThatWaits(t *testing.T) {
	s := newSharer(t)
	s.ask(small, "priority", "u=1")
	s.say(opens(0, 100))
	s.frames = nil
	// In one piece: the window, and a request whose answer is there before the window is shared
	// out.
	_, frame := s.asks(100, "priority", "u=7")
	s.say(opens(0, 1000) + frame)
	s.expectOrder(3)
}

func TestAStreamThatItsOwnWindowStopsHoldsUpNobody(t *testing.T) {
	s := newSharer(t)
	s.say(string(http2.AppendSettings(nil, http2.Setting{ID: http2.InitialWindowSize, Value: 1000})))
	s.ask(small, "priority", "u=0")
	s.ask(small, "priority", "u=1")
	s.say(opens(0, 1<<20))
	if s.content(3) != 1000 || s.content(5) != 1000 {
		t.Fatalf("%d and %d bytes came, want 1000 each", s.content(3), s.content(5))
	}
	s.frames = nil
	s.say(opens(5, small))
	s.expectOrder(5)
	s.say(opens(3, small))
	s.expectOrder(3)
}

func TestNobodyWaitsForEverForMoreUrgentStreams(t *testing.T) {
	s := newSharer(t)
	s.ask(4<<20, "priority", "u=0")
	s.ask(4<<20, "priority", "u=7")
	s.ask(4<<20, "priority", "u=7, i")
	s.say(opens(0, 1<<20))
	if a, b, c := s.content(3), s.content(5), s.content(7); b == 0 || c == 0 || a*10 < (a+b+c)*8 {
		t.Errorf("the urgent stream got %d bytes, and those that are not %d and %d", a, b, c)
	}
}

func TestAClientThatTakesEnoughOfAllStreamsIsNotTooSlowForTheLast(t *testing.T) {
	for _, c := range []struct {
		name  string
		each  int // what it takes in a window of the send time-out; 1000 is the least for each
		reset bool
	}{{"takes enough for three", 3000, false}, {"takes too little", 700, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSharer(t)
			s.acceptor.Listener.MinBodyRate = 100
			s.acceptor.Listener.SendTimeout = int64(10 * time.Second)
			for _, priority := range []string{"u=1", "u=2", "u=3"} {
				s.ask(1<<20, "priority", priority)
			}
			for range 3 {
				s.now += int64(6 * time.Second)
				s.say(opens(0, c.each*6/10))
			}
			s.turn()
			if got := has(s.frames, http2.RSTStream, 7); got != c.reset {
				t.Errorf("the least urgent stream was reset: %v", got)
			}
			if has(s.frames, http2.RSTStream, 3) != (c.each < 1000) {
				t.Error("the urgent stream was judged by what others got")
			}
		})
	}
}

func TestWhatTheSocketTakesGoesByUrgencyToo(t *testing.T) {
	s := newSharer(t)
	s.say(opens(0, 1<<30))
	s.client.stuck = true
	var requests string
	for _, priority := range []string{"u=3", "u=5", "u=1"} { // 3 to 7
		_, frame := s.asks(2*reactor.HighWater, "priority", priority)
		requests += frame
	}
	s.say(requests)
	s.drains(s.client)
	s.say("")
	var ended []uint32
	for _, f := range s.frames {
		if f.Ends() {
			ended = append(ended, f.Stream)
		}
	}
	if want := []uint32{7, 3, 5}; !slices.Equal(ended, want) {
		t.Errorf("the answers ended in the order %v, want %v", ended, want)
	}
}

// However many requests were read with the one that fills its queue, a client that takes nothing has
// few more answers queued: those of the requests that begin in the same turn, by their heads.
func TestRequestsOfACongestedClientWait(t *testing.T) {
	s := newSharer(t)
	s.say(opens(0, 1<<30))
	s.client.stuck = true
	_, requests := s.asks(2 * reactor.HighWater)
	for range 100 {
		_, frame := s.asks(small)
		requests += frame
	}
	s.say(requests)
	memory := s.memory()
	if most := reactor.HighWater + 3*reactor.ScratchSize; memory < reactor.HighWater || memory > most {
		t.Errorf("buffers of %d bytes are in use, want %d to %d", memory, reactor.HighWater, most)
	}
	s.drains(s.client)
	s.say("")
	if n := s.content(s.next - 2); n != small {
		t.Errorf("%d bytes of the last answer came, want %d", n, small)
	}
}

func TestManyPriorityUpdatesEndTheConnection(t *testing.T) {
	s := newSharer(t)
	var updates strings.Builder
	for i := range 10_000 {
		updates.WriteString(reprioritises(uint32(2*i+3), fmt.Sprintf("u=%d", i%8)))
	}
	s.say(updates.String())
	last := s.frames[len(s.frames)-1]
	if last.Type != http2.GoAway || last.Code() != http2.EnhanceYourCalm {
		t.Errorf("the last frame is %v", last)
	}
}

func TestAPriorityUpdateOfAPushEndsTheConnection(t *testing.T) {
	s := newSharer(t)
	s.say(reprioritises(2, "u=1"))
	if last := s.frames[len(s.frames)-1]; last.Type != http2.GoAway || last.Code() != http2.ProtocolError {
		t.Errorf("the last frame is %v", last)
	}
}

func TestMalformedPrioritiesAreIgnored(t *testing.T) {
	s := newSharer(t)
	s.ask(small)
	s.say(reprioritises(3, "u=1"))
	for _, value := range []string{"u", "u=8", "u=-1", "\"", "\\", "u=\"0\"", "\x00\xff",
		strings.Repeat(",", 5000)} {
		s.ask(small, "priority", "u=2")
		id := s.next - 2
		s.say(reprioritises(id, value)) // so that it has the default
	}
	s.ask(small, "priority", "u=2")
	s.say(opens(0, 2*small))
	s.expectOrder(3, s.next-2)
	s.ask(100, "priority", "u=é, i=\"") // as text that is not a dictionary either
	if has(s.frames, http2.GoAway, 0) || has(s.frames, http2.RSTStream, s.next-2) {
		t.Error("a malformed Priority field was not ignored")
	}
}
