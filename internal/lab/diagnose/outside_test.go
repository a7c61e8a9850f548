package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// stuck is a service whose processors have room, and whose goodput is the same beyond its line as
// at it: it serves five requests at a time, each for 5 ms.
var stuck = append([]string{"over goodput 1010"}, idleService...)

const servesHTTP = " < main.handle < net/http.(*conn).serve"

func TestWhereRequestsWaitIsNamedFromWellKnownPlaces(t *testing.T) {
	for stack, want := range map[string]string{
		"runtime.selectgo < net/http.(*Transport).getConn < net/http.(*Transport).roundTrip < " +
			"net/http.(*Client).Do": "HTTP client's pool",
		"runtime.selectgo < database/sql.(*DB).conn < database/sql.(*DB).query": "database/sql's pool",
		"runtime.selectgo < golang.org/x/sync/semaphore.(*Weighted).Acquire":    "a semaphore",
		"runtime.chansend1 < golang.org/x/sync/errgroup.(*Group).Go":            "errgroup with a limit",
		"runtime.selectgo < golang.org/x/time/rate.(*Limiter).WaitN":            "a rate limiter",
		"sync.runtime_notifyListWait < sync.(*Cond).Wait":                       "a condition",
		"runtime.semacquire1 < internal/sync.(*Mutex).lockSlow < " +
			"sync.(*Mutex).Lock": "a lock",
		"runtime.chanrecv < runtime.chanrecv1": "something from a channel",
		"runtime.selectgo < github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn < " +
			"github.com/redis/go-redis/v9.(*Client).Process": "the Redis client's pool",
		"runtime.semacquire1 < github.com/jackc/puddle/v2.(*Pool).Acquire < " +
			"github.com/jackc/pgx/v5/pgxpool.(*Pool).Acquire": "pgx's pool",
		"runtime.selectgo < github.com/go-redsync/redsync/v4.(*Mutex).lockContext < " +
			"github.com/go-redsync/redsync/v4.(*Mutex).Lock": "a lock that other processes share",
		"runtime.selectgo < github.com/failsafe-go/failsafe-go/bulkhead.(*bulkhead[...])." +
			"AcquirePermit": "a place in a bulkhead",
		"runtime.selectgo < github.com/cenkalti/backoff/v4.doRetryNotify[...]": "a back-off",
		// A module of a host that does not put an owner's name before it.
		"runtime.selectgo < google.golang.org/grpc/internal/transport.(*http2Client).NewStream < " +
			"google.golang.org/grpc.(*csAttempt).newStream < google.golang.org/grpc.(*ClientConn).Invoke": "a stream of the gRPC connection",
	} {
		lines := append([]string{
			"over profile goroutine count 50 runtime.gopark < " + stack + servesHTTP,
			"over profile goroutine count 5 runtime.gopark < time.Sleep < main.call" + servesHTTP,
		}, stuck...)
		d := diagnosed(t, lines...)
		f := d.found("concurrency-limited")
		if f == nil {
			t.Errorf("%s: found %v, held back %+v", stack, names(d), d.HeldBack)
			continue
		}
		if !strings.Contains(f.Claim, want) || !strings.Contains(f.Claim, "5 requests are inside") ||
			len(f.Where) != 1 || f.Where[0].Function != "main.handle" || len(f.Advice) == 0 {
			t.Errorf("%s: %q in %+v", stack, f.Claim, f.Where)
		}
	}
}

// Some requests miss the objectives long before all places are taken.
func TestAQueueIsNamedThatEndsMoreRequestsBeyondTheLine(t *testing.T) {
	lines := append([]string{
		"over profile goroutine count 50 runtime.gopark < runtime.selectgo < " +
			"golang.org/x/sync/semaphore.(*Weighted).Acquire" + servesHTTP,
		"over profile goroutine count 7 runtime.gopark < time.Sleep < main.call" + servesHTTP,
	}, stuck...)
	f := diagnosed(t, append(lines, "over goodput 1500", "over service 40ms")...).
		found("concurrency-limited")
	if f == nil || !f.says("main.handle for a semaphore") {
		t.Errorf("found %+v", f)
	}
}

