package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"syscall"
	"time"

	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
	"plimsoll/internal/reactor"
)

const (
	// beatEvery is the interval of the signs of life from either side. After silence without any
	// message, the other side counts as gone: a lost connection does not report itself.
	beatEvery = time.Second
	silence   = 15 * time.Second
	// endPatience is how long a load may take to end after it was told to.
	endPatience = 5 * time.Second
)

// worker is the generator's side: it executes the frames that it receives.
type worker struct {
	wire   *wire
	inbox  chan frame
	heard  *time.Timer // fires if the other side has been silent for too long
	target load.Target
	script load.Script
	near   bool
	// greeted says that the other side has sent its greeting.
	greeted bool
	// for the current load; cancel is nil if there is none
	cancel context.CancelFunc
	starts chan int64
	over   chan struct{}
}

// frame is a received frame.
type frame struct {
	kind    kind
	content []byte
}

// Serve executes loads for the fleet at the other end of in and out. It returns when in ends,
// nothing has come for 15 s, ctx ends, or a message makes no sense. All but the first are errors. A
// load that is running then is cut off. sum is the hash of this program.
func Serve(ctx context.Context, in io.Reader, out io.Writer, sum string) error {
	w := &worker{wire: newWire(in, out), inbox: make(chan frame, 16), heard: time.NewTimer(silence)}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer w.heard.Stop()
	machine := probe.Machine()
	err := w.wire.send(kindHello, hello{
		Version:     protocolVersion,
		Sum:         sum,
		Host:        machine.Host,
		Cores:       runtime.GOMAXPROCS(0),
		Descriptors: descriptors(),
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.read(ctx) }()
	go w.beat(ctx)
	err = w.obey(ctx, ended)
	stop()
	w.end()
	return err
}

// descriptors is the number of files that this process may open.
func descriptors() uint64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return r.Max
}

