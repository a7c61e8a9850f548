package proxy

import "plimsoll/internal/telemetry"

// streamCounts is how many clients' connections of HTTP/2 a loop has with each number of open
// streams. So the heaviest is known without a look at each connection, of which there may be a
// hundred thousand.
type streamCounts [maxStreams + 1]int32

// move notes that a connection has another number of open streams.
func (n *streamCounts) move(from, to int) {
	n[from]--
	n[to]++
}

// forget gives back what a connection has that ends, whose last stream is over.
func (h *http2Conn) forget() {
	h.c.w.streamCounts[h.open]--
	h.release()
}

// HTTP2 is what there is of HTTP/2 on this loop.
func (w *Worker) HTTP2() (now telemetry.HTTP2Now) {
	for streams, n := range w.streamCounts {
		if n == 0 {
			continue
		}
		now.Connections += int64(n)
		now.Streams += int64(streams) * int64(n)
		now.Heaviest = int64(streams)
	}
	return now
}
