package http2

// SendWindow is how many bytes of data a stream, or the connection, may still send (RFC 9113,
// section 6.9). It is below 0 where the peer's INITIAL_WINDOW_SIZE shrank after data was sent. A
// stream's begins with that setting, a connection's with ConnectionWindow.
type SendWindow int32

// ConnectionWindow is what every connection's windows begin with, in bytes.
const ConnectionWindow = initialWindow

// Available is how many bytes may be sent now.
func (w SendWindow) Available() int { return max(int(w), 0) }

// Take notes that n bytes are sent, at most Available.
func (w *SendWindow) Take(n int) { *w -= SendWindow(n) }

// Add takes a WINDOW_UPDATE: by is 1 to 2^31-1. WindowOverflow is the error of whom the window
// belongs to, the stream or the connection.
func (w *SendWindow) Add(by uint32) Reason { return w.move(int64(by)) }

// Shift takes a change of the peer's INITIAL_WINDOW_SIZE: see Change.Window. Only windows of
// streams move. WindowOverflow is an error of the connection here (RFC 9113, section 6.9.2).
func (w *SendWindow) Shift(by int32) Reason { return w.move(int64(by)) }

func (w *SendWindow) move(by int64) Reason {
	n := int64(*w) + by
	if n > maxWindow {
		return WindowOverflow
	}
	*w = SendWindow(n)
	return OK
}

// ReceiveWindow is how many bytes of data the peer may still send, and how many it has sent that
// went on but were not announced again yet. What is in between is held by us. It is 12 bytes. The
// zero value lets nothing in.
type ReceiveWindow struct {
	left    int32 // what the peer may still send
	pending int32 // what went on and was not announced
	size    int32 // left, pending and what is held, together
}

// NewReceiveWindow is a window of size bytes, 0 to 2^31-1: of a stream, the INITIAL_WINDOW_SIZE
// that we announced; of a connection, ConnectionWindow, which Grow may enlarge.
func NewReceiveWindow(size uint32) ReceiveWindow {
	return ReceiveWindow{left: int32(size), size: int32(size)}
}

// Left is how many bytes the peer may still send.
func (w *ReceiveWindow) Left() int { return int(w.left) }

// Held is how many bytes have come and have not been released.
func (w *ReceiveWindow) Held() int { return int(w.size - w.left - w.pending) }

// Consume notes n bytes that came: Frame.Length of Data, with its padding. WindowExceeded is the
// error of whom the window belongs to.
func (w *ReceiveWindow) Consume(n int) Reason {
	if n > int(w.left) {
		return WindowExceeded
	}
	w.left -= int32(n)
	return OK
}

// Release notes that n of the bytes held went on. It returns how much to announce by WINDOW_UPDATE
// now, mostly 0: one of half the window for what would be many small ones. Of a window that is held
// for the most part it is half of the rest, or the peer would wait for ever.
func (w *ReceiveWindow) Release(n int) (announce uint32) {
	w.pending += int32(n)
	if w.pending == 0 || w.pending < w.left {
		return 0
	}
	return w.announce()
}

// ReleaseTo is Release of a window that is to have size bytes, 1 to 2^31-1, and has more: what goes
// on is not announced as long as it has. It never grows.
func (w *ReceiveWindow) ReleaseTo(size, n int) (announce uint32) {
	w.pending += int32(n)
	if over := min(w.pending, w.size-int32(size)); over > 0 {
		w.pending -= over
		w.size -= over
	}
	return w.Release(0)
}

// Size is how many bytes the window has in all: what the peer may still send, and what it has sent
// that was not announced again.
func (w *ReceiveWindow) Size() int { return int(w.size) }

// Grow enlarges the window to size bytes, up to 2^31-1, and returns how much to announce now. A
// window that is as large already stays as it is.
func (w *ReceiveWindow) Grow(size uint32) (announce uint32) {
	if size <= uint32(w.size) {
		return 0
	}
	w.pending += int32(size) - w.size
	w.size = int32(size)
	return w.announce()
}

func (w *ReceiveWindow) announce() uint32 {
	n := w.pending
	w.left += n
	w.pending = 0
	return uint32(n)
}
