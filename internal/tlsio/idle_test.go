//go:build !race

package tlsio_test

import (
	"crypto/tls"
	"runtime"
	"testing"

	"plimsoll/internal/tlsio"
)

// idleBytes is the heap that one of n idle server connections takes, after each has read upload
// bytes.
func idleBytes(t testing.TB, n, upload int, version uint16) (alloc, inuse int64) {
	s, loop := newSite(t), tlsio.NewLoop()
	client := s.capped(version)
	one := func() *tlsio.Conn {
		p := established(t, loop, true, s.server, client)
		p.far.Write(make([]byte, upload))
		if got, err := readAll(p.conn, 16384); len(got) != upload || err != error(again) {
			t.Fatal(len(got), err)
		}
		must(t, p.conn.Write(make([]byte, 200)))
		p.sock.rx, p.sock.tx = newQueue(), newQueue()
		return p.conn
	}
	for range 20 {
		one()
	}
	heap := func() runtime.MemStats {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m
	}
	conns := make([]*tlsio.Conn, n)
	before := heap()
	for i := range conns {
		conns[i] = one()
	}
	after := heap()
	runtime.KeepAlive(conns)
	return (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(n), (int64(after.HeapInuse) - int64(before.HeapInuse)) / int64(n)
}

func TestIdleConnectionFitsItsBudget(t *testing.T) {
	versions(t, func(t *testing.T, v uint16) {
		for _, upload := range []int{200, 50_000} {
			alloc, inuse := idleBytes(t, 200, upload, v)
			t.Logf("after %d bytes: %d bytes live, %d in use, for each connection", upload, alloc, inuse)
			if alloc > 12<<10 {
				t.Errorf("an idle connection that read %d bytes holds %d bytes, budget 12 KB", upload, alloc)
			}
		}
	})
}

func BenchmarkIdleMemory(b *testing.B) {
	for b.Loop() {
		alloc, inuse := idleBytes(b, 2000, 50_000, tls.VersionTLS13)
		b.ReportMetric(float64(alloc), "B-live/conn")
		b.ReportMetric(float64(inuse), "B-inuse/conn")
	}
}
