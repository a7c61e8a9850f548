package proxy

import (
	"log/slog"
	"testing"

	"plimsoll/internal/reactor"
)

// A response may be whole, in the loop's batch, while the request's body is still coming: then the timer that watches the body can be due
// between the two. The exchange is Run's to end; ended twice, Run would find another client's in its place.
func TestATimerThatIsDueWhileTheLastBytesWaitForTheBatchEndsNothing(t *testing.T) {
	f := &flow{stage: stageSending, client: &client{listener: &Listener{MinBodyRate: 1}, state: clientBusy}}
	f.clientSlow(1)
	f.abort(0)
	if f.stage != stageSending || f.client.state != clientBusy {
		t.Errorf("the exchange is in stage %d and its client in state %d, want both as they were", f.stage, f.client.state)
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

func TestWhatAFloodLeavesBehindIsBounded(t *testing.T) {
	loops, err := reactor.NewGroup(1, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{loop: loops[0], view: &view{}}
	flood := make([]*flow, maxSpare+100)
	for i := range flood {
		flood[i] = w.newFlow(nil)
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
	if w.newFlow(nil); w.spare != maxSpare-1 {
		t.Errorf("after one was taken %d are counted", w.spare)
	}
}
