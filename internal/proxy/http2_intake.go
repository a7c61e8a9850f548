package proxy

import "plimsoll/internal/http2"

// This file holds the windows that peers of HTTP/2 get, and so the memory that they may fill.
//
// A stream begins with streamWindow. Its window grows to what http2.Path says that the path needs,
// but only when the window is announced again and while the stream's content is taken at once. The
// window of a stream that does not flow does not grow. So SETTINGS never change, and a new stream
// has the window that its path needs after one round trip.
//
// What comes is given back to the connection's window when it has come, and not when it is taken:
// this window bounds what is under way, and a stream that does not flow does not hold up others.
// But what a connection holds beyond heldMost is not given back until it is taken. So a connection
// never holds more than heldMost and a window. waiting bounds what all connections of a loop hold.
const (
	// streamWindow is how many bytes a stream may send that are not taken.
	streamWindow = 64 << 10

	// mostStreamWindow is how many bytes a stream's window grows to at most: enough for 80 Mbit/s
	// over a round trip of 100 ms. 64 streams that stop with a full window reach the loop's bound.
	mostStreamWindow = 1 << 20

	// windowsAtOnce is for how many windows of streams a connection's window has room.
	windowsAtOnce = 4

	// extraMost is by how many bytes the windows of a connection's streams, together, may exceed
	// streamWindow.
	extraMost = 4 << 20

	// scarceWindow is the window of a stream while the loop holds too much, and the stream's
	// connection more than its share.
	scarceWindow = 16 << 10
)

// intake is the receiving side of a connection's flow control.
type intake struct {
	path      http2.Path
	window    http2.ReceiveWindow // of the connection
	least     int                 // the least size of window
	heldMost  int                 // how many bytes may be held and yet be given back to window
	held      int                 // bytes in the streams' chains
	owed      int                 // bytes of these that were not given back to window
	memory    int                 // bytes of the chains' buffers
	extra     int                 // by how much all streams' windows together exceed streamWindow
	prev, nxt *http2Link          // in the worker's list of links that hold something
}

// init makes the windows those of a connection that has just begun.
func (i *intake) init(least, heldMost int) {
	i.path.Init(streamWindow, mostStreamWindow)
	i.window = http2.NewReceiveWindow(http2.ConnectionWindow)
	i.least, i.heldMost = least, heldMost
}

// announceWindow appends the WINDOW_UPDATE that gives the connection's window its first size.
func (l *http2Link) announceWindow(dst []byte) []byte {
	return http2.AppendWindowUpdate(dst, 0, l.intake.window.Grow(uint32(l.intake.least)))
}

// windowSize returns the size that the connection's window is to have.
func (l *http2Link) windowSize() int {
	if l.w.waiting.scarce() {
		return l.intake.least
	}
	return max(l.intake.least, windowsAtOnce*l.intake.path.Size())
}

// passOver gives n bytes, which are not held, back to the connection's window.
func (l *http2Link) passOver(n int) {
	if by := l.intake.window.ReleaseTo(l.windowSize(), n); by > 0 {
		l.wrote(http2.AppendWindowUpdate(l.room(32), 0, by))
	}
}

// hold notes that the streams' chains have more bytes of content and of memory; both may be
// negative.
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

// passed notes n bytes of content that were taken at once. If there are many, it sends a PING to
// measure the path.
func (l *http2Link) passed(n int) {
	if l.intake.path.Passed(n, l.w.loop.Now()) && !l.dead {
		l.wrote(http2.AppendPing(l.room(32), false, l.intake.path.Mark()))
	}
}

// answered deals with the acknowledgement of a PING.
func (l *http2Link) answered(f *http2.Frame) {
	if !l.intake.path.Answered([8]byte(f.Payload), l.w.loop.Now()) {
		return
	}
	if by := l.intake.window.Grow(uint32(l.windowSize())); by > 0 {
		l.wrote(http2.AppendWindowUpdate(l.room(32), 0, by))
	}
}

// taken gives n bytes of content that were taken back to the stream's window. atOnce says that they
// have just come, and were not held.
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

// release gives n bytes back to the stream's window, and changes its size if need be.
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

// windowSize returns the size that the stream's window, which now has the size old, is to have.
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
