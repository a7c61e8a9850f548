package probe

import (
	"strings"

	"plimsoll/internal/lab/measure"
)

// localSocket is a Unix socket that carries a stream.
type localSocket struct {
	inode, peer uint64 // peer is the other end's
	state       int
	name        string // the path that it is bound to; with an @ where that is in no file system
}

const (
	// maxPaths bounds the Unix sockets that the target has been seen to be connected to.
	maxPaths = 256
	// maxSocketPath is how long the path of a Unix socket may be.
	maxSocketPath = 108
)

// notAsked are Unix sockets on which nothing is waited for: they take logs, or are the system's own.
var notAsked = []string{"/run/systemd/journal/", "/dev/log", "/run/dbus/", "/var/run/dbus/"}

// notAnswered are UDP ports to which something is sent without an answer: syslog and StatsD.
var notAnswered = map[uint16]bool{514: true, 8125: true}

// readable is the name of a Unix socket.
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

// datagram counts a UDP socket that has one other end, as that of who asks a name server.
func (t *tally) datagram(s socket) {
	s.remote = plain(s.remote)
	if s.state == established && s.inode != 0 && !notAnswered[s.remote.Port()] &&
		len(t.candidates) < maxCandidates {
		t.candidates = append(t.candidates, candidate{inode: s.inode, state: s.state, remote: s.remote})
	}
}

// joinLocal counts the Unix sockets that are connected to one with a name, and takes down who
// listens there.
func (t *tally) joinLocal(all map[uint64]localSocket) {
	for _, s := range all {
		switch to := all[s.peer].name; {
		case s.state == listening && s.name != "" && len(t.paths) < maxSockets:
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

// takeOthers goes through the sockets that are not TCP's. A kernel that was built without what tells
// them leaves them unseen.
func (c *census) takeOthers(t *tally) {
	counted := len(t.candidates)
	if c.dumpDatagrams(t.datagram) != nil {
		t.candidates = t.candidates[:counted]
	}
	all := make(map[uint64]localSocket)
	if c.dumpLocal(func(s localSocket) { all[s.inode] = s }) == nil {
		t.joinLocal(all)
	}
}
