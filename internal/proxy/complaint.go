package proxy

import (
	"time"

	"plimsoll/internal/telemetry"
)

// complaint limits the warnings about something that may go wrong thousands of times a second. It
// is logged the first time, and then at most once in complaintEvery nanoseconds, with the number of
// times, so that a log cannot be flooded from outside.
type complaint struct {
	times int   // since the last line
	next  int64 // when there may be another line
}

const complaintEvery = int64(10 * time.Second)

// due adds more to the number of times. If a line may be logged, it returns how many times the line
// stands for, else 0.
func (c *complaint) due(more int, now int64) (times int) {
	c.times += more
	if c.times == 0 || now < c.next {
		return 0
	}
	times, c.times, c.next = c.times, 0, now+complaintEvery
	return times
}

// shed counts a connection that was closed at once because the process has no descriptor for it.
func (w *Worker) shed() {
	w.shard.RefusedConnections[telemetry.OutOfDescriptors]++
	w.complainOfDescriptors(1)
}

func (w *Worker) complainOfDescriptors(more int) {
	if n := w.noDescriptors.due(more, w.loop.Now()); n > 0 {
		// The writer of a log may block, so a loop must not call it.
		go w.logger.Warn("connections were closed at once: no descriptor is left for more "+
			"clients; raise the hard limit (LimitNOFILE= of systemd) or add a machine",
			"loop", w.loop.ID, "connections", n, "clients_at_most", w.shared.MaxClients.Load())
	}
}

// complainOfDials warns that a connection to a target could not even be begun.
func (w *Worker) complainOfDials(err error) {
	if n := w.noDials.due(1, w.loop.Now()); n > 0 {
		go w.logger.Warn("requests were refused: this machine has no descriptor, port or memory "+
			"left for connections to targets; raise the limits (LimitNOFILE= of systemd, "+
			"net.ipv4.ip_local_port_range)",
			"loop", w.loop.ID, "requests", n, "error", err)
	}
}

// complainOfWatches warns that the kernel does not watch a client's connection, which was closed at
// once.
func (w *Worker) complainOfWatches(err error) {
	if n := w.noWatches.due(1, w.loop.Now()); n > 0 {
		go w.logger.Error("connections were closed at once: the kernel does not watch them; "+
			"raise fs.epoll.max_user_watches or add memory",
			"loop", w.loop.ID, "connections", n, "error", err)
	}
}

// tlsFailed warns that TLS with a target failed, and why.
func (s *upstreamConn) tlsFailed(err error) {
	f, w := s.flow, s.w
	if s.http2 != nil && len(s.http2.waiting) > 0 {
		f = s.http2.waiting[0].flow
	}
	if f == nil {
		return // no request waits for the connection any more
	}
	if n := f.view.tlsTrouble[f.Upstream].due(1, w.loop.Now()); n > 0 {
		go w.logger.Warn("TLS with a target failed", "upstream", s.upstream.Name(), "target",
			s.target, "loop", w.loop.ID, "times", n, "error", err)
	}
}
