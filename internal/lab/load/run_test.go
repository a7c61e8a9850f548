package load_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
)

func TestAClosedLoopSendsAsFastAsAnswersCome(t *testing.T) {
	s := serve(t, send(okAnswer))
	o := get(t, s.url())
	const length = time.Second
	o.Duration, o.Loops = length, 2
	var totals *measure.Totals
	var windows []*measure.Window
	inOneOf(t, 5, "each connection sends a second request", func() bool {
		s.requests.Store(0)
		totals, windows = run(t, o)
		return totals.Ended[measure.OK] >= 10
	})
	if totals.Ended.Failed() != 0 {
		t.Fatalf("%v %v", totals.Ended, totals.Examples)
	}
	if got := uint64(s.requests.Load()); got != totals.Sent || totals.Due != totals.Sent {
		t.Errorf("the server saw %d requests, the totals say %d sent and %d due", got, totals.Sent, totals.Due)
	}
	if totals.Peak > 4 || totals.ConnectionsMade != 4 || totals.Reused != totals.Sent-4 {
		t.Errorf("peak %d, %d connections, %d reused", totals.Peak, totals.ConnectionsMade, totals.Reused)
	}
	if totals.Length != int64(length) {
		t.Errorf("the length is %d", totals.Length)
	}
	if len(windows) > 20 {
		t.Errorf("%d windows of 50 ms in a second", len(windows))
	}
	if totals.Generator.CPU <= 0 || totals.Generator.Busy <= 0 || totals.Generator.Busy > 1 || totals.Generator.Loops != 2 {
		t.Errorf("%+v", totals.Generator)
	}
}

func TestAnOpenLoopSendsEachArrivalOnce(t *testing.T) {
	s := serve(t, send(okAnswer))
	for _, loops := range []int{1, 2} {
		o := get(t, s.url())
		o.Loops, o.Arrivals, o.Window = loops, every(200, ms), 20*time.Millisecond
		totals, windows := run(t, o)
		want(t, totals, map[measure.Kind]uint64{measure.OK: 200})
		if totals.Length != 199*ms {
			t.Errorf("from the first to the last arrival are 199 ms, not %d ns", totals.Length)
		}
		for _, w := range windows {
			if first, last := (w.Start+ms-1)/ms, min((w.End()+ms-1)/ms, 200); int64(w.Due) != last-first {
				t.Errorf("in the window from %d to %d ns %d were due, want %d", w.Start, w.End(), w.Due, last-first)
			}
		}
	}
}

// The windows' ends are independent of the requests, so the number in flight at those ends must be
// the mean number in flight: by Little's law, the rate of answers times the time of each. A window
// must not miss an answer that came just after its end. A loop that the machine delays catches up
// with windows that are over, and what it sends then counts in them, so only one of several runs
// must agree. A window that sees too little does so in all of them.
func TestTheEndsOfWindowsSeeWhatIsInFlightAtAnyTime(t *testing.T) {
	s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
		<-time.After(5 * time.Millisecond)
		_, err := io.WriteString(c, okAnswer)
		return err == nil
	})
	o := get(t, s.url())
	o.Arrivals = func(loop, loops int) pace.Schedule {
		return pace.Hold(150, 2*int64(time.Second)).Schedule(pace.Poisson, loop, loops, 7)
	}
	o.Window = 5 * time.Millisecond
	inOneOf(t, 20, "the windows' ends agree with Little's law", func() bool {
		totals, windows := run(t, o)
		seen, length := 0.0, 0.0
		for _, w := range windows[:len(windows)-1] {
			seen += float64(w.InFlight) * float64(w.Length)
			length += float64(w.Length)
		}
		law := totals.Goodput() * totals.Service.Mean() / 1e9
		mean := seen / length
		t.Logf("at the ends of %d windows %.2f requests were in flight on average, by Little's law %.2f", len(windows), mean, law)
		return mean >= .85*law && mean <= 1.15*law
	})
}

func TestDurationEndsAScheduleThatGoesOn(t *testing.T) {
	s := serve(t, send(okAnswer))
	o := get(t, s.url())
	o.Arrivals, o.Duration = every(1_000_000, ms), 100*time.Millisecond
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 100})
	if totals.Length != 100*ms {
		t.Errorf("the length is %d", totals.Length)
	}
}

func TestAScheduleAsLongAsTheDurationHasItsLength(t *testing.T) {
	s := serve(t, send(okAnswer))
	o := get(t, s.url())
	o.Arrivals, o.Duration = every(50, 2*ms), 100*time.Millisecond
	if totals, _ := run(t, o); totals.Length != 100*ms {
		t.Errorf("50 arrivals, 2 ms apart, are 100 ms of load, not %d ns", totals.Length)
	}
	o.Arrivals, o.Duration = every(50, 2*ms), time.Hour
	if totals, _ := run(t, o); totals.Length != 98*ms {
		t.Errorf("a schedule that ends after 98 ms has the length %d", totals.Length)
	}
}

// trickle is a schedule that knows an arrival only some time after it was asked for it.
type trickle struct{ asked, left int }