// Goroutines in a system call are not parked.
func TestGoroutinesThatStandInASystemCallAreAQueueToo(t *testing.T) {
	for stack, want := range map[string]string{
		"syscall.Syscall < syscall.Flock":                                     "a lock on a file",
		"internal/runtime/syscall.Syscall6 < syscall.Fsync < os.(*File).Sync": "to reach the disk",
	} {
		f := diagnosed(t, append([]string{
			"over profile goroutine count 50 " + stack + servesHTTP,
			"over profile goroutine count 5 runtime.gopark < time.Sleep < main.call" + servesHTTP,
		}, stuck...)...).found("concurrency-limited")
		if f == nil || !strings.Contains(f.Claim, want) || f.Where[0].Function != "main.handle" {
			t.Errorf("%s: %+v", stack, f)
		}
	}
}

func TestWhoSleepsBetweenLooksAtALockIsInLineAndWhoWorksIsNot(t *testing.T) {
	sleeps := func(inside int) *Finding {
		return diagnosed(t, append([]string{
			"over profile goroutine count 50 runtime.gopark < time.Sleep < main.acquire" + servesHTTP,
			fmt.Sprintf("over profile goroutine count %d main.work%s", inside, servesHTTP),
		}, stuck...)...).found("concurrency-limited")
	}
	if f := sleeps(5); f == nil || !strings.Contains(f.Claim, "main.acquire for a time to pass") {
		t.Errorf("they look again and again: %+v", f)
	}
	if f := sleeps(40); f != nil && strings.Contains(f.Claim, "main.acquire") {
		t.Errorf("it is their work: %+v", f)
	}
}

func TestALockIsOneQueueWhicheverFunctionsTakeIt(t *testing.T) {
	var lines []string
	for _, function := range []string{"main.list", "main.add", "main.remove"} {
		lines = append(lines, "over profile goroutine count 20 runtime.gopark < "+
			"sync.(*Mutex).Lock < "+function+servesHTTP)
	}
	lines = append(lines, "over profile goroutine count 5 main.work"+servesHTTP)
	f := diagnosed(t, append(lines, stuck...)...).found("concurrency-limited")
	if f == nil || !strings.Contains(f.Claim, "5 requests are inside") || len(f.Where) != 3 {
		t.Errorf("%+v", f)
	}
}

func TestWhoWaitsForATimeoutHandlersGoroutineIsNotCountedAsWell(t *testing.T) {
	f := diagnosed(t, append([]string{
		"over profile goroutine count 55 runtime.gopark < runtime.selectgo < " +
			"net/http.(*timeoutHandler).ServeHTTP < main.traced < net/http.(*conn).serve",
		"over profile goroutine count 50 runtime.gopark < runtime.chansend1 < main.price < " +
			"net/http.(*timeoutHandler).ServeHTTP.func1",
		"over profile goroutine count 5 runtime.gopark < time.Sleep < main.call < " +
			"net/http.(*timeoutHandler).ServeHTTP.func1",
	}, stuck...)...).found("concurrency-limited")
	if f == nil || !strings.Contains(f.Claim, "in main.price for a place in a channel") {
		t.Errorf("%+v", f)
	}
}

func TestRequestsThatWaitForWhatAsksOthersAreNotLimitedHere(t *testing.T) {
	lines := append([]string{
		"at-line service 20ms",
		"over profile goroutine count 50 runtime.gopark < runtime.selectgo" + servesHTTP,
		"over profile goroutine count 50 runtime.gopark < net/http.(*persistConn).roundTrip < " +
			"main.ask.func1",
	}, stuck...)
	d := diagnosed(t, lines...)
	if d.found("concurrency-limited") != nil || d.found("slow-dependency") == nil {
		t.Errorf("found %v", names(d))
	}
}

func TestThoseThatWaitWhateverTheLoadIsAreNotAQueue(t *testing.T) {
	idle := " profile goroutine count 40 runtime.gopark < runtime.chanrecv1" + servesHTTP
	d := diagnosed(t, append([]string{"half" + idle, "over" + idle}, stuck...)...)
	if f := d.found("concurrency-limited"); f == nil || f.says("main.handle") {
		t.Errorf("they stand in line, and not there: %+v", f)
	}
}

