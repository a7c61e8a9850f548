package probe

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// dropRights removes this thread's right to read other users' data for the rest of the test; root
// could read it otherwise.
func dropRights(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	// The thread stays locked: it ends with its goroutine, which is the test's.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
}
