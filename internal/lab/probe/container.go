package probe

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// published finds the process behind a port that a container publishes. forwarder is the process
// that forwards to it: docker-proxy has the container's address and port on its command line.
func published(root string, forwarder int) (pid int, name string, err error) {
	dir := filepath.Join(root, strconv.Itoa(forwarder))
	command, err := readWhole(filepath.Join(dir, "cmdline"), make([]byte, maxCommand))
	if err != nil {
		return 0, "", err
	}
	to, ok := forwardedTo(command)
	if !ok {
		return 0, "", errors.New("its command line does not say where it forwards to")
	}
	return inContainer(root, to)
}

// inContainer finds the process that listens on an address which belongs to one of this machine's
// network namespaces, as that of a container does.
func inContainer(root string, to netip.AddrPort) (pid int, name string, err error) {
	inodes, err := listenersAt(root, to)
	if err != nil {
		return 0, "", err
	}
	owners, _, err := ownersOf(root, inodes)
	if err != nil || len(owners) == 0 {
		return 0, "", errors.Join(err, fmt.Errorf("no process is seen to listen on %s", to))
	}
	return choose(root, int(to.Port()), owners)
}

// forwardedTo returns the address that a command line forwards to: "-container-ip 172.17.0.2
// -container-port 80".
func forwardedTo(command []byte) (to netip.AddrPort, ok bool) {
	words := strings.Split(string(command), "\x00")
	value := func(flag string) string {
		for i, word := range words {
			name, joined, is := strings.Cut(strings.TrimLeft(word, "-"), "=")
			switch {
			case name != flag:
			case is:
				return joined
			case i+1 < len(words):
				return words[i+1]
			}
		}
		return ""
	}
	ip, err := netip.ParseAddr(value("container-ip"))
	port, err2 := strconv.ParseUint(value("container-port"), 10, 16)
	return netip.AddrPortFrom(ip, uint16(port)), err == nil && err2 == nil
}

// listenersAt returns the sockets that listen on an address, in whichever network namespace has it.
// It fails if several do: container networks may use the same addresses.
func listenersAt(root string, to netip.AddrPort) (map[uint64]bool, error) {
	names, err := list(root, maxScan)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var found map[uint64]bool
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		dir := filepath.Join(root, name)
		namespace, err := os.Readlink(filepath.Join(dir, "ns", "net"))
		if err != nil || seen[namespace] {
			continue
		}
		seen[namespace] = true
		if !hasAddress(dir, to.Addr()) {
			continue
		}
		inodes := map[uint64]bool{}
		err = eachSocket(dir, func(s socket) {
			at := plain(s.local)
			if s.state == listening && at.Port() == to.Port() &&
				(at.Addr().IsUnspecified() || at.Addr() == to.Addr()) {
				inodes[s.inode] = true
			}
		})
		if err != nil || len(inodes) == 0 {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("several network namespaces have a listener on %s", to)
		}
		found = inodes
	}
	if found == nil {
		return nil, fmt.Errorf("no network namespace has a listener on %s", to)
	}
	return found, nil
}

// hasAddress reports whether a process's network namespace has a local address.
func hasAddress(dir string, ip netip.Addr) bool {
	const maxTable = 4 << 20
	if ip.Is6() {
		text, err := readWhole(filepath.Join(dir, "net", "if_inet6"), make([]byte, 256<<10))
		bytes16 := ip.As16()
		return err == nil && bytes.Contains(text, fmt.Appendf(nil, "%x ", bytes16[:]))
	}
	text, err := readWhole(filepath.Join(dir, "net", "fib_trie"), make([]byte, maxTable))
	if err != nil {
		return false
	}
	// "|-- 172.17.0.2" on one line, and "/32 host LOCAL" on the next.
	for rest := text; ; {
		_, after, found := bytes.Cut(rest, fmt.Appendf(nil, "|-- %s\n", ip))
		if !found {
			return false
		}
		line, _, _ := bytes.Cut(after, []byte("\n"))
		if bytes.Contains(line, []byte("/32 host LOCAL")) {
			return true
		}
		rest = after
	}
}
