package load_test

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
)

// Answers that arrive after the load is over do not show the throughput: the target had extra time.
func TestWhatEndsInTheDrainIsNotGoodput(t *testing.T) {
	for name, duration := range map[string]time.Duration{"duration": 20 * time.Millisecond, "schedule": 0} {
		t.Run(name, func(t *testing.T) {
			var once sync.Once
			release := make(chan struct{})
			s := serve(t, func(i int64, r *http.Request, c net.Conn) bool {
				if i >= 3 {
					once.Do(func() { time.AfterFunc(100*time.Millisecond, func() { close(release) }) })
					<-release
				}
				return send(okAnswer)(i, r, c)
			})
			o := get(t, s.url())
			o.Connections, o.Duration, o.Arrivals = 2, duration, every(20, ms)
			totals, _ := run(t, o)
			want(t, totals, map[measure.Kind]uint64{measure.OK: 20})
			// On a busy machine the first answers may themselves be late, and so arrive in the
			// drain.
			if totals.Drained < 17 || totals.Drained > 20 {
				t.Errorf("%d requests ended in the drain, and 17 were answered after the last was due", totals.Drained)
			}
			if most := 3 / .019; totals.Goodput() > most {
				t.Errorf("a goodput of %v/s: only 3 were answered while load was offered, so %v/s is the most", totals.Goodput(), most)
			}
		})
	}
}
