package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

const (
	// maxScan bounds the processes searched for a socket, and maxDescriptors the descriptors of
	// each.
	maxScan        = 1 << 15
	maxDescriptors = 1 << 17
)

// forwarders listen on behalf of a service that runs elsewhere.
var forwarders = []string{"docker-proxy", "rootlessport", "slirp4netns", "kubectl", "ssh", "sshd"}

// FindPID finds the process of this machine that listens on a TCP port. If several share the
// socket, as a server's workers do, it returns the one that the others descend from. For a port
// that a container publishes, it returns the container's process. Its errors say what to do.
func FindPID(port int) (pid int, name string, err error) {
	return findPID(procfs.DefaultMountPoint, port)
}

func findPID(root string, port int) (int, string, error) {
	inodes := make(map[uint64]bool)
	err := eachSocket(root, func(s socket) {
		if s.state == listening && int(s.local.Port()) == port {
			inodes[s.inode] = true
		}
	})
	if err != nil {
		return 0, "", err
	}
	if len(inodes) == 0 {
		return 0, "", fmt.Errorf("nothing in this network namespace listens on port %d: "+
			"if the target runs in a container, name its process with --pid", port)
	}
	owners, denied, err := ownersOf(root, inodes)
	if err != nil {
		return 0, "", err
	}
	if len(owners) == 0 {
		if denied > 0 {
			return 0, "", fmt.Errorf("the process that listens on port %d belongs to another "+
				"user: run as that user or as root, or name it with --pid", port)
		}
		return 0, "", fmt.Errorf("the process that listens on port %d cannot be seen from here, "+
			"as if it were in another container: name it with --pid", port)
	}
	return choose(root, port, owners)
}

// findHolder finds the process that holds a listening socket.
func findHolder(root string, inode uint64) (int, string, error) {
	owners, _, err := ownersOf(root, map[uint64]bool{inode: true})
	if err != nil || len(owners) == 0 {
		return 0, "", errors.Join(err, errors.New("the process that listens there cannot be seen"))
	}
	return choose(root, 0, owners)
}

// choose returns the process that all the others descend from.
func choose(root string, port int, owners []int) (int, string, error) {
	var described []string
	for _, pid := range owners {
		s, err := statOf(root, pid)
		if err != nil {
			continue // it has ended
		}
		all := true
		for _, other := range owners {
			all = all && descends(root, other, pid)
		}
		if all && slices.Contains(forwarders, s.name) {
			if inside, name, err := published(root, pid); err == nil {
				return inside, name, nil
			}
			return 0, "", fmt.Errorf("port %d belongs to %s (process %d), which only forwards: "+
				"name the service's own process with --pid", port, s.name, pid)
		}
		if all {
			return pid, s.name, nil
		}
		described = append(described, fmt.Sprintf("%d (%s)", pid, s.name))
	}
	if pid, name := master(root, owners); pid != 0 {
		return pid, name, nil
	}
	const shown = 8
	if len(described) > shown {
		described = append(described[:shown], "…")
	}
	return 0, "", fmt.Errorf("several processes listen on port %d, and none is the parent of the "+
		"others: name one with --pid: %s",
		port, strings.Join(described, ", "))
}

// master finds the parent of processes that share a port by SO_REUSEPORT, if it does not listen
// itself: their nearest common ancestor, if it runs the same program. A supervisor runs another
// program and is not part of the service. pid is 0 if there is none.
func master(root string, owners []int) (pid int, name string) {
	program := func(pid int) string {
		path, _ := os.Readlink(filepath.Join(root, strconv.Itoa(pid), "exe"))
		return path
	}
	if len(owners) == 0 {
		return 0, ""
	}
	first := program(owners[0])
	for at := owners[0]; first != ""; {
		s, err := statOf(root, at)
		if err != nil || s.parent <= 1 {
			return 0, ""
		}
		at = s.parent
		if !slices.ContainsFunc(owners, func(o int) bool { return !descends(root, o, at) }) {
			if s, err = statOf(root, at); err == nil && program(at) == first {
				return at, s.name
			}
			return 0, ""
		}
	}
	return 0, ""
}

// descends reports whether pid is from or one of its descendants.
func descends(root string, pid, from int) bool {
	for range 64 {
		if pid == from {
			return true
		}
		s, err := statOf(root, pid)
		if err != nil || s.parent <= 1 {
			return false
		}
		pid = s.parent
	}
	return false
}

// ownersOf returns the processes that hold one of the sockets, in ascending order. denied counts
// the processes that may not be inspected.
func ownersOf(root string, inodes map[uint64]bool) (owners []int, denied int, err error) {
	names, err := list(root, maxScan)
	if err != nil {
		return nil, 0, fmt.Errorf("processes cannot be listed: %w", err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		holds, err := holdsOne(filepath.Join(root, name, "fd"), inodes)
		if errors.Is(err, fs.ErrPermission) {
			denied++
		}
		if holds {
			owners = append(owners, pid)
		}
	}
	slices.Sort(owners)
	return owners, denied, nil
}

func holdsOne(dir string, inodes map[uint64]bool) (holds bool, err error) {
	err = eachHeld(dir, maxDescriptors, func(inode uint64) bool {
		holds = inodes[inode]
		return !holds
	})
	return holds, err
}

// eachHeld visits the sockets among at most limit descriptors in a process's fd folder, until take
// returns false.
func eachHeld(dir string, limit int, take func(inode uint64) (more bool)) error {
	names, err := list(dir, limit)
	if err != nil {
		return err
	}
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		text, is := strings.CutPrefix(link, "socket:[")
		inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
		if is && err == nil && !take(inode) {
			return nil
		}
	}
	return nil
}
