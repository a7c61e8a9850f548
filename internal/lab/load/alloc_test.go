//go:build !race

package load_test

import (
	"runtime"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
)

// plainServer answers every read with one answer, and allocates nothing meanwhile.
func plainServer(t *testing.T) string {
	listener := listen(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in, out := make([]byte, 4096), []byte(okAnswer)
				for {
					if _, err := c.Read(in); err != nil {
						return
					}
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String() + "/"
}

// allocations are those of a run, and its requests.
func allocations(t *testing.T, o load.Options) (mallocs, requests uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	totals, err := load.Run(t.Context(), o)
	runtime.ReadMemStats(&after)
	if err != nil || totals.Ended.Failed() != 0 {
		t.Fatal(totals, err)
	}
	return after.Mallocs - before.Mallocs, totals.Due
}

// What a longer run allocates more than a shorter one is what its requests cost; a window costs a
// few.
func TestARequestDoesNotAlloc(t *testing.T) {
	url := plainServer(t)
	for name, n := range map[string]int{"closed": 0, "open": 1} {
		t.Run(name, func(t *testing.T) {
			o := get(t, url)
			o.Connections, o.Duration, o.Window, o.Timeout = 16, 100*time.Millisecond, time.Second, time.Minute
			if n > 0 {
				o.Arrivals = every(1000, ms/10)
			}
			allocations(t, o) // warms up
			short, few := allocations(t, o)
			o.Duration = time.Second
			if n > 0 {
				o.Arrivals = every(10000, ms/10)
			}
			long, many := allocations(t, o)
			if many < few+1000 {
				t.Fatalf("%d requests in a tenth of a second, %d in a second", few, many)
			}
			if more := int64(long) - int64(short); more > 200 {
				t.Errorf("%d more requests made %d more allocations", many-few, more)
			}
		})
	}
}
