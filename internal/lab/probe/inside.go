package probe

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"
)

// Inside calls do on a thread in the network namespace of a process, so that the settings it reads
// under sys/net of proc are that namespace's. root is where proc is mounted. The error is do's, or
// says that the namespace cannot be entered. do must not start goroutines.
func Inside(root string, pid int, do func() error) error {
	return networkOf(root, procfs.FS{}, &processes{pid: pid}).inside(do)
}

// Apart reports whether a process is in another network namespace than this program, as far as that
// can be determined. root is where proc is mounted.
func Apart(root string, pid int) bool {
	return networkOf(root, procfs.FS{}, &processes{pid: pid}).namespace != ""
}

// Listening returns the TCP addresses on which a process listens, sorted and without duplicates.
// root is where proc is mounted.
func Listening(root string, pid int) ([]netip.AddrPort, error) {
	dir := filepath.Join(root, strconv.Itoa(pid))
	held := make(map[uint64]bool)
	err := eachHeld(filepath.Join(dir, "fd"), maxDescriptors, func(inode uint64) bool {
		held[inode] = true
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("the descriptors of process %d cannot be listed: %w", pid, err)
	}
	var all []netip.AddrPort
	err = eachSocket(dir, func(s socket) {
		if s.state == listening && held[s.inode] && !slices.Contains(all, s.local) {
			all = append(all, s.local)
		}
	})
	slices.SortFunc(all, func(a, b netip.AddrPort) int { return a.Compare(b) })
	return all, err
}

// Connected visits the TCP connections of a process's network namespace, or of this one if pid is
// 0. It does not report their owners. waits reports that a connection is closed and only holds its
// port (TIME-WAIT). root is where proc is mounted.
func Connected(root string, pid int, visit func(local, remote netip.AddrPort, waits bool)) error {
	dir := root
	if pid != 0 {
		dir = filepath.Join(root, strconv.Itoa(pid))
	}
	return eachSocket(dir, func(s socket) {
		if s.state != listening {
			visit(s.local, s.remote, s.state == timeWait)
		}
	})
}