func (s *trickle) Next() (int64, bool) {
	if s.asked++; s.asked%3 != 0 || s.left == 0 {
		return 0, false
	}
	s.left--
	return 0, true
}

func (s *trickle) Pending() bool { return s.left > 0 }

func TestAStreamedScheduleIsAskedAgain(t *testing.T) {
	s := serve(t, send(okAnswer))
	o := get(t, s.url())
	o.Arrivals = func(int, int) pace.Schedule { return &trickle{left: 20} }
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 20})
}

func TestAnEmptyScheduleIsAnEmptyRun(t *testing.T) {
	s := serve(t, send(okAnswer))
	o := get(t, s.url())
	o.Loops, o.Arrivals = 2, every(0, ms)
	totals, _ := run(t, o)
	want(t, totals, nil)
}

func TestArrivalsWithoutAFreeConnectionWaitAndTheirTimeRuns(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(n int64, _ *http.Request, c net.Conn) bool {
		if n == 1 {
			time.AfterFunc(100*time.Millisecond, func() { close(release) })
			<-release
		}
		return send(okAnswer)(n, nil, c)
	})
	o := get(t, s.url())
	o.Connections, o.Arrivals = 1, every(10, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 10})
	if least := totals.Response.Quantile(0); least < 85*ms {
		t.Errorf("an arrival waited %d ns for its answer; the connection was busy for 100 ms, and the last was due after 9", least)
	}
	if totals.Lag.Count() != 1 {
		t.Errorf("one arrival found a free connection, and %d send lags were counted", totals.Lag.Count())
	}
	// One of the requests waited for the server, and a busy machine may delay the answer to
	// another.
	if slow := totals.Service.Over(90 * ms); slow > 5 {
		t.Errorf("%v service times over 90 ms: the wait for a connection is not a service", slow)
	}
}

func TestWhatWaitsTooLongOrBehindTooManyIsNotSent(t *testing.T) {
	s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
		_, err := c.Read(make([]byte, 1)) // until the generator closes
		return err == nil
	})
	o := get(t, s.url())
	o.Connections, o.Arrivals, o.Backlog, o.Timeout = 1, every(50, ms/10), 10, time.Second
	// The first request times out on the connection, and those of the backlog at about the same
	// time; one of them may still be sent. If the machine stalls that long, a run sends nothing.
	inOneOf(t, 5, "the first request is sent", func() bool {
		totals, _ := run(t, o)
		got := totals.Ended
		if got[measure.NotSent] < 39 || got[measure.NotSent]+got[measure.Timeout] != 50 {
			t.Errorf("%v", got)
		}
		return got[measure.Timeout] >= 1
	})
}

func TestCancellingCutsOffWhatIsUnderWay(t *testing.T) {
	for name, arrivals := range map[string]func(int, int) pace.Schedule{"closed": nil, "open": every(1_000_000, ms)} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := serve(t, func(n int64, _ *http.Request, c net.Conn) bool {
				if n == 4 {
					cancel()
				}
				_, err := c.Read(make([]byte, 1))
				return err == nil
			})
			o := get(t, s.url())
			o.Arrivals = arrivals
			totals, _, err := runIn(ctx, t, o)
			if err != nil {
				t.Fatal(err)
			}
			if n := totals.Ended[measure.Unfinished]; n < 4 || n != totals.Due {
				t.Errorf("%v", totals.Ended)
			}
			if totals.Length <= 0 || totals.Length > int64(patience) {
				t.Errorf("the length is %d", totals.Length)
			}
		})
	}
}

func TestATargetThatDiesAndComesBack(t *testing.T) {
	var dead atomic.Bool
	died := make(chan struct{})
	listener := listen(t)
	first := serveOn(t, listener, func(n int64, r *http.Request, c net.Conn) bool {
		if n == 20 && dead.CompareAndSwap(false, true) {
			listener.Close()
			close(died)
		}
		return !dead.Load() && send(okAnswer)(n, r, c)
	})
	o := get(t, first.url())
	going := &until{}
	o.Arrivals = going.arrivals
	var second *server
	refused := 0 // windows up to the last one in which the target was gone
	seen := 0
	o.Observe = func(w *measure.Window) { // the target returns once that is noticed
		seen++
		if w.Ended[measure.ConnectFailed] == 0 {
			return
		}
		if refused = seen; second == nil {
			<-died
			listener, err := net.Listen("tcp", first.address)
			if err != nil {
				t.Error(err)
				going.over.Store(true)
				return
			}
			second = serveOn(t, listener, func(n int64, r *http.Request, c net.Conn) bool {
				going.over.CompareAndSwap(false, n == 100)
				return send(okAnswer)(n, r, c)
			})
		}
	}
	totals, windows := run(t, o)
	if second == nil || second.requests.Load() == 0 {
		t.Fatal("the target that came back was not found")
	}
	if totals.Ended[measure.ConnectFailed] == 0 || totals.Ended[measure.OK] < 100 {
		t.Errorf("%v %v", totals.Ended, totals.Examples)
	}
	well := uint64(0)
	for _, w := range windows[refused:] {
		well += w.Ended[measure.OK]
	}
	if well == 0 {
		t.Errorf("at the end the target answers again, and %d windows show none of it", len(windows)-refused)
	}
	contains(t, totals.Examples["connect_failed"], "refused")
}

