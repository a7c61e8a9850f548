package reactor

import (
	"log/slog"
	"testing"
	"time"
)

func TestAPostBetweenTheLastLookAndTheSleepIsNotSleptOver(t *testing.T) {
	loops, err := NewGroup(1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l := loops[0]
	// The loop has looked and found nothing. Post finds it awake, so it does not wake it.
	l.Post(l.Stop)
	woke := make(chan struct{})
	go func() {
		l.wait()
		close(woke)
	}()
	select {
	case <-woke:
	case <-time.After(20 * time.Second):
		t.Fatal("the loop sleeps, and a post waits")
	}
	l.Run()
}
