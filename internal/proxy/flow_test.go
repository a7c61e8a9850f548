package proxy

import (
	"log/slog"
	"testing"

	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// A response may be whole, in the loop's batch, while the request's body is still coming: then the
// timer that watches the body can be due between the two. The exchange is Run's to end; ended
// twice, Run would find another client's in its place.
func TestATimerThatIsDueWhileTheLastBytesWaitForTheBatchEndsNothing(t *testing.T) {
	client := busyClient()
	f := &flow{life: life{stage: stageSending, stream: client, origin: &client.origin}}
	f.judgeBody()
	f.abort(0)
	if f.stage != stageSending || client.state != clientBusy {
		t.Errorf("the exchange is in stage %d and its client in state %d, want both as they were",
			f.stage, client.state)
	}
}

func busyClient() *clientConn {
	return &clientConn{origin: origin{listener: &Listener{MinBodyRate: 1}}, state: clientBusy}
}

// A client that was answered instead of told to go on rightly sends no body, however long the
// answer takes.
func TestABodyThatWasNotAskedForIsNotTooSlow(t *testing.T) {
	client := busyClient()
	f := &flow{life: life{
		stage: stageSent, flags: expecting, up: &upstreamConn{},
		stream: client, origin: &client.origin,
	}}
	f.judgeBody()
	if f.stage != stageSent || f.up == nil || client.state != clientBusy {
		t.Errorf("the exchange is in stage %d and its client in state %d", f.stage, client.state)
	}
}

// While the upstream decides whether the body comes, the exchange waits for the service and not for
// its client.
func TestAClientThatWaitsForTheUpstreamsDecisionIsNotWaitedFor(t *testing.T) {
	f := &flow{life: life{
		stage: stageSent, flags: expecting, up: &upstreamConn{}, stream: &clientConn{},
	}}
	if f.waitsForClient() {
		t.Error("its connection may be taken away")
	}
	if f.flags = continued; !f.waitsForClient() {
		t.Error("its connection may not be taken away although only the body is awaited")
	}
}

func TestEveryStageHasAWordForPeople(t *testing.T) {
	seen := map[string]stage{}
	for s := range stages {
		text := stageText[s]
		if other, ok := seen[text]; ok || text == "" {
			t.Errorf("stage %d is called %q, as stage %d is", s, text, other)
		}
		seen[text] = s
	}
}

func TestWhatIsReadOffTheOrderOfStages(t *testing.T) {
	type says struct{ headSent, responseBegun, readsResponse bool }
	want := [stages]says{
		stageReading:    {},
		stagePolicies:   {},
		stageHolding:    {},
		stageWaiting:    {},
		stageConnecting: {},
		stageSent:       {headSent: true, readsResponse: true},
		stageStreaming:  {headSent: true, responseBegun: true, readsResponse: true},
		stageTunnel:     {headSent: true, responseBegun: true},
		stageSending:    {headSent: true, responseBegun: true},
		stageOver:       {headSent: true, responseBegun: true},
	}
	for s := range stages {
		if got := (says{s.headSent(), s.responseBegun(), s.readsResponse()}); got != want[s] {
			t.Errorf("of stage %q is said %+v, want %+v", stageText[s], got, want[s])
		}
	}
}

func TestWhatAFloodLeavesBehindIsBounded(t *testing.T) {
	loops, err := reactor.NewGroup(1, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{loop: loops[0], view: &view{}}
	flood := make([]*flow, maxSpare+100)
	for i := range flood {
		flood[i] = w.newFlow(nil, nil)
	}
	for _, f := range flood {
		w.freeFlow(f)
	}
	kept := 0
	for f := w.flows; f != nil; f = f.next {
		kept++
	}
	if kept != maxSpare || w.spare != maxSpare {
		t.Errorf("%d exchanges are kept, %d counted, want %d", kept, w.spare, maxSpare)
	}
	if w.newFlow(nil, nil); w.spare != maxSpare-1 {
		t.Errorf("after one was taken %d are counted", w.spare)
	}
}

// What was read for the room that there was is held, although holding it reaches the loop's bound:
// the client will not send it again.
func TestWhatWasReadOfABodyIsHeldWhenTheLoopsBoundIsReachedMeanwhile(t *testing.T) {
	loops, err := reactor.NewGroup(1, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{loop: loops[0], mostHeld: maxHeld, heldBytes: maxHeld - reactor.Sizes[0]}
	f := &flow{w: w, life: life{route: &Route{HoldBody: 64 << 10}}}
	for _, n := range []int{10, 2 * reactor.Sizes[0]} {
		f.keep(make([]byte, n))
	}
	if held := len(f.heldBody.Data()); held != 10+2*reactor.Sizes[0] {
		t.Errorf("%d bytes are held", held)
	}
	if room := f.holdRoom(); room > len(f.heldBody.Room()) {
		t.Errorf("%d bytes more may be held, beyond the buffer that is there", room)
	}
}

// Each target that leaves before it has begun on a request gives it another try, and so does a
// connection that proves stale: together no more than there are places to note targets in.
func TestFreeRetriesEndWhereNoMoreTargetsCanBeNoted(t *testing.T) {
	for what, flags := range map[string]flowFlags{"its target leaves": notBegun, "a stale connection": 0} {
		for tries := uint8(1); tries <= maxTries; tries++ {
			f := &flow{life: life{deadline: 1, stage: stageSent, tries: tries, flags: flags}}
			f.w = &Worker{loop: &reactor.Loop{}}
			if got, want := f.mayRetry(upstream.Reset, true), tries < maxTries; got != want {
				t.Errorf("%s: another try after %d is %v, want %v", what, tries, got, want)
			}
		}
	}
}
