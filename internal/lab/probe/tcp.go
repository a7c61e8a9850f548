package probe

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"
)

// maxSockets bounds the lines of /proc/net/tcp that are read.
const maxSockets = 1 << 20

// The states of a socket that matter here, as the kernel numbers them.
const (
	established = 0x01
	synReceived = 0x03
	finWait1    = 0x04
	finWait2    = 0x05
	timeWait    = 0x06
	closeWait   = 0x08
	listening   = 0x0A
	closing     = 0x0B
)

// socket is a TCP socket of a network namespace: a line of /proc/net/tcp, or an answer of
// INET_DIAG. Addresses of IPv4 in IPv6 are as they are found.
type socket struct {
	local, remote netip.AddrPort
	state         int
	inode         uint64 // 0 when no process holds it
	queue         uint32 // of one that listens: connections that wait to be accepted
	// What only INET_DIAG tells: of one that listens, how many may wait; of others, segments sent
	// again.
	limit, retransmits uint32
	// waits says that something was sent on it after the last that came, and told that INET_DIAG
	// told the times of both.
	waits, told bool
	// data is what went to and fro on it, where INET_DIAG told that.
	data data
}

// Connections counts this machine's TCP connections to some addresses, by the end that asked for
// them, until they are closed on both sides. What is in TIME-WAIT does not count: it holds nothing
// of the target's. Nor does what is in FIN-WAIT-1: it was closed here, and the target's machine has
// not acknowledged that. Where its accept queue overflows it never does, and the kernel goes on for
// minutes.
func Connections(to ...netip.AddrPort) (int, error) {
	return connections(procfs.DefaultMountPoint, to)
}

func connections(root string, to []netip.AddrPort) (n int, err error) {
	if len(to) == 0 {
		return 0, nil
	}
	err = eachSocket(root, func(s socket) {
		if s.state != timeWait && s.state != finWait1 && s.state != listening &&
			slices.ContainsFunc(to, func(a netip.AddrPort) bool { return same(a, s.remote) }) {
			n++
		}
	})
	return n, err
}

// same says whether two addresses are the same one, whatever family the socket is of that is
// connected to it.
func same(a, b netip.AddrPort) bool {
	return a.Port() == b.Port() && a.Addr().Unmap().WithZone("") == b.Addr().Unmap().WithZone("")
}

// eachSocket reads /proc/net/tcp and tcp6 line by line; they may hold a hundred thousand.
func eachSocket(root string, take func(socket)) error {
	for _, name := range []string{"tcp", "tcp6"} {
		err := socketsIn(filepath.Join(root, "net", name), take)
		if name == "tcp6" && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the machine's sockets cannot be read: %w", err)
		}
	}
	return nil
}

func socketsIn(name string, take func(socket)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for n := 0; in.Scan(); n++ {
		if n > maxSockets {
			return fmt.Errorf("%s has more than %d sockets", name, maxSockets)
		}
		if s, ok := parseSocket(in.Bytes()); ok {
			take(s)
		}
	}
	return in.Err()
}

// parseSocket reads a line; ok is false for the one with the headings, and for what is not a
// socket.
func parseSocket(line []byte) (s socket, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) < 10 {
		return s, false
	}
	local, ok1 := parseAddress(fields[1])
	remote, ok2 := parseAddress(fields[2])
	state, err := strconv.ParseUint(string(fields[3]), 16, 8)
	if !ok1 || !ok2 || err != nil {
		return s, false
	}
	inode, err := strconv.ParseUint(string(fields[9]), 10, 64)
	s = socket{local: local, remote: remote, state: int(state), inode: inode}
	if _, received, found := bytes.Cut(fields[4], []byte(":")); found && s.state == listening {
		if waiting, err := strconv.ParseUint(string(received), 16, 32); err == nil {
			s.queue = uint32(waiting)
		}
	}
	return s, err == nil
}

// parseAddress reads an address as "0100007F:1F90": groups of four bytes, each with the last byte
// first (on the processors that this runs on), and a port.
func parseAddress(text []byte) (a netip.AddrPort, ok bool) {
	ip, port, found := bytes.Cut(text, []byte(":"))
	number, err := strconv.ParseUint(string(port), 16, 16)
	if !found || err != nil || len(ip) != 8 && len(ip) != 32 {
		return a, false
	}
	var raw [16]byte
	n, err := hex.Decode(raw[:], ip)
	if err != nil {
		return a, false
	}
	for group := range slices.Chunk(raw[:n], 4) {
		slices.Reverse(group)
	}
	addr, ok := netip.AddrFromSlice(raw[:n])
	return netip.AddrPortFrom(addr, uint16(number)), ok
}
