// Package ward is the frame around every patient: flags, a plain HTTP server, a port to look inside
// (profiles, metrics, expvar), and a clean end. It must know nothing of diseases: what is wrong
// with a service has to be seen in the service's own file, and nowhere else.
package ward

import (
	"context"
	"errors"
	"expvar"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Contention is sampled so rarely that a service which waits for locks thousands of times a second
// pays less than 1 % for it: one wait for a lock in mutexFraction, and a blocked goroutine about
// once for each blockRate nanoseconds that it was blocked.
const (
	mutexFraction = 20
	blockRate     = int(10 * time.Millisecond)
)

// lastWait is how long requests that are under way may take to end when the service is told to
// stop.
const lastWait = 2 * time.Second

// Patient is what a service is given when it is made, and may change before it is served. It
// belongs to the function that makes the service.
type Patient struct {
	// Cured says that the service has to be made without its disease.
	Cured bool
	// Context ends when the service is told to stop.
	Context context.Context
	// Server is served with the handler. Its timeouts are set; whatever else is the patient's to
	// change. With a TLSConfig it speaks TLS.
	Server *http.Server
	// Listen opens the socket, net.Listen for tcp unless it is changed.
	Listen func(address string) (net.Listener, error)
	// Registry is shown at /metrics of the debugging port, with the collectors of the Go runtime
	// and of the process in it.
	Registry *prometheus.Registry

	ends []func()
}

// OnEnd calls end when the service has stopped, the last that was given first.
func (p *Patient) OnEnd(end func()) { p.ends = append(p.ends, end) }

// Main is a patient's main function. A flag of the patient's own is declared with package flag
// before. It prints "ready ADDRESS" when the service can be reached, serves until SIGINT or
// SIGTERM, and exits with 2 when it could not start.
func Main(build func(p *Patient) (http.Handler, error)) {
	address := flag.String("address", "127.0.0.1:18800", "where to listen; port 0 takes a free one")
	debug := flag.String("debug", "127.0.0.1:18801",
		"where profiles (/debug/pprof/), /debug/vars and /metrics are; empty is nowhere")
	cured := flag.Bool("cured", false, "without the disease")
	flag.Parse()
	if flag.NArg() > 0 {
		fail(fmt.Errorf("%q is not a flag; --help lists them", flag.Arg(0)))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, build, options{
		address: *address,
		debug:   *debug,
		cured:   *cured,
		out:     os.Stdout,
	}); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

type options struct {
	address, debug string
	cured          bool
	out            io.Writer
	opened         func(service, debug net.Addr) // is told where they listen; it may be nil
}

// run serves until ctx ends.
func run(ctx context.Context, build func(p *Patient) (http.Handler, error), o options) (err error) {
	p := newPatient(ctx, o.cured)
	defer p.end()
	p.Server.Handler, err = build(p)
	if err != nil {
		return fmt.Errorf("make the service: %w", err)
	}
	service, err := p.Listen(o.address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	defer service.Close()
	// room for both servers, so that none waits when nobody listens any more
	stopped := make(ended, 2)
	var debugAddress net.Addr
	if o.debug != "" {
		l, err := net.Listen("tcp", o.debug)
		if err != nil {
			return fmt.Errorf("--debug: %w", err)
		}
		defer l.Close()
		debugAddress = l.Addr()
		inside := &http.Server{Handler: p.inside(), ReadHeaderTimeout: 5 * time.Second}
		defer inside.Close()
		go stopped.serve(inside, l)
	}
	go stopped.serve(p.Server, service)
	fmt.Fprintf(o.out, "ready %s\n", service.Addr())
	if o.opened != nil {
		o.opened(service.Addr(), debugAddress)
	}
	select {
	case err := <-stopped:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	if p.Server.Shutdown(last) != nil {
		p.Server.Close()
	}
	return nil
}

func newPatient(ctx context.Context, cured bool) *Patient {
	p := &Patient{
		Cured:    cured,
		Context:  ctx,
		Registry: prometheus.NewRegistry(),
		Listen: func(address string) (net.Listener, error) {
			return net.Listen("tcp", address)
		},
	}
	p.Server = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	p.Registry.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

func (p *Patient) end() {
	for len(p.ends) > 0 {
		last := len(p.ends) - 1
		p.ends[last]()
		p.ends = p.ends[:last]
	}
}

// inside is what the debugging port shows.
func (p *Patient) inside() http.Handler {
	runtime.SetMutexProfileFraction(mutexFraction)
	runtime.SetBlockProfileRate(blockRate)
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/vars", expvar.Handler())
	mux.Handle("/metrics", promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{}))
	return mux
}

// ended is given why a server stopped before it was told to.
type ended chan error

func (e ended) serve(s *http.Server, l net.Listener) {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		e <- err
	}
}

// Cures declares the flag of a service that is sick in two ways, and returns what says, once the
// flags are parsed, which of the two diseases it has to be made without. --cured is the same as
// both.
func Cures() (cured func(p *Patient) (first, second bool)) {
	var which cures
	flag.Var(&which, "cure", "without one disease: first, second or both")
	return func(p *Patient) (first, second bool) {
		return p.Cured || which == "first" || which == "both",
			p.Cured || which == "second" || which == "both"
	}
}

type cures string

func (c *cures) String() string { return string(*c) }

func (c *cures) Set(s string) error {
	if s != "first" && s != "second" && s != "both" {
		return errors.New("it is first, second or both")
	}
	*c = cures(s)
	return nil
}