// read receives frames until the input ends. It answers clock messages itself, at once.
func (w *worker) read(ctx context.Context) error {
	for {
		k, content, err := w.wire.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.heard.Reset(silence)
		if k == kindClock {
			if err := w.tellTime(content, reactor.Clock()); err != nil {
				return err
			}
			continue
		}
		select {
		case w.inbox <- frame{k, content}:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *worker) tellTime(content []byte, received int64) error {
	t, err := decode[trip](content)
	if err != nil {
		return err
	}
	t.Received, t.Wall, t.Sent = received, time.Now().UnixNano(), reactor.Clock()
	return w.wire.send(kindClock, t)
}

func (w *worker) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if w.wire.send(kindBeat, nil) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// obey executes the frames one after another.
func (w *worker) obey(ctx context.Context, ended <-chan error) error {
	for {
		select {
		case f := <-w.inbox:
			if err := w.do(ctx, f); err != nil {
				return err
			}
		case err := <-ended:
			return w.obeyRest(ctx, err)
		case <-w.heard.C:
			return fmt.Errorf("nothing was heard for %v", silence)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// obeyRest executes the frames that came before the end, and returns the reason for the end.
func (w *worker) obeyRest(ctx context.Context, why error) error {
	for {
		select {
		case f := <-w.inbox:
			if err := w.do(ctx, f); err != nil {
				return err
			}
		default:
			return why
		}
	}
}

// do executes one frame. Its errors end the connection; errors of a load are reported to the fleet.
func (w *worker) do(ctx context.Context, f frame) error {
	if w.greeted != (f.kind != kindHello) {
		return errors.New("a greeting comes first, and once")
	}
	w.greeted = true
	switch f.kind {
	case kindHello:
		h, err := decode[hello](f.content)
		if err == nil {
			err = h.check()
		}
		if err != nil {
			return errors.Join(err, w.wire.send(kindFailed, failed{err.Error()}))
		}
	case kindWork:
		return w.prepare(ctx, f.content)
	case kindLoad:
		a, err := decode[assignment](f.content)
		if err != nil {
			return err
		}
		return w.begin(ctx, a)
	case kindStart:
		s, err := decode[start](f.content)
		if err != nil {
			return err
		}
		select {
		case w.starts <- s.At:
		default: // no load is waiting for it
		}
	case kindStop:
		if w.cancel != nil {
			w.cancel()
		}
	case kindCount:
		n, err := probe.Connections(w.target.IPs()...)
		if err != nil {
			return w.wire.send(kindFailed, failed{err.Error()})
		}
		return w.wire.send(kindCounted, counted{n})
	case kindBeat:
	default:
		return fmt.Errorf("a frame of kind %q does not go to a generator", f.kind)
	}
	return nil
}

// prepare reads the work.
func (w *worker) prepare(ctx context.Context, content []byte) error {
	work, err := decode[Work](content)
	if err != nil {
		return err
	}
	target, err := work.target(ctx)
	var script load.Script
	if err == nil {
		script, err = work.script(target)
	}
	if err != nil {
		return w.wire.send(kindFailed, failed{err.Error()})
	}
	w.target, w.script, w.near = target, script, harness.Local(&target)
	return w.wire.send(kindPrepared, prepared{
		Loops: harness.Loops(0, runtime.GOMAXPROCS(0), w.near),
		Near:  w.near,
	})
}

// begin starts a load. The load ends when it is done, at a stop, or with ctx.
func (w *worker) begin(ctx context.Context, a *assignment) error {
	if w.script == nil {
		return errors.New("a load comes after the work")
	}
	if w.over != nil {
		select {
		case <-w.over:
		default:
			return errors.New("a load comes when the one before it is over")
		}
	}
	if a.Window <= 0 || a.Timeout <= 0 || a.Loops < 1 || a.All < 1 || a.Connections < 1 {
		return errors.New("a load without connections, loops, time-out or windows")
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.starts, w.over = make(chan int64, 1), make(chan struct{})
	go w.load(ctx, a, w.starts, w.over)
	return nil
}

// end cuts off the current load and waits until it has ended.
func (w *worker) end() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-w.over:
	case <-patience.C:
	}
}

// load does one load and reports the result.
func (w *worker) load(ctx context.Context, a *assignment, starts <-chan int64, over chan<- struct{}) {
	defer close(over)
	done, err := w.measure(ctx, a, starts)
	if err != nil {
		// If the send fails, reading ends too.
		_ = w.wire.send(kindFailed, failed{err.Error()})
		return
	}
	_ = w.wire.send(kindOutcome, done)
}

func (w *worker) measure(
	ctx context.Context, a *assignment, starts <-chan int64,
) (*finished, error) {
	release, err := harness.Reserve(a.Loops*((a.Connections+a.All-1)/a.All), a.Loops)
	if err != nil {
		return nil, err
	}
	defer release()
	done := new(finished)
	var used usage
	var telling sync.Mutex
	var untold error
	o := a.options(w)
	o.Start = func(ctx context.Context) (int64, error) {
		if err := w.wire.send(kindReady, nil); err != nil {
			return 0, err
		}
		select {
		case at := <-starts:
			if at > farthest || at < reactor.Clock()-int64(time.Minute) {
				return 0, errors.New("the load is to start at a time that cannot be meant")
			}
			done.Late = max(0, reactor.Clock()-at)
			used = usageNow()
			return at, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	o.Observe = func(win *measure.Window) {
		telling.Lock()
		defer telling.Unlock()
		if untold == nil {
			untold = w.wire.send(kindWindow, win)
		}
	}
	outcome, err := load.Measure(ctx, o)
	if err != nil {
		return nil, err
	}
	done.Outcome, done.HostBusy = *outcome, used.shareUntil(usageNow())
	done.Invalid = outcome.Totals(&o).Generator.Invalid
	return done, nil
}

// options converts an assignment to load.Options.
func (a *assignment) options(w *worker) load.Options {
	return load.Options{
		Target:        w.target,
		Script:        w.script,
		Offered:       a.Offered,
		Duration:      a.Duration,
		Connections:   a.Connections,
		Streams:       a.Streams,
		Loops:         a.Loops,
		First:         a.First,
		All:           a.All,
		Timeout:       a.Timeout,
		Backlog:       a.Backlog,
		PerConnection: a.PerConnection,
		Lifetime:      a.Lifetime,
		Window:        a.Window,
		Lateness:      a.Lateness,
		Spare:         w.near,
		Seed:          a.Seed,
	}
}

// usage is the processor time used by the whole machine, in seconds, at a time.
type usage struct {
	at          time.Time
	busy, cores float64
}

func usageNow() usage {
	s := probe.New(probe.Options{}).Sample(0)
	return usage{time.Now(), s.Values[measure.HostCPU], s.Values[measure.HostCores]}
}

// shareUntil is the share of the processors used between two moments; 0 if unknown.
func (u usage) shareUntil(v usage) float64 {
	seconds := v.at.Sub(u.at).Seconds()
	if u.cores <= 0 || seconds <= 0 {
		return 0
	}
	return min(max((v.busy-u.busy)/(u.cores*seconds), 0), 1)
}
