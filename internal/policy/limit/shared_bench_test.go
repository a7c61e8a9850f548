package limit

import (
	"fmt"
	"testing"

	"plimsoll/internal/redis"
	"plimsoll/internal/redis/redistest"
)

// BenchmarkShared is a decision with Redis on this machine, by so many askers at a time.
func BenchmarkShared(b *testing.B) {
	address := redistest.Start(b).Address()
	for _, mode := range []string{"exact", "leased"} {
		for _, askers := range []int{1, 16, 64} {
			b.Run(fmt.Sprint(mode, "/", askers), func(b *testing.B) {
				l := daily(TokenBucket, 1_000_000_000)
				l.Shared = &Shared{Leased: mode == "leased"}
				if l.Shared.Leased {
					l.Shared.Batch = 1000
				}
				prefix := fmt.Sprint(mode, askers, b.N)
				n := newNode(b, redis.Options{Addresses: []string{address}, Prefix: prefix}, l)
				n.ask(0, "")
				b.ReportAllocs()
				b.SetParallelism(askers)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if a := n.ask(0, ""); a.status != 200 {
							b.Errorf("a request got %d", a.status)
						}
					}
				})
				s := n.store.Status()
				b.ReportMetric(float64(s.Answered)/float64(b.N), "calls/op")
			})
		}
	}
}
