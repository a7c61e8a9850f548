package experiment

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/config/strict"
	"plimsoll/internal/freeport"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/probe"
	"plimsoll/internal/lab/scenario"
	"plimsoll/internal/lab/scrape"
)

// one is one run: the service is started with a value, loaded, measured and ended.
type one struct {
	doing     *doing
	value     Value
	run       Run
	variables map[string]string
	mark      string // identifies the run's processes, in their environment
	service   *process
	sampler   *probe.Sampler
	raw       raw
	last      float64 // when memory was last read, in seconds of the load's clock
}

// errEnded says that the service ended by itself.
var errEnded = errors.New("the service ended while it was loaded")

// do does the run. Errors go to run.Failed. The service has ended when do returns.
func (o *one) do(ctx context.Context) {
	err := o.start(ctx)
	if err == nil {
		err = o.measure(ctx)
	}
	if o.service != nil {
		o.tell("stopping")
		o.service.stop(o.doing.experiment.Grace)
		endStrays(o.mark)
		if err != nil {
			o.run.Output = o.service.out.text()
		}
	}
	if err != nil {
		o.run.Failed = err.Error()
		if output := outputOf(err); output != "" {
			o.run.Output = output
		}
		return
	}
	figures, missing := o.raw.figures(o.doing.experiment.Figures)
	o.run.Figures, o.run.Missing = figures, append(o.run.Missing, missing...)
	o.run.Totals = o.raw.load
	o.run.Before, o.run.After = o.raw.before, o.raw.after
}

func (o *one) tell(doing string) {
	o.doing.tell(Event{Round: o.run.Round, Turn: o.run.Turn, Value: o.value.Name, Doing: doing})
}

// start prepares the settings of the value, starts the service and waits until it is ready.
func (o *one) start(ctx context.Context) error {
	e := o.doing.experiment
	o.tell("starting")
	ports, err := freeport.Find(2)
	if err != nil {
		return err
	}
	o.variables, o.mark = o.doing.variables(o.value), rand.Text()
	o.variables[varPort], o.variables[varAdminPort] = strconv.Itoa(ports[0]), strconv.Itoa(ports[1])
	if err := o.doing.writeConfig(e.config, o.variables); err != nil {
		return err
	}
	for _, s := range e.sysctl {
		if err := setKernel(s.name, fill(s.text, o.variables)); err != nil {
			return err
		}
	}
	if o.service, err = launch(fillAll(e.start, o.variables), e.dir, o.environment(),
		fill(e.ready.line, o.variables), nil); err != nil {
		return err
	}
	return o.awaitReady(ctx)
}

// environment is what the service and the command get in addition to this process's environment.
func (o *one) environment() (env []setting) {
	for _, s := range o.doing.experiment.env {
		env = append(env, setting{s.name, fill(s.text, o.variables)})
	}
	return append(env, setting{markVariable, o.mark})
}

// readyEvery is the time between two readiness checks, and readyLook the limit of one.
const (
	readyEvery = 20 * time.Millisecond
	readyLook  = 2 * time.Second
)

// awaitReady waits until the service is ready. It fails if that takes too long or the service ends.
func (o *one) awaitReady(ctx context.Context) error {
	r := &o.doing.experiment.ready
	bounded, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	look := func() bool { return answers(bounded, fill(r.url, o.variables)) }
	seen := (<-chan struct{})(nil)
	switch {
	case r.line != "":
		look, seen = func() bool { return false }, o.service.out.seen
	case r.port != "":
		look = func() bool { return accepts(bounded, fill(r.port, o.variables)) }
	}
	again := time.NewTicker(readyEvery)
	defer again.Stop()
	for {
		if look() {
			return nil
		}
		select {
		case <-seen:
			return nil
		case <-o.service.ended:
			return fmt.Errorf("the service ended before it was ready: %s", o.service.how())
		case <-bounded.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the service was not ready within %v", r.within)
		case <-again.C:
		}
	}
}

// answers reports whether a URL is answered with a status below 400.
func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, readyLook)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode < 400
}

