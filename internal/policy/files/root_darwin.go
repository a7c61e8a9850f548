package files

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// macOS has no O_PATH: looking at a name opens it. The open waits for no peer.
const pathOnly = 0

func hasOpenat2() bool { return false }

func openBeneath(int, string, int, bool) (int, error) { return -1, syscall.ENOSYS }

// isRemote assumes that any file may have to be waited for.
func isRemote(int) bool { return true }

func readNow(int, []byte, int64) (int, syscall.Errno) { return 0, syscall.EOPNOTSUPP }

func modifiedAt(st *unix.Stat_t) (sec, nsec int64) { return st.Mtim.Sec, st.Mtim.Nsec }
func changedAt(st *unix.Stat_t) (sec, nsec int64)  { return st.Ctim.Sec, st.Ctim.Nsec }

func readWarm(int, []byte, int64) (int, syscall.Errno) { return 0, syscall.EAGAIN }
