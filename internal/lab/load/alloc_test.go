//go:build !race

package load_test

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
)

// plainServer answers every read with one answer, and allocates nothing meanwhile.
func plainServer(t *testing.T) string {
	return accept(t, func(_ int64, c net.Conn) {
		in, out := make([]byte, 4096), []byte(okAnswer)
		for {
			if _, err := c.Read(in); err != nil {
				return
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}).url()
}

// allocations returns the allocations of a run and the number of its requests.
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

// plainServer2 answers every HEADERS of HTTP/2 with one answer, and allocates nothing meanwhile.
func plainServer2(t *testing.T) string {
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	ack := []byte{0, 0, 0, 4, 1, 0, 0, 0, 0}
	answer := append([]byte{0, 0, 1, 1, 4, 0, 0, 0, 0, 0x88}, 0, 0, 2, 0, 1, 0, 0, 0, 0, 'o', 'k')
	return accept(t, func(_ int64, c net.Conn) {
		c.Write(settings)
		in, out := make([]byte, 64<<10), make([]byte, 0, 64<<10)
		have, at := 0, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		for {
			n, err := c.Read(in[have:])
			if err != nil {
				return
			}
			for have += n; at+9 <= have; {
				size := 9 + int(in[at])<<16 + int(in[at+1])<<8 + int(in[at+2])
				if at+size > have {
					break
				}
				switch kind, flags := in[at+3], in[at+4]; {
				case kind == 1:
					out = append(out, answer...)
					copy(out[len(out)-len(answer)+5:], in[at+5:at+9])
					copy(out[len(out)-len(answer)+15:], in[at+5:at+9])
				case kind == 4 && flags == 0:
					out = append(out, ack...)
				}
				at += size
			}
			have, at = copy(in, in[min(at, have):have]), max(at-have, 0)
			if _, err := c.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}).url()
}

// The extra allocations of a longer run are the cost of its requests; a window allocates a little.
func TestARequestDoesNotAlloc(t *testing.T) {
	one, two := plainServer(t), plainServer2(t)
	for name, n := range map[string]int{"closed": 0, "open": 1, "closed, HTTP/2": 0, "open, HTTP/2": 1} {
		t.Run(name, func(t *testing.T) {
			o := get(t, one)
			if strings.HasSuffix(name, "HTTP/2") {
				o = get(t, two)
				o.Streams = 10
			}
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
			inOneOf(t, 10, "a machine that does a thousand requests more in a second", func() bool {
				long, many := allocations(t, o)
				// A stream allocates when it is first used, and one that is late uses more of them.
				most := int64(200 + 3*o.Connections*o.Streams)
				if more := int64(long) - int64(short); more > most {
					t.Errorf("%d more requests made %d more allocations", many-few, more)
				}
				return many >= few+1000
			})
		})
	}
}
