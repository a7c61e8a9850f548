package http2

// Path estimates how large a window the path to a peer needs: its bandwidth-delay product. When
// enough content has arrived, a PING is sent. What arrives until its acknowledgement is what the
// path carries in a round trip. If that is most of the present window, at a higher rate than ever
// before, the window was the limit, and it grows. grpc-go does the same
// (internal/transport/bdp_estimator.go).
//
// Only content that is passed on at once counts: content that has to wait would also wait with a
// larger window. A path that carries little content is not measured. After an idle time, the
// estimate begins again. A Path belongs to one loop.
type Path struct {
	least, most int32
	size        int32 // the present window
	asked       bool  // a PING is under way
	number      uint32
	count       int64 // content since the PING, or since the last acknowledgement
	wait        int64 // how much content comes before the next PING
	askedAt     int64 // nanoseconds
	last        int64 // when content last arrived, nanoseconds
	best        int64 // the highest rate that a PING has shown, in bytes a second
}

const (
	// pathWaitMost is the most content between two PINGs, in bytes, for windows that need not grow.
	pathWaitMost = 1 << 20

	// pathIdle is for how many nanoseconds a path may carry no content before its estimate begins
	// again.
	pathIdle = int64(10e9)
)

// Init sets the window to least bytes. It may grow to most bytes.
func (p *Path) Init(least, most int) {
	*p = Path{least: int32(least), most: int32(most), size: int32(least), wait: int64(least)}
}

// Size is how many bytes a window should have.
func (p *Path) Size() int { return int(p.size) }

// Passed records n bytes of content that arrived and were passed on at once. now is in nanoseconds
// of a monotonic clock. ask says that the caller must send a PING with Mark at once.
func (p *Path) Passed(n int, now int64) (ask bool) {
	if now-p.last > pathIdle {
		p.size, p.wait, p.count, p.best, p.asked = p.least, int64(p.least), 0, 0, false
	}
	p.last = now
	p.count += int64(n)
	if p.asked || p.count < p.wait || p.size == p.most {
		return false
	}
	p.asked, p.askedAt, p.count = true, now, 0
	p.number++
	return true
}

// Mark is the payload of the last PING that Passed has asked for.
func (p *Path) Mark() [8]byte {
	n := p.number
	return [8]byte{'p', 'a', 't', 'h', byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// Answered records the acknowledgement of a PING, and reports whether the window has grown.
func (p *Path) Answered(mark [8]byte, now int64) (grew bool) {
	if !p.asked || mark != p.Mark() {
		return false
	}
	n := min(p.count, 1<<32)
	rate := n * 1e9 / max(1, now-p.askedAt)
	p.asked, p.count = false, 0
	// If the last, larger window has not raised the rate, an even larger one would only fill
	// queues.
	faster := rate > p.best+p.best/8
	p.best = max(p.best, rate)
	if 3*n < 2*int64(p.size) || !faster {
		p.wait = min(2*p.wait, pathWaitMost)
		return false
	}
	p.size = int32(min(int64(p.most), 2*n))
	p.wait = int64(p.size) // that much content arrives until the peer uses the new window
	return true
}
