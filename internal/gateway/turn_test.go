package gateway

import (
	"testing"
	"testing/synctest"
)

// With a sync.Mutex in its place, the first Wait would never return.
func TestWaitingForATurnDoesNotStopVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, got := newTurn(), false
		held.Lock()
		go func() {
			held.Lock()
			got = true
			held.Unlock()
		}()
		synctest.Wait()
		if got {
			t.Error("two hold the turn at once")
		}
		held.Unlock()
		synctest.Wait()
		if !got {
			t.Error("the turn was not passed on")
		}
	})
}
