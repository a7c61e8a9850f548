package probe

import (
	"maps"
	"slices"
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
	// maxLocal bounds the Unix sockets of the machine that are looked at: any of its users may have
	// made them.
	maxLocal = 16384
	// maxSocketPath is how long the path of a Unix socket may be.
	maxSocketPath = 108
)

// notAsked are Unix sockets on which nothing is waited for: they take logs, or are the system's own.
var notAsked = []string{"/run/systemd/journal/", "/dev/log", "/run/dbus/", "/var/run/dbus/"}

// nameServer is the UDP port of those that answer. Most others take what is sent without a word:
// logs, figures and traces.
const nameServer = 53

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

// datagram counts a UDP socket that has a name server as its other end.
func (t *tally) datagram(s socket) {
	s.remote = plain(s.remote)
	if s.state == established && s.inode != 0 && s.remote.Port() == nameServer &&
		len(t.candidates) < maxCandidates {
		t.candidates = append(t.candidates, candidate{
			inode: s.inode, state: s.state, remote: s.remote, datagram: true,
		})
	}
}

// joinLocal counts the Unix sockets that are connected to one with a name, and takes down who
// listens there: the one that was made last, where an old one is still there.
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

// takeOthers goes through the sockets that are not TCP's. A kernel that was built without what tells
// them leaves them unseen.
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
