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

// The socket states that matter here, with the kernel's numbers.
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
// INET_DIAG. IPv4 addresses mapped into IPv6 are kept as found.
type socket struct {
	local, remote netip.AddrPort
	state         int
	inode         uint64 // 0 if no process holds it
	queue         uint32 // of a listener: connections that wait to be accepted
	// From INET_DIAG only. limit is a listener's backlog; retransmits counts the retransmitted
	// segments of other sockets.
	limit, retransmits uint32
	// waits reports that the last data was sent, not received. told reports that INET_DIAG gave
	// both times.
	waits, told bool
	// data is the traffic on the socket, if INET_DIAG reported it.
	data data
}

// Connections counts this machine's TCP connections to some addresses, at the end that opened them,
// until both sides have closed. TIME-WAIT does not count: it holds nothing of the target's. Nor
// does FIN-WAIT-1: the connection was closed here, and the target's machine has not acknowledged
// that. If the target's accept queue overflows, it never does, and the kernel keeps trying for
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

// same reports whether two addresses are the same, whatever the address family of the socket.
func same(a, b netip.AddrPort) bool {
	return a.Port() == b.Port() && a.Addr().Unmap().WithZone("") == b.Addr().Unmap().WithZone("")
}

// eachSocket reads /proc/net/tcp and tcp6 line by line; they may have a hundred thousand lines.
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

// parseSocket reads a line; ok is false for the heading and for anything that is not a socket.
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

// parseAddress reads an address such as "0100007F:1F90": groups of four bytes, each in
// little-endian order (on the processors that this runs on), and a port.
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
