package gateway

import (
	"testing"
	"testing/synctest"
)

// With a sync.Mutex in its place, the first Wait would never return.
func TestWaitingForALockDoesNotStopVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, got := newLock(), false
		held.Lock()
		go func() {
			held.Lock()
			got = true
			held.Unlock()
		}()
		synctest.Wait()
		if got {
			t.Error("two hold the lock at once")
		}
		held.Unlock()
		synctest.Wait()
		if !got {
			t.Error("the lock was not passed on")
		}
	})
}