// accepts reports whether a port of this machine, or an address, accepts connections.
func accepts(ctx context.Context, port string) bool {
	ctx, cancel := context.WithTimeout(ctx, readyLook)
	defer cancel()
	if !strings.Contains(port, ":") {
		port = net.JoinHostPort("127.0.0.1", port)
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", port)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// measure loads the service and takes the readings before and after.
func (o *one) measure(ctx context.Context) error {
	e := o.doing.experiment
	// Without this, the load or the command would wait for a service that has ended.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-o.service.ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	o.sampler = probe.New(probe.Options{PID: o.service.cmd.Process.Pid})
	err := o.load(ctx)
	if err == nil && e.command != nil {
		settled := o.watchMemory(ctx)
		err = o.command(ctx)
		settled()
	}
	if context.Cause(ctx) == errEnded {
		return fmt.Errorf("%w: %s", errEnded, o.service.how())
	}
	return err
}

// load warms the service up and loads it.
func (o *one) load(ctx context.Context) error {
	l := o.doing.experiment.Load
	if l == nil {
		return nil
	}
	options, err := o.loadOptions(ctx)
	if err != nil {
		return err
	}
	if l.Warmup > 0 {
		o.tell("warming up")
		if _, err := load.Run(ctx, o.during(options, l.Warmup, l.Rate)); err != nil {
			return err
		}
	}
	o.tell("measuring")
	o.raw.before = o.read()
	options.Observe = func(w *measure.Window) { o.memory(float64(w.End()) / 1e9) }
	options.Seed += uint64(o.run.Round)
	totals, err := load.Run(ctx, o.during(options, l.Duration, l.Rate))
	if err != nil || ctx.Err() != nil {
		return cmp.Or(err, ctx.Err())
	}
	o.raw.after = o.read()
	o.raw.load, o.raw.timeout = totals, l.Timeout.Seconds()
	// They take much memory, and no analysis reads them.
	totals.ConcurrencyAtSend, totals.Lag = nil, measure.Sparse{}
	if totals.Ended[measure.OK] == 0 {
		return fmt.Errorf("not one request was answered well: %s", example(totals))
	}
	o.run.Unused = totals.Generator.Limit()
	return nil
}

// example describes one of the failures.
func example(t *measure.Totals) string {
	for _, kind := range slices.Sorted(maps.Keys(t.Examples)) {
		return kind + ": " + strict.Clip(t.Examples[kind])
	}
	return "there was none"
}

// loadOptions returns the options that warm-up and measurement share.
func (o *one) loadOptions(ctx context.Context) (load.Options, error) {
	l := o.doing.experiment.Load
	target, err := load.Resolve(ctx, fill(l.URL, o.variables), load.TLSOptions{})
	if err != nil {
		return load.Options{}, err
	}
	var script load.Script
	if l.Scenario != "" {
		s, err := scenario.Load(l.Scenario, target)
		if err != nil {
			return load.Options{}, err
		}
		script = s.Script()
	} else {
		method, body := fill(l.Method, o.variables), []byte(fill(l.Body, o.variables))
		if method == "" && len(body) > 0 {
			method = http.MethodPost
		}
		request, err := load.Prepare(target, method, fillAll(l.Headers, o.variables), body)
		if err != nil {
			return load.Options{}, err
		}
		script = load.Static(target.Path, request, method == http.MethodHead)
	}
	options := load.Options{
		Target:      target,
		Script:      script,
		Connections: l.Connections,
		Loops:       o.doing.options.Loops,
		Timeout:     l.Timeout,
		Spare:       true,
		Seed:        o.doing.options.Seed,
	}
	if l.Fresh {
		options.PerConnection = 1
	}
	return options, nil
}

// during returns options for a load of the given length, at a rate, or in a closed loop if the rate
// is 0.
func (o *one) during(options load.Options, length time.Duration, rate float64) load.Options {
	if rate == 0 {
		options.Duration = length
		return options
	}
	profile := pace.Hold(rate/options.Script.Requests(), length.Nanoseconds())
	arrivals, seed := pace.Arrivals(o.doing.experiment.Load.Arrivals), options.Seed
	options.Arrivals = func(loop, loops int) pace.Schedule {
		return profile.Schedule(arrivals, loop, loops, seed)
	}
	return options
}

// memoryEvery is the time between two readings of the service's memory, in seconds.
const memoryEvery = 1

// memory reads the service's memory about once a second. The load calls it, one window after
// another.
func (o *one) memory(now float64) {
	if now > 0 && now-o.last < memoryEvery {
		return
	}
	o.last = now
	o.raw.rss = max(o.raw.rss, o.sampler.Sample(0).Values[measure.TargetRSS])
}

// watchMemory reads the memory while a command runs, until the returned function is called.
func (o *one) watchMemory(ctx context.Context) (settled func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, memoryEvery*time.Second) == nil {
			o.memory(0)
		}
	}()
	return func() {
		cancel()
		<-done
		o.memory(0)
	}
}

// read reads the probes, and the metrics page if there is one. If a reading fails, the figures that
// need it are missing.
func (o *one) read() map[string]float64 {
	values := o.sampler.Sample(0).Values
	o.raw.rss = max(o.raw.rss, values[measure.TargetRSS])
	if e := o.doing.experiment; e.metrics != "" && e.needPage {
		metrics := scrape.New(fill(e.metrics, o.variables))
		if err := metrics.Read(values); err != nil {
			o.run.Missing = append(o.run.Missing, "the metrics page: "+err.Error())
		}
	}
	return values
}

// command runs the command that prints figures: a JSON object with numbers.
func (o *one) command(ctx context.Context) error {
	o.tell("measuring")
	e := o.doing.experiment
	out := newTail(maxPrinted, "")
	if err := finish(ctx, fillAll(e.command, o.variables), e.dir, o.environment(), commandTime,
		out); err != nil {
		return fmt.Errorf("the command: %w", err)
	}
	if out.cut {
		return fmt.Errorf("the command printed more than %d bytes: let it print an object of "+
			"JSON with numbers, and nothing else", maxPrinted)
	}
	var printed map[string]any
	decoder := json.NewDecoder(strings.NewReader(out.text()))
	err := decoder.Decode(&printed)
	if err == nil && decoder.More() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return withOutput{
			fmt.Errorf("the command has not printed one object of JSON: %w", err),
			strict.Clip(out.text()),
		}
	}
	o.raw.command = make(map[string]float64)
	for key, v := range printed {
		if n, ok := v.(float64); ok {
			o.raw.command[key] = n
		}
	}
	return nil
}
