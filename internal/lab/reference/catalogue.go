package reference

import "plimsoll/internal/lab/queue"

const (
	ms     = int64(1e6)
	second = 1000 * ms
)

func pool(workers int, takes Draw) queue.Station {
	return queue.Station{Workers: workers, Service: takes, Room: -1}
}

// alone is the only route of most kinds.
var alone = []Route{{"/", 1}}

const (
	usualSLO = "p99<50ms,errors<0.1%"
	// The caveats of a survey that are correct for some kinds.
	changes   = "changes"
	collapses = "collapses"
	always    = "whatever-the-load"
)

// Kinds are all kinds. TestLinesAreTrue checks their lines.
var Kinds = []Kind{
	{
		Name: "two routes of different cost", Line: 1566, SLO: usualSLO,
		Routes: []Route{{"/cheap", 9}, {"/expensive", 1}},
		New: Routes{Workers: 4, Takes: []Draw{
			queue.Exponential(1 * ms), queue.Exponential(12 * ms),
		}}.New,
	},
	{
		Name: "a small cache that warms", Line: 1906, SLO: usualSLO, Routes: alone,
		New: Cache{
			Workers: 4, Keys: 1000, Hit: queue.Exponential(2 * ms), Miss: queue.Exponential(12 * ms),
		}.New,
		Says: []string{changes},
	},
	{
		Name: "a large cache that warms", Line: 1713, SLO: usualSLO, Routes: alone,
		New: Cache{
			Workers: 4, Keys: 30_000, Hit: queue.Exponential(2 * ms), Miss: queue.Exponential(12 * ms),
		}.New,
		Says: []string{changes},
	},
	{
		Name: "a collector, 20 ms each 2 s", Line: 1877, SLO: usualSLO, Routes: alone,
		New: Collector{
			Station: pool(4, queue.Exponential(2*ms)), Every: 2 * second, For: 20 * ms,
		}.New,
	},
	{
		Name: "a pool that scales, 2 to 4", Line: 1237, SLO: usualSLO, Routes: alone,
		New: Autoscaled{
			Workers: 2, Most: 4, Takes: queue.Exponential(3 * ms), Period: 10 * second, Busy: .6,
		}.New,
		Says: []string{changes},
	},
	{
		Name: "a rate limiter, 1500/s", Line: 1482, SLO: usualSLO, Routes: alone,
		New: Limited{
			Station: pool(4, queue.Exponential(1*ms)), Rate: 1500, Burst: 100,
		}.New,
	},
	{
		Name: "slower with each that waits", Line: 1200, SLO: usualSLO, Routes: alone,
		New: Slowing{
			Workers: 4, Room: 400, Takes: queue.Exponential(2 * ms), Doubles: 50, Slowest: 3,
		}.New,
		Says: []string{collapses},
	},
	{
		Name: "1 % take 300 ms, p95", Line: 1935, SLO: "p95<50ms,errors<0.1%", Routes: alone,
		New: Delayed{Station: pool(4, queue.Exponential(2*ms)), Share: .01, For: 300 * ms}.New,
	},
	{
		Name: "1 % take 300 ms, p99", SLO: usualSLO, Routes: alone,
		New:  Delayed{Station: pool(4, queue.Exponential(2*ms)), Share: .01, For: 300 * ms}.New,
		Says: []string{always},
	},
	{
		Name: "held: two routes", Line: 1028, SLO: "p99<100ms,errors<0.1%", Held: true,
		Routes: []Route{{"/cheap", 7}, {"/expensive", 3}},
		New: Routes{Workers: 8, Takes: []Draw{
			queue.Constant(2 * ms), queue.Constant(20 * ms),
		}}.New,
	},
	{
		// Held back until it showed that the method took a cold service for one without a line.
		Name: "a cache whose misses are too slow", Line: 1500, SLO: usualSLO, Routes: alone,
		New: Cache{
			Workers: 8, Keys: 8000, Hit: queue.Exponential(5 * ms), Miss: queue.Exponential(20 * ms),
		}.New,
		Says: []string{changes},
	},
	{
		Name: "held: a collector, 40 ms each 3 s", Line: 1001, SLO: usualSLO, Routes: alone, Held: true,
		New: Collector{
			Station: pool(6, queue.Exponential(5*ms)), Every: 3 * second, For: 40 * ms,
		}.New,
	},
	{
		Name: "held: a pool, 3 to 6 each 15 s", Line: 1099, SLO: usualSLO, Routes: alone, Held: true,
		New: Autoscaled{
			Workers: 3, Most: 6, Takes: queue.Exponential(5 * ms), Period: 15 * second, Busy: .7,
		}.New,
		Says: []string{changes},
	},
	{
		Name: "held: a rate limiter, 700/s", Line: 689, SLO: "p99<100ms,errors<1%",
		Routes: alone, Held: true,
		New: Limited{Station: pool(8, queue.Exponential(5*ms)), Rate: 700, Burst: 30}.New,
	},
	{
		Name: "held: slower with each", Line: 1015, SLO: "p99<100ms,errors<0.1%", Routes: alone, Held: true,
		New: Slowing{
			Workers: 8, Room: 300, Takes: queue.Exponential(5 * ms), Doubles: 60, Slowest: 2,
		}.New,
		Says: []string{collapses},
	},
	{
		Name: "held: 2 % take 200 ms, p95", Line: 1465, SLO: "p95<50ms,errors<0.1%",
		Routes: alone, Held: true,
		New: Delayed{Station: pool(6, queue.Constant(4*ms)), Share: .02, For: 200 * ms}.New,
	},
	{
		Name: "held: 2 % take 200 ms, p98", SLO: "p98<50ms,errors<0.1%", Routes: alone, Held: true,
		New:  Delayed{Station: pool(6, queue.Constant(4*ms)), Share: .02, For: 200 * ms}.New,
		Says: []string{always},
	},
	// Added on 2026-11-29. The method was not changed because of them.
	{
		Name: "held: another cache", Line: 1897, SLO: "p99<80ms,errors<0.1%", Routes: alone, Held: true,
		New: Cache{
			Workers: 6, Keys: 5000, Hit: queue.Exponential(3 * ms), Miss: queue.Exponential(30 * ms),
		}.New,
		Says: []string{changes},
	},
	{
		Name: "held: a collector, 25 ms each 1 s", Line: 1507, SLO: usualSLO, Routes: alone, Held: true,
		New: Collector{
			Station: pool(5, queue.Exponential(3*ms)), Every: second, For: 25 * ms,
		}.New,
	},
	{
		Name: "held: a pool, 4 to 5 each 8 s", Line: 1152, SLO: usualSLO, Routes: alone, Held: true,
		New: Autoscaled{
			Workers: 4, Most: 5, Takes: queue.Exponential(4 * ms), Period: 8 * second, Busy: .6,
		}.New,
		Says: []string{changes},
	},
	{
		Name: "held: three routes", Line: 1704, SLO: "p99<60ms,errors<0.1%", Held: true,
		Routes: []Route{{"/cheap", 6}, {"/usual", 3}, {"/expensive", 1}},
		New: Routes{Workers: 6, Takes: []Draw{
			queue.Constant(1 * ms), queue.Exponential(4 * ms), queue.Constant(15 * ms),
		}}.New,
	},
	{
		Name: "held: 0.4 % take 150 ms", Line: 1399, SLO: usualSLO, Routes: alone, Held: true,
		New: Delayed{Station: pool(3, queue.Exponential(2*ms)), Share: .004, For: 150 * ms}.New,
	},
	{
		Name: "held: a rate limiter, 1100/s", Line: 1078, SLO: "p99<30ms,errors<0.5%",
		Routes: alone, Held: true,
		New: Limited{Station: pool(6, queue.Exponential(2*ms)), Rate: 1100, Burst: 40}.New,
	},
}