func TestAPoolIsSeenFromOutsideByItsConnections(t *testing.T) {
	pool := "target.outgoing.to.192.0.2.7:5432 = "
	d := diagnosed(t, append([]string{
		"all target.outgoing.established = 5", "all " + pool + "5",
	}, stuck...)...)
	f := d.found("concurrency-limited")
	if f == nil || !strings.Contains(f.Claim, "5 connections to 192.0.2.7:5432") {
		t.Fatalf("found %v", names(d))
	}
	// Workers that each have a queue are not all busy yet when requests miss the objectives.
	several := []string{
		"all target.outgoing.established = 5", "all " + pool + "5",
	}
	d = diagnosed(t, slices.Concat(several, stuck, []string{"over goodput 1280"})...)
	if d.found("concurrency-limited") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// A store that computes for long has no time for further connections.
	d = diagnosed(t, append([]string{
		"all target.outgoing.established = 5", "all " + pool + "5",
		"all behind.cpu_seconds.192.0.2.7:5432/redis-server += .2",
		"at-line behind.cpu_seconds.192.0.2.7:5432/redis-server += 1.1",
		"over behind.cpu_seconds.192.0.2.7:5432/redis-server += .4",
	}, stuck...)...)
	if d.found("concurrency-limited") != nil {
		t.Errorf("found %v", names(d))
	}
	// Several processes with few places each miss the objectives while the others have places, and
	// have them all taken for a moment again and again.
	unshared := slices.Concat([]string{
		"all target.outgoing.established = 5", "all " + pool + "5",
	}, stuck, []string{"at-line service 7ms", "over service 8ms"})
	moments := []string{"at-line peak 30", "over peak 40"}
	for claimed, lines := range map[bool][]string{
		true: slices.Concat(unshared, moments), false: unshared,
	} {
		d = diagnosed(t, lines...)
		if (d.found("concurrency-limited") != nil) != claimed {
			t.Errorf("claimed: %v, found %v, held back %+v", claimed, names(d), d.HeldBack)
		}
	}
	d = diagnosed(t, slices.Concat(unshared, moments, []string{
		"all behind.cpu_seconds.192.0.2.7:5432/redis-server += .2",
	})...)
	if d.found("concurrency-limited") != nil {
		t.Errorf("a store that takes commands one after the other: found %v", names(d))
	}
	// Several processes keep idle connections beside those that are taken when many wait.
	uneven := []string{
		"all target.outgoing.established = 8", "at-line " + pool + "8", "over " + pool + "6",
	}
	d = diagnosed(t, slices.Concat(uneven, stuck)...)
	if f = d.found("concurrency-limited"); f == nil ||
		!strings.Contains(f.Claim, "6 connections to 192.0.2.7:5432 (usually PostgreSQL), however many") {
		t.Errorf("found %+v, held back %+v", f, d.HeldBack)
	}
	// If the service has many connections to another address, requests may wait there.
	d = diagnosed(t, slices.Concat(uneven, stuck, []string{
		"at-line target.outgoing.to.192.0.2.8:80 = 12", "over target.outgoing.to.192.0.2.8:80 = 40",
	})...)
	if f = d.found("concurrency-limited"); f != nil && strings.Contains(f.Claim, "192.0.2.7") {
		t.Errorf("found %+v", f)
	}
	// A connection for each request is not a pool: the dependency is slow.
	d = diagnosed(t, append([]string{
		"all target.outgoing.established = 5", "at-line " + pool + "12", "over " + pool + "60",
		"at-line service 12ms",
	}, stuck...)...)
	if d.found("concurrency-limited") != nil || d.found("slow-dependency") == nil {
		t.Errorf("found %v", names(d))
	}
	// Connections that are hardly used are not what requests wait for.
	d = diagnosed(t, append([]string{
		"all target.outgoing.established = 40", "all " + pool + "40",
	}, stuck...)...)
	if d.found("concurrency-limited") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestADatabaseThatIsSlowIsTheLimitAndNotThePoolForIt(t *testing.T) {
	waits := []string{
		"over profile goroutine count 60 runtime.gopark < runtime.selectgo < database/sql.(*DB).conn" +
			servesHTTP,
		"over profile goroutine count 5 runtime.gopark < internal/poll.(*FD).Read < " +
			"main.query" + servesHTTP,
	}
	d := diagnosed(t, slices.Concat(stuck, waits)...)
	if d.found("concurrency-limited") == nil {
		t.Fatalf("each holds one as long as when it is alone: found %v, held back %+v", names(d), d.HeldBack)
	}
	slow := []string{"all service 1ms", "half service 1ms", "at-line service 12ms"}
	d = diagnosed(t, slices.Concat(stuck, waits, slow)...)
	if d.found("concurrency-limited") != nil || d.found("slow-dependency") == nil {
		t.Errorf("far longer: found %v, held back %+v", names(d), d.HeldBack)
	}
	// More places would only wait for the processors that the database uses.
	busy := []string{
		"all target.outgoing.established = 5", "all target.outgoing.to.127.0.0.1:5432 = 5",
		"all " + postgres + " += .4", "at-line " + postgres + " += 1.1", "over " + postgres + " += 1.1",
		"at-line host.cpu.busy_seconds += 1.5", "over host.cpu.busy_seconds += 1.6",
	}
	d = diagnosed(t, slices.Concat(stuck, busy)...)
	if d.found("concurrency-limited") != nil || d.found("slow-dependency") == nil {
		t.Errorf("busy: found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestFewPlacesSetTheLineAndNotConnectionsThatAreClosed(t *testing.T) {
	closed := []string{"at-line connections 1000", "all listener.connections.time_wait = 4000"}
	// Where a request computes for little of the time that it takes, to make a connection is not what
	// they wait for.
	for cost, rank := range map[string]Rank{"1": Binding, ".2": Cost} {
		d := diagnosed(t, slices.Concat(stuck, closed, []string{
			"all service 1200us", "half service 1200us", "at-line service 2ms",
			"at-line target.cpu.seconds += " + cost,
		})...)
		if f := d.found("client-connections-closed"); f == nil || f.Rank != rank {
			t.Errorf("%s s: found %v, held back %+v", cost, names(d), d.HeldBack)
		}
	}
	d := diagnosed(t, slices.Concat(stuck, closed, []string{
		"all target.outgoing.established = 5", "all target.outgoing.to.192.0.2.7:5432 = 5",
	})...)
	f := d.found("client-connections-closed")
	if names(d)[0] != "concurrency-limited" || f == nil || f.Rank != Cost {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestFewPlacesOverflowTheAcceptQueueToo(t *testing.T) {
	lines := append([]string{
		"all host.tcp.listen_overflows += 0", "over host.tcp.listen_overflows += 40",
	}, stuck...)
	if f := diagnosed(t, lines...).found("accept-queue-overflow"); f == nil || f.Rank != Binding {
		t.Errorf("nothing else is known: %+v", f)
	}
	lines = append(lines, "all target.outgoing.established = 5",
		"all target.outgoing.to.192.0.2.7:5432 = 5")
	d := diagnosed(t, lines...)
	f := d.found("accept-queue-overflow")
	if f == nil || f.Rank != Risk || names(d)[0] != "concurrency-limited" {
		t.Errorf("found %v, %+v", names(d), f)
	}
}

func TestConnectionsThatWereNotSampledInAStepAreKnownFromTheOthers(t *testing.T) {
	// Sockets are counted once a second or less often, so short steps may have no such sample.
	lines := append([]string{
		"at-line target.outgoing.established = 5", "at-line target.outgoing.to.192.0.2.7:5432 = 5",
	}, stuck...)
	f := diagnosed(t, lines...).found("concurrency-limited")
	if f == nil || !strings.Contains(f.Claim, "5 connections to 192.0.2.7:5432") {
		t.Errorf("%+v", f)
	}
}

func TestClientsThatAreTurnedAwayMeanThatConnectionsAreBounded(t *testing.T) {
	lines := append([]string{
		"at-line connections 4000", "all listener.connections.time_wait = 4000",
		"all listener.clients.time_wait = 100", "all listener.connections.established = 20",
		"all listener.queue = 0",
	}, stuck...)
	d := diagnosed(t, lines...)
	f := d.found("concurrency-limited")
	if f == nil || !f.says("20.0 connections to clients") || d.found("client-connections-closed") != nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// A service that answers one request on each connection has another defect.
	d = diagnosed(t, append(lines, "at-line connections 1000")...)
	if d.found("concurrency-limited") != nil && d.found("concurrency-limited").says("turns clients away") ||
		d.found("client-connections-closed") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// Clients that close first were not turned away.
	d = diagnosed(t, append(lines, "all listener.clients.time_wait = 4000")...)
	if f := d.found("concurrency-limited"); f != nil && f.says("turns clients away") {
		t.Errorf("found %+v", f)
	}
}

// The p99 misses its objective before the service's few workers are all busy.
func TestFewWorkersEndMoreBeyondTheLineThanAtIt(t *testing.T) {
	lines := append([]string{"all target.outgoing.established = 1"}, stuck...)
	for goodput, found := range map[string]bool{"1300": true, "1700": false} {
		d := diagnosed(t, append(lines, "over goodput "+goodput, "station 6")...)
		if (d.found("concurrency-limited") != nil) != found {
			t.Errorf("%s beyond the line: found %v, held back %+v", goodput, names(d), d.HeldBack)
		}
	}
}

func TestThreadsThatHoldThePlacesAreSeenFromOutside(t *testing.T) {
	lines := append([]string{
		"all target.outgoing.established = 0", "all target.threads = 9",
		"half" + at + "svc;disk;pread64;folio_wait_bit = 2", "at-line" + at + "svc;disk;pread64;folio_wait_bit = 5",
		"over" + at + "svc;disk;pread64;folio_wait_bit = 5",
	}, stuck...)
	f := diagnosed(t, lines...).found("concurrency-limited")
	if f == nil || !strings.Contains(f.Claim, `5.00 threads "svc" wait for a disk`) {
		t.Errorf("%+v", f)
	}
}

func TestAFittedStationIsBelievedOnABusyMachineWhenTheOverloadHasAsManyInside(t *testing.T) {
	lines := []string{
		"over goodput 1010", "all target.cpu.seconds += .2", "all host.cpu.busy_seconds += 1.95",
		"all target.outgoing.established = 1",
	}
	for station, found := range map[string]bool{"station 5": true, "station 9": false, "": false} {
		d := diagnosed(t, append([]string{station}, lines...)...)
		if (d.found("concurrency-limited") != nil) != found {
			t.Errorf("%q: found %v, held back %+v", station, names(d), d.HeldBack)
		}
	}
	// If requests compute nothing, all that is known is that they are slow together.
	d := diagnosed(t, append(lines, "station 5", "before target.cpu.seconds += 1.2")...)
	if d.found("concurrency-limited") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestABusyMachineDoesNotHideAQueueWhosePlacesAreFull(t *testing.T) {
	queue := []string{
		"over goodput 1010", "all target.cpu.seconds += .2", "all host.cpu.busy_seconds += 1.95",
		"over profile goroutine count 40 runtime.gopark < runtime.chansend1" + servesHTTP,
	}
	inside := "over profile goroutine count %d runtime.gopark < time.Sleep < main.work" + servesHTTP
	d := diagnosed(t, append(queue, fmt.Sprintf(inside, 5))...)
	if d.found("concurrency-limited") == nil || d.First.What != "concurrency-limited" {
		t.Errorf("found %v, bottleneck %+v", names(d), d.First)
	}
	d = diagnosed(t, append(queue, fmt.Sprintf(inside, 5), "all service 2ms", "at-line service 12ms",
		"over service 60ms", "over profile goroutine count 4 main.work"+servesHTTP)...)
	if d.found("concurrency-limited") != nil || d.First.What != hostProcessor {
		t.Errorf("nine are inside for 9 ms each, of which 2 ms are their own: %+v", d.First)
	}
}

func TestOneHotThreadIsToldInTheRuntimesOwnWords(t *testing.T) {
	lines := []string{
		"all host.cores = 4", "all service 30ms", "at-line service 60ms", "over service 90ms",
		"half target.cpu.seconds += .6", "at-line target.cpu.seconds += 1.2",
		"over target.cpu.seconds += 1.25", "all target.threads.full = 0",
		"all target.threads.hottest_share = .5", "at-line target.threads.hottest_share = .93",
		"over target.threads.hottest_share = .97", "over target.threads.full = 1",
	}
	for runtime, want := range map[string]string{
		measure.RuntimeNode:    "node:cluster",
		measure.RuntimeCPython: "the GIL",
		measure.RuntimeGo:      "GOMAXPROCS",
		measure.RuntimeJVM:     "synchronized",
		measure.RuntimeRuby:    "GVL",
		"":                     "worker threads or processes",
	} {
		run := newFixture(t, append(strings.Split(base, "\n"), lines...)...).open(t)
		run.Manifest.Machine.TargetRuntime, run.Manifest.Machine.TargetPID = runtime, 77
		f := Run(run).found("single-threaded")
		if f == nil {
			t.Fatalf("%s: not found", runtime)
		}
		said := ""
		for _, a := range f.Advice {
			said += a.Text + " " + a.Command + "\n"
		}
		if !strings.Contains(said, want) || strings.Contains(said, "PID ") {
			t.Errorf("%q is advised:\n%s", runtime, said)
		}
	}
}

func TestAServiceThatUsesAllItsProcessorsIsNotSingleThreaded(t *testing.T) {
	full := []string{"all target.threads.full = 2", "all target.threads.hottest_share = .95"}
	both := append(full, "at-line target.cpu.seconds += 1.9", "over target.cpu.seconds += 1.95")
	if d := diagnosed(t, both...); d.found("single-threaded") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestGoroutinesThatStayAreFoundByTheirProfiles(t *testing.T) {
	conns := " profile goroutine count 3000 runtime.gopark < net/http.(*conn).serve"
	lines := []string{
		"half profile goroutine count 300 runtime.gopark < runtime.chansend1 < " +
			"main.notify.func1 < main.handle.gowrap1",
		"after" + conns, "at-line" + conns,
	}
	left := "after profile goroutine count %d runtime.gopark < runtime.chansend1 < " +
		"main.notify.func1 < main.handle.gowrap1"
	f := diagnosed(t, append(lines, fmt.Sprintf(left, 9000))...).found("leak")
	if f == nil || !strings.Contains(f.Claim, "9,000 after the survey where there were 300") ||
		len(f.Where) != 1 || f.Where[0].Function != "main.notify.func1" {
		t.Errorf("%+v", f)
	}
	// Goroutines of connections come and go with clients.
	if f := diagnosed(t, append(lines, fmt.Sprintf(left, 310))...).found("leak"); f != nil {
		t.Errorf("%s", f.Claim)
	}
}

func TestMemoryIsALeakWhenItGrowsWithTheRequests(t *testing.T) {
	const name = " target.memory.rss_bytes = "
	growing := []string{
		"before" + name + "50000000 to 66000000", "half" + name + "66000000 to 86000000",
		"at-line" + name + "86000000 to 126000000", "over" + name + "126000000 to 182000000",
		"after" + name + "182000000 to 198000000",
	}
	f := diagnosed(t, growing...).found("leak")
	if f == nil || !strings.Contains(f.Claim, "Bytes of memory stay behind") ||
		!strings.Contains(f.Evidence[1].Value, "for each request") {
		t.Errorf("%+v", f)
	}
	// A heap that the overload made larger stays so, and is not a leak.
	once := []string{
		"before" + name + "50000000 to 50100000", "half" + name + "51000000 to 51000000",
		"at-line" + name + "60000000 to 80000000", "over" + name + "80000000 to 190000000",
		"after" + name + "190000000 to 189000000",
	}
	if f := diagnosed(t, once...).found("leak"); f != nil {
		t.Errorf("%s", f.Claim)
	}
}

func TestHonestWorkIsShownAndIsNotAFinding(t *testing.T) {
	hot := func(stage, stack string, share float64) []string {
		return []string{
			fmt.Sprintf("%s profile cpu nanoseconds %.0f %s%s", stage, share*4e9, stack, servesHTTP),
			fmt.Sprintf("%s profile cpu nanoseconds %.0f net/http.(*conn).serve", stage,
				(1-share)*4e9),
		}
	}
	for name, c := range map[string]struct {
		lines []string
		says  string // empty: no finding
	}{
		"the same at half of the line": {
			append(hot("half", "main.sum", .55), hot("at-line", "main.sum", .57)...), "",
		},
		"a hash of the library":   {hot("at-line", "crypto/sha256.block < main.sum", .57), ""},
		"a walk that is not deep": {hot("at-line", "main.walk < main.walk < main.walk", .57), ""},
		"it tries again and again": {
			hot("at-line", strings.Repeat("main.walk < ", 11)+"main.walk", .57), "calls of itself",
		},
		"it costs more with more load": {
			append(hot("half", "main.scan", .2), hot("at-line", "main.scan", .6)...), "3 times",
		},
		"a compiled expression": {
			hot("at-line", "regexp/syntax.Parse < regexp.compile < main.slug", .57), "compiled each time",
		},
		"a comparison that reads what it compares": {
			hot("at-line", "time.parse < time.Parse < main.at < main.list.func1 < "+
				"slices.insertionSortCmpFunc < slices.SortFunc < main.list", .57), "again for each comparison",
		},
		"a comparison that compares": {
			hot("at-line", "cmpbody < strings.Compare < main.list.func1 < slices.SortFunc < main.list", .57), "",
		},
		"a comparison that looks for what it compares": {
			append(hot("at-line", "main.list.func1 < sort.insertionSort < sort.Slice < main.list", .57),
				"at-line profile cpu nanoseconds 400000000 sort.insertionSort < sort.Slice < main.list"), "comparisons of a sort",
		},
		"a comparison as long as the sort": {
			append(hot("at-line", "main.list.func1 < sort.insertionSort < sort.Slice < main.list", .65),
				"at-line profile cpu nanoseconds 800000000 sort.insertionSort < sort.Slice < main.list"),
			"sorted as a whole",
		},
		"a comparison of one's own": {
			hot("at-line", "main.distance < main.list.func1 < sort.Slice < main.list", .57), "",
		},
		"what is read once, and then sorted": {
			hot("at-line", "strconv.ParseInt < main.read < main.list", .57), "",
		},
	} {
		d := diagnosed(t, c.lines...)
		f := d.found("cpu-hot-function")
		if c.says != "" {
			if f == nil || !strings.Contains(f.Claim, c.says) {
				t.Errorf("%s: %+v; held back %+v", name, f, d.HeldBack)
			}
			continue
		}
		if len(d.Findings) != 0 || len(d.First.Where) == 0 || d.First.Where[0].Share < .5 ||
			len(d.HeldBack) == 0 || !strings.Contains(d.HeldBack[0].Why, "where the time goes") {
			t.Errorf("%s: found %v, where %+v, held back %+v", name, names(d), d.First.Where,
				d.HeldBack)
		}
	}
}

func TestACostSaysWhatItsPlaceCalls(t *testing.T) {
	d := diagnosed(t,
		"at-line profile cpu nanoseconds 2500000000 reflect.Value.Len < reflect.deepValueEqual < "+
			"reflect.DeepEqual < main.same"+servesHTTP,
		"at-line profile cpu nanoseconds 500000000 reflect.TypeOf < main.same"+servesHTTP,
		"at-line profile cpu nanoseconds 1000000000 net/http.(*conn).serve")
	f := d.found("reflection-hot")
	if f == nil || !slices.ContainsFunc(f.Evidence, func(e Fact) bool {
		return e.What == "what main.same calls" && e.Value == "reflect.DeepEqual, 83.3 % of that"
	}) {
		t.Errorf("found %v: %+v", names(d), f)
	}
}
