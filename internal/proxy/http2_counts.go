package proxy

import "plimsoll/internal/telemetry"

// streamCounts counts a loop's HTTP/2 connections of clients by their number of open streams. So
// the heaviest is known without looking at each connection, of which there may be a hundred
// thousand.
type streamCounts [maxStreams + 1]int32

// move notes that a connection has another number of open streams.
func (n *streamCounts) move(from, to int) {
	n[from]--
	n[to]++
}

// forget gives back what a connection holds when it ends, after its last stream is over.
func (h *http2Conn) forget() {
	h.c.w.streamCounts[h.open]--
	h.release()
}

// HTTP2 returns the numbers of HTTP/2 connections and streams of clients on this loop.
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
