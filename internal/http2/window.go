package http2

// SendWindow is how many bytes of data may still be sent on a stream, or on the connection (RFC
// 9113, section 6.9). It is negative if the peer's INITIAL_WINDOW_SIZE shrank after data was sent.
// The window of a stream begins with that setting, the window of a connection with
// ConnectionWindow.
type SendWindow int32

// ConnectionWindow is the initial size of a connection's windows, in bytes.
const ConnectionWindow = initialWindow

// Available is how many bytes may be sent now.
func (w SendWindow) Available() int { return max(int(w), 0) }

// Take records that n bytes are sent. n must be at most Available.
func (w *SendWindow) Take(n int) { *w -= SendWindow(n) }

// Add applies a WINDOW_UPDATE of by bytes, 1 to 2^31-1. WindowOverflow is an error of the stream or
// connection that the window belongs to.
func (w *SendWindow) Add(by uint32) Reason { return w.move(int64(by)) }

// Shift applies a change of the peer's INITIAL_WINDOW_SIZE: see Change.Window. It applies only to
// windows of streams. WindowOverflow is a connection error here (RFC 9113, section 6.9.2).
func (w *SendWindow) Shift(by int32) Reason { return w.move(int64(by)) }

func (w *SendWindow) move(by int64) Reason {
	n := int64(*w) + by
	if n > maxWindow {
		return WindowOverflow
	}
	*w = SendWindow(n)
	return OK
}

// ReceiveWindow counts how many bytes of data the peer may still send, and how many received bytes
// have been passed on but not yet announced again by WINDOW_UPDATE. The rest of the window is bytes
// that we hold. It takes 12 bytes of memory. The zero value admits nothing.
type ReceiveWindow struct {
	left    int32 // what the peer may still send
	pending int32 // passed on but not announced again
	size    int32 // left, pending and the bytes held, together
}

// NewReceiveWindow returns a window of size bytes, 0 to 2^31-1. For a stream, size is the
// INITIAL_WINDOW_SIZE that we announced; for a connection, it is ConnectionWindow, which Grow may
// enlarge.
func NewReceiveWindow(size uint32) ReceiveWindow {
	return ReceiveWindow{left: int32(size), size: int32(size)}
}

// Left is how many bytes the peer may still send.
func (w *ReceiveWindow) Left() int { return int(w.left) }

// Held is how many received bytes have not been released.
func (w *ReceiveWindow) Held() int { return int(w.size - w.left - w.pending) }

// Consume records n received bytes: Frame.Length of a Data frame, including its padding.
// WindowExceeded is an error of the stream or connection that the window belongs to.
func (w *ReceiveWindow) Consume(n int) Reason {
	if n > int(w.left) {
		return WindowExceeded
	}
	w.left -= int32(n)
	return OK
}

// Release records that n of the bytes held have been passed on. It returns how much to announce by
// WINDOW_UPDATE now. That is usually 0, so that one update of half the window replaces many small
// ones. If most of the window is held, it announces half of the rest, because otherwise the peer
// would wait for ever.
func (w *ReceiveWindow) Release(n int) (announce uint32) {
	w.pending += int32(n)
	if w.pending == 0 || w.pending < w.left {
		return 0
	}
	return w.announce()
}

// ReleaseTo is Release for a window that should shrink to size bytes, 1 to 2^31-1: while the window
// is larger, it does not announce the bytes passed on. The window never grows.
func (w *ReceiveWindow) ReleaseTo(size, n int) (announce uint32) {
	w.pending += int32(n)
	if over := min(w.pending, w.size-int32(size)); over > 0 {
		w.pending -= over
		w.size -= over
	}
	return w.Release(0)
}

// Size is the size of the window in bytes: what the peer may still send, plus what it has sent and
// we have not announced again.
func (w *ReceiveWindow) Size() int { return int(w.size) }

// Grow enlarges the window to size bytes, up to 2^31-1, and returns how much to announce now. A
// window that is already as large stays unchanged.
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
