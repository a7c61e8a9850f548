package proxy

import "plimsoll/internal/http2"

// The windows that peers of HTTP/2 get, and the memory that they may fill with them.
//
// A stream begins with streamWindow. Its window grows to what http2.Path says that the path needs, in
// the moment in which it is announced again and only while its content goes on at once: a stream that
// does not flow has no more than it had. So SETTINGS never change, and a new stream needs one round
// trip to have what its path needs.
//
// The connection's window is given back what comes as soon as it came, not when somebody takes it: it
// bounds what is under way, and a stream that does not flow holds up no other. That ends at heldMost,
// beyond which what is held is missing in the connection's window: so heldMost and a window is all
// that a connection ever holds. What all connections of a loop hold is bounded by waiting.
const (
	// streamWindow is what a stream may send that nobody takes.
	streamWindow = 64 << 10

	// mostStreamWindow is how large a stream's window becomes: 80 Mbit/s over a round trip of 100 ms,
	// and 64 streams that stop with a full one fill the loop's bound.
	mostStreamWindow = 1 << 20

	// windowsAtOnce is how many streams' windows a connection's has room for.
	windowsAtOnce = 4

	// extraMost is by how much the windows of a connection's streams, together, may be larger than
	// streamWindow.
	extraMost = 4 << 20

	// scarceWindow is what a stream gets while the loop holds too much, and its connection more than
	// its share.
	scarceWindow = 16 << 10
)

// intake is what a connection has let in: its side of flow control.
type intake struct {
	path      http2.Path
	window    http2.ReceiveWindow // of the connection
	least     int                 // how large that is at least
	heldMost  int                 // bytes held that are not missing in it
	held      int                 // bytes in the streams' chains
	owed      int                 // bytes of these that are missing in the window
	memory    int                 // of the chains' buffers
	extra     int                 // by how much streams' windows are larger than streamWindow, together
	prev, nxt *http2Link          // in the worker's list of those that hold something
}

// init makes the windows those of a connection that has just begun.
func (i *intake) init(least, heldMost int) {
	i.path.Init(streamWindow, mostStreamWindow)
	i.window = http2.NewReceiveWindow(http2.ConnectionWindow)
	i.least, i.heldMost = least, heldMost
}

// announceWindow appends what makes the connection's window as large as it begins.
func (l *http2Link) announceWindow(dst []byte) []byte {
	return http2.AppendWindowUpdate(dst, 0, l.intake.window.Grow(uint32(l.intake.least)))
}

// windowSize is how large the connection's window is to be.
func (l *http2Link) windowSize() int {
	if l.w.waiting.scarce() {
		return l.intake.least
	}
	return max(l.intake.least, windowsAtOnce*l.intake.path.Size())
}

// passOver gives bytes that nobody keeps back to the connection's window.
func (l *http2Link) passOver(n int) {
	if by := l.intake.window.ReleaseTo(l.windowSize(), n); by > 0 {
		l.wrote(http2.AppendWindowUpdate(l.room(32), 0, by))
	}
}

// hold notes that the chains have so much more content, and memory; both may be negative.
func (l *http2Link) hold(content, memory int) {
	i, all := &l.intake, &l.w.waiting
	i.held += content
	if content > 0 {
		i.owed += content
	}
	if memory != 0 {
		all.note(l, memory)
	}
	most := i.heldMost
	if all.scarce() {
		most = min(most, all.share(loopHeld))
	}
	n := max(0, i.owed-max(0, i.held-most))
	i.owed -= n
	l.passOver(n)
}

// passed notes content that went on at once, and asks how fast the path is where that is much.
func (l *http2Link) passed(n int) {
	if l.intake.path.Passed(n, l.w.loop.Now()) && !l.dead {
		l.wrote(http2.AppendPing(l.room(32), false, l.intake.path.Mark()))
	}
}

// answered takes the acknowledgement of a PING.
func (l *http2Link) answered(f *http2.Frame) {
	if !l.intake.path.Answered([8]byte(f.Payload), l.w.loop.Now()) {
		return
	}
	if by := l.intake.window.Grow(uint32(l.windowSize())); by > 0 {
		l.wrote(http2.AppendWindowUpdate(l.room(32), 0, by))
	}
}

// taken gives n bytes of content that somebody took back to the stream's window. atOnce says that
// they came just now, and were not held.
func (d *streamData) taken(n int, atOnce bool) {
	l := d.link
	if atOnce {
		l.passOver(n)
	}
	if !d.behind {
		l.passed(n)
	}
	d.release(n)
	d.behind = d.behind && d.in.Len() > 0
}

// release gives bytes back to the stream's window, and makes that as large as it is to be.
func (d *streamData) release(n int) {
	l := d.link
	old := d.receive.Size()
	size := d.windowSize(old)
	by := d.receive.ReleaseTo(min(size, old), n)
	if by > 0 && size > d.receive.Size() && !d.ended {
		by += d.receive.Grow(uint32(size))
	}
	l.intake.extra += extraOf(d.receive.Size()) - extraOf(old)
	if by > 0 && !d.ended {
		l.wrote(http2.AppendWindowUpdate(l.room(32), d.id, by))
	}
}

// windowSize is how large the stream's window is to be that has old bytes.
func (d *streamData) windowSize(old int) int {
	l := d.link
	switch all := &l.w.waiting; {
	case all.scarce() && l.intake.memory > all.share(loopHeld):
		return scarceWindow
	case all.scarce():
		return streamWindow
	case d.behind:
		return max(old, streamWindow)
	}
	room := extraMost - l.intake.extra + extraOf(old)
	return min(l.intake.path.Size(), streamWindow+room)
}

func extraOf(size int) int { return max(0, size-streamWindow) }
