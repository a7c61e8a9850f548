// Command refserver runs a server whose load line is known, because it is a queue: what a survey
// says of it can be compared with the truth.
//
//	go run ./bench/refserver --workers 4 --service 2ms --exponential --room 100 \
//	    --address 127.0.0.1:18700 --slo 'p99<50ms,errors<0.1%'
//
// It prints its address and its true line as one line of JSON, serves until it is interrupted, and
// then prints what it counted. SIGUSR1 halves its capacity, as each request that arrives from then
// on takes twice as long, and SIGUSR2 restores it; the printed line is that of the full capacity.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/refserver"
	"plimsoll/internal/lab/slo"
)

// lineArrivals is how many requests each rate of the search for the true line is tried with, and
// lineSeeds how many such lines it is the mean of: together they put it within about 0.2 %.
const (
	lineArrivals = 2_000_000
	lineSeeds    = 3
)

type settings struct {
	workers, room, body, mostConns int
	service, stall                 time.Duration
	exponential                    bool
	address, slo                   string
	stallAt, seed                  uint64
	kind                           string
	kinds                          bool
}

func main() {
	var s settings
	flag.IntVar(&s.workers, "workers", 4, "how many requests are served at once")
	flag.DurationVar(&s.service, "service", 2*time.Millisecond, "mean time that one request takes")
	flag.BoolVar(&s.exponential, "exponential", false,
		"service times are exponentially distributed, not constant")
	flag.IntVar(&s.room, "room", -1,
		"how many requests may wait; one more gets 503; -1 means no bound")
	flag.IntVar(&s.body, "body", 128, "bytes of an answer's body")
	flag.IntVar(&s.mostConns, "connections", 1<<16, "the most connections at once")
	flag.StringVar(&s.address, "address", "127.0.0.1:18700",
		"where to listen; port 0 takes a free one")
	flag.StringVar(&s.slo, "slo", "p99<50ms,errors<0.1%", "what the printed line keeps")
	flag.Uint64Var(&s.stallAt, "stall-at", 0,
		"number of the request that the server stands still at; 0 is never")
	flag.DurationVar(&s.stall, "stall", 500*time.Millisecond, "for how long it stands still")
	flag.Uint64Var(&s.seed, "seed", 1, "of the service times")
	flag.StringVar(&s.kind, "kind", "",
		"serve one of the kinds of services that are written down, instead of a queue")
	flag.BoolVar(&s.kinds, "kinds", false, "print those kinds as JSON, one a line, and end")
	flag.Usage = func() {
		out := flag.CommandLine.Output()
		fmt.Fprintln(out, "refserver runs a server whose load line is known, for example:")
		fmt.Fprintln(out,
			"  go run ./bench/refserver --workers 4 --service 2ms --exponential --room 100 --slo "+
				"'p99<50ms,errors<0.1%'")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(&s); err != nil {
		fmt.Fprintln(os.Stderr, "refserver:", err)
		os.Exit(2)
	}
}

func run(s *settings) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is not a flag; --help lists them", flag.Arg(0))
	}
	if s.workers < 1 || s.service < 0 || s.body < 0 {
		return fmt.Errorf("--workers must be at least 1, --service and --body at least 0")
	}
	if s.kinds {
		return printKinds()
	}
	if s.kind != "" {
		return serveKind(s)
	}
	objectives, err := slo.Parse(s.slo)
	if err != nil {
		return err
	}
	station := queue.Station{
		Workers: s.workers,
		Service: queue.Constant(s.service.Nanoseconds()),
		Room:    s.room,
	}
	if s.exponential {
		station.Service = queue.Exponential(s.service.Nanoseconds())
	}
	server, err := refserver.Start(refserver.Options{
		Station:     changeable(station),
		Seed:        s.seed,
		Address:     s.address,
		Body:        bytes.Repeat([]byte("x"), s.body),
		Stall:       refserver.Stall{At: s.stallAt, For: s.stall},
		Connections: s.mostConns,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	out := json.NewEncoder(os.Stdout)
	err = out.Encode(map[string]any{
		"address":                server.Address(),
		"slo":                    objectives.String(),
		"line":                   line(station, objectives, true),
		"line_constant_arrivals": line(station, objectives, false),
		"capacity":               float64(s.workers) / max(s.service.Seconds(), 1e-9),
	})
	if err != nil {
		return err
	}
	return printCounts(server)
}

// printCounts waits for an interrupt, and prints what a server has counted.
func printCounts(server *refserver.Server) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	<-interrupted
	c := server.Counts()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"offered":         c.Offered,
		"served":          c.Served,
		"refused":         c.Refused,
		"gone":            c.Gone,
		"bad_requests":    c.BadRequests,
		"planned_mean_ms": c.Planned.Mean() / 1e6,
		"planned_p99_ms":  float64(c.Planned.Quantile(.99)) / 1e6,
		"late_p50_us":     float64(c.Late.Quantile(.5)) / 1e3,
		"late_p99_us":     float64(c.Late.Quantile(.99)) / 1e3,
	})
}

// changeable is a station whose service times are stretched by a factor that signals set.
func changeable(s queue.Station) queue.Station {
	var factor atomic.Int64
	factor.Store(1)
	draw := s.Service
	s.Service = func(r *rand.Rand) int64 { return factor.Load() * draw(r) }
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for sig := range signals {
			if sig == syscall.SIGUSR1 {
				factor.Store(2)
			} else {
				factor.Store(1)
			}
		}
	}()
	return s
}

// line is the highest rate that keeps every objective.
func line(s queue.Station, objectives slo.SLO, exponential bool) float64 {
	lowest := 0.0
	for i, o := range objectives {
		mean := 0.0
		for seed := range uint64(lineSeeds) {
			mean += queue.Line(s, exponential, o.Limit, o.Share, lineArrivals, seed+1) / lineSeeds
		}
		if i == 0 || mean < lowest {
			lowest = mean
		}
	}
	return lowest
}
