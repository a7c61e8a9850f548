package survey

import (
	"fmt"

	"plimsoll/internal/lab/measure"
)

// breaker watches a step and reports when the target is broken. The step is then stopped, to take
// the load off a target that is down. It considers only the windows since the last healthy one.
type breaker struct {
	long            int64 // nanoseconds of silence that count as broken
	failed, total   uint64
	failing, silent int64 // nanoseconds so far
	unconnected     uint64
}

// see takes the next window and returns the reason to stop, or "" to go on.
func (b *breaker) see(w *measure.Window) string {
	ended := w.Ended.Total()
	if ended == 0 && w.InFlight+w.Waiting > 0 {
		b.silent += w.Length
	} else {
		b.silent = 0
	}
	if b.silent >= b.long {
		return fmt.Sprintf("the service broke: nothing was answered for %.1f s, "+
			"with %d requests sent and %d waiting",
			float64(b.silent)/float64(second), w.InFlight, w.Waiting)
	}
	if ended == 0 {
		return ""
	}
	if 2*w.Ended.Failed() <= ended {
		b.failed, b.total, b.failing, b.unconnected = 0, 0, 0, 0
		return ""
	}
	b.failed += w.Ended.Failed()
	b.unconnected += w.Ended[measure.ConnectFailed]
	b.total += ended
	b.failing += w.Length
	switch {
	case b.total < brokenLeast:
	case b.failing >= brokenFor:
		return fmt.Sprintf("the service broke: %d of %d requests failed in %.1f s",
			b.failed, b.total, float64(b.failing)/float64(second))
	case 2*b.unconnected > b.total && b.failing >= brokenFor/2:
		return fmt.Sprintf("the service broke: %d of %d connections failed in %.1f s",
			b.unconnected, b.total, float64(b.failing)/float64(second))
	}
	return ""
}
