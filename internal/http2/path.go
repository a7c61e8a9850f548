package http2

// Path estimates how large a window the path to a peer needs: its bandwidth-delay product. When much
// content has come, a PING is sent; what comes until its acknowledgement is what the path carries in
// a round trip. Where that is most of the present window, and comes faster than ever, the window was
// what held the peer back, and it grows. grpc-go does the same (internal/transport/bdp_estimator.go).
//
// Only content that went on at once counts: what waits would wait in a larger window too. A path on
// which little comes is not asked. One that was idle begins again. It belongs to one loop.
type Path struct {
	least, most int32
	size        int32 // the present window
	asked       bool  // a PING is under way
	number      uint32
	count       int64 // content since the PING, or since the last one was over
	wait        int64 // how much content comes before the next PING
	askedAt     int64 // nanoseconds
	last        int64 // when content came last, likewise
	best        int64 // the most bytes a second that any PING has shown
}

const (
	// pathWaitMost is the most content between two PINGs, of windows that need not grow.
	pathWaitMost = 1 << 20

	// pathIdle is how long a path may be without content until it begins again, in nanoseconds.
	pathIdle = int64(10e9)
)

// Init makes windows of least bytes the present ones; they grow to most.
func (p *Path) Init(least, most int) {
	*p = Path{least: int32(least), most: int32(most), size: int32(least), wait: int64(least)}
}

// Size is how many bytes a window is to have.
func (p *Path) Size() int { return int(p.size) }

// Passed notes n bytes of content that came and went on at once. now is nanoseconds of a clock that
// never goes back. ask says that a PING with Mark is to be sent, and at once.
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

// Mark is the payload of the PING that was asked for last.
func (p *Path) Mark() [8]byte {
	n := p.number
	return [8]byte{'p', 'a', 't', 'h', byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// Answered notes the acknowledgement of a PING, and says whether the window is larger now.
func (p *Path) Answered(mark [8]byte, now int64) (grew bool) {
	if !p.asked || mark != p.Mark() {
		return false
	}
	n := min(p.count, 1<<32)
	rate := n * 1e9 / max(1, now-p.askedAt)
	p.asked, p.count = false, 0
	// Where a larger window has brought no more bytes a second, another would only fill queues.
	faster := rate > p.best+p.best/8
	p.best = max(p.best, rate)
	if 3*n < 2*int64(p.size) || !faster {
		p.wait = min(2*p.wait, pathWaitMost)
		return false
	}
	p.size = int32(min(int64(p.most), 2*n))
	p.wait = int64(p.size) // as much comes until the peer uses it
	return true
}
