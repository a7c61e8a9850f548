package probe

import (
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// localSocket is a Unix stream socket.
type localSocket struct {
	inode, peer uint64 // peer is the other end's inode
	state       int
	name        string // the path it is bound to; it begins with @ if it is not in a file system
}

const (
	// maxPaths bounds the Unix sockets to which the target has had connections.
	maxPaths = 256
	// maxLocal bounds the Unix sockets of the machine to examine: any user may create them.
	maxLocal = 16384
	// maxSocketPath is the maximum length of the path of a Unix socket.
	maxSocketPath = 108
)

// notAsked are Unix sockets that nobody waits on: they take logs, or belong to the system.
var notAsked = []string{"/run/systemd/journal/", "/dev/log", "/run/dbus/", "/var/run/dbus/"}

// nameServer is the UDP port of name servers, which answer. Most other UDP receivers do not: they
// take logs, metrics and traces.
const nameServer = 53

// readable returns the name of a Unix socket in printable form.
func readable(name []byte) string {
	text := string(name[:min(len(name), maxSocketPath)])
	if strings.HasPrefix(text, "\x00") {
		text = "@" + text[1:]
	}
	text, _, _ = strings.Cut(text, "\x00")
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, text)
}

// datagram counts a UDP socket that is connected to a name server.
func (t *tally) datagram(s socket) {
	s.remote = plain(s.remote)
	if s.state == established && s.inode != 0 && s.remote.Port() == nameServer &&
		len(t.candidates) < maxCandidates {
		t.candidates = append(t.candidates, candidate{
			inode: s.inode, state: s.state, remote: s.remote, datagram: true,
		})
	}
}

// joinLocal counts the Unix sockets that are connected to a named one, and records the listener of
// each name: the newest one, if an old one still exists.
func (t *tally) joinLocal(all map[uint64]localSocket) {
	for _, inode := range slices.Sorted(maps.Keys(all)) {
		s := all[inode]
		switch to := all[s.peer].name; {
		case s.state == listening && s.name != "":
			t.paths[measure.UnixAddress+s.name] = s.inode
		case s.state != established || s.name != "" || to == "" || len(t.candidates) >= maxCandidates:
		case !begins(to, notAsked):
			t.candidates = append(t.candidates,
				candidate{inode: s.inode, state: s.state, path: measure.UnixAddress + to})
		}
	}
}

func begins(text string, with []string) bool {
	for _, w := range with {
		if strings.HasPrefix(text, w) {
			return true
		}
	}
	return false
}

// takeOthers goes through the sockets other than TCP. It skips them if the kernel was built without
// the dumps.
func (c *census) takeOthers(t *tally) {
	counted := len(t.candidates)
	if c.dumpDatagrams(t.datagram) != nil {
		t.candidates = t.candidates[:counted]
	}
	all := make(map[uint64]localSocket)
	err := c.dumpLocal(func(s localSocket) {
		if len(all) < maxLocal {
			all[s.inode] = s
		}
	})
	if err == nil {
		t.joinLocal(all)
		t.local = len(all) < maxLocal
	}
}