func TestATargetThatDiesInAClosedLoopIsSeen(t *testing.T) {
	listener := listen(t)
	s := serveOn(t, listener, func(n int64, r *http.Request, c net.Conn) bool {
		if n >= 20 {
			listener.Close()
			return false
		}
		return send(okAnswer)(n, r, c)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o := get(t, s.url())
	failed := uint64(0)
	o.Observe = func(w *measure.Window) {
		if failed += w.Ended[measure.ConnectFailed]; failed >= 4 {
			cancel()
		}
	}
	totals, _, err := runIn(ctx, t, o)
	if err != nil {
		t.Fatal(err)
	}
	if totals.Ended[measure.ConnectFailed] < 4 || totals.Ended[measure.OK] != 19 {
		t.Errorf("%v", totals.Ended)
	}
}

func TestNoConnectionAtAllIsAnErrorAndNoResult(t *testing.T) {
	listener := listen(t)
	listener.Close()
	o := get(t, "http://"+listener.Addr().String())
	o.Connections, o.Loops = 100, 2
	totals, err := load.Run(t.Context(), o)
	if err == nil || totals != nil {
		t.Fatal("a run without a connection has results")
	}
	contains(t, err.Error(), "connection refused")
	contains(t, err.Error(), listener.Addr().String())
}

func TestCancellingWhileConnectingIsAnError(t *testing.T) {
	s := serve(t, send(okAnswer))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := get(t, s.url())
	// Whether the connections or the cancelling were first is chance; either way Run returns.
	if totals, err := load.Run(ctx, o); (totals == nil) == (err == nil) {
		t.Errorf("%v %v", totals, err)
	}
}

func TestASlowObserverMakesLongerWindowsAndLosesNothing(t *testing.T) {
	const slow = 150 // milliseconds of requests during which Observe does not return
	var enough atomic.Int64
	var once sync.Once
	taken := make(chan struct{})
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		if least := enough.Load(); least > 0 && n >= least {
			once.Do(func() { close(taken) })
		}
		return send(okAnswer)(n, r, c)
	})
	o := get(t, s.url())
	going := &until{} // its n-th request is sent n milliseconds after the start, or later
	o.Arrivals, o.Window = going.arrivals, 10*time.Millisecond
	first := int64(0)
	o.Observe = func(w *measure.Window) {
		if first == 0 {
			first = w.End()
			enough.Store(first/ms + slow)
			<-taken
		}
		going.over.CompareAndSwap(false, w.Length >= 100*ms || w.Start > first+20*slow*ms)
	}
	totals, windows := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: totals.Due})
	longest := int64(0)
	for _, w := range windows[:len(windows)-1] {
		longest = max(longest, w.Length)
	}
	if longest < 100*ms {
		t.Errorf("nobody took windows for %d ms, and the longest is %d ns", slow, longest)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	s := serve(t, send(okAnswer))
	for text, spoil := range map[string]func(o *load.Options){
		"nothing to send": func(o *load.Options) { o.Script = nil },
		"no address":      func(o *load.Options) { o.Target.Addresses = nil },
		"negative":        func(o *load.Options) { o.Duration = -1 },
		"too many":        func(o *load.Options) { o.Connections = 1 << 30 },
	} {
		o := get(t, s.url())
		spoil(&o)
		_, err := load.Run(t.Context(), o)
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		contains(t, err.Error(), text)
	}
}

func TestConnectionsAreRenewedByCountAndByTime(t *testing.T) {
	s := serve(t, send(okAnswer))
	o := get(t, s.url())
	o.Arrivals, o.PerConnection = every(100, ms), 1
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 100})
	if totals.Reused != 0 || totals.ConnectionsMade < 100 {
		t.Errorf("%d requests used a connection again, %d were made", totals.Reused, totals.ConnectionsMade)
	}
	o.Arrivals, o.PerConnection, o.Lifetime = every(1000, ms), 0, 10*time.Millisecond
	totals, _ = run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 1000})
	if totals.ConnectionsMade < 12 || totals.Reused == 0 {
		t.Errorf("%d connections of 10 ms in a second, %d requests used one again", totals.ConnectionsMade, totals.Reused)
	}
}

func TestAConnectionThatIsClosedWhileIdleIsRemadeSilently(t *testing.T) {
	arrivals, more := letting(1, 20)
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		io.WriteString(c, okAnswer)
		c.(*net.TCPConn).CloseWrite() // the answer did not say so
		io.Copy(io.Discard, c)        // until the generator has noticed
		more()
		return false
	})
	o := get(t, s.url())
	o.Arrivals = arrivals
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 20})
	if totals.ConnectionsMade < 20 {
		t.Errorf("%d connections", totals.ConnectionsMade)
	}
}
