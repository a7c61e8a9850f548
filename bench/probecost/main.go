// Command probecost says what probes cost their target: closed loops that keep it busy all the
// time, in pairs, one with nothing sampled and one with everything that a survey samples, in random
// order within each pair. What the target answers in a second is what it can do, and so stands for
// its load line.
//
//	go run ./bench/probecost --pid N --url http://127.0.0.1:18800/ \
//	    --metrics http://127.0.0.1:18801/metrics --pairs 12 --deep
//	go run ./bench/probecost --pid N --url http://127.0.0.1:18800/ --pairs 40 --perf
//
// It prints one line of JSON: the changes of the goodput, and of the target's processor time for each
// answer, with their intervals (95 %) and the probabilities of such differences by chance.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/kernel"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/runner"
	"plimsoll/internal/lab/stats"
)

type settings struct {
	url, metrics        string
	pid, pairs, clients int
	length              time.Duration
	deep, perf          bool
}

// cost is what a measurement has seen.
type cost struct {
	goodput float64 // answers in a second
	each    float64 // processor seconds of the target for an answer
}

func main() {
	var s settings
	flag.StringVar(&s.url, "url", "http://127.0.0.1:18800/", "the target")
	flag.StringVar(&s.metrics, "metrics", "", "its metrics page; empty is none")
	flag.IntVar(&s.pid, "pid", 0, "its process, which has to be named")
	flag.IntVar(&s.pairs, "pairs", 12, "how many pairs")
	flag.IntVar(&s.clients, "connections", 64, "connections that are kept busy")
	flag.DurationVar(&s.length, "length", 4*time.Second, "of each measurement")
	flag.BoolVar(&s.deep, "deep", false, "with the kernel's events too")
	flag.BoolVar(&s.perf, "perf", false, "the kernel's profile of the processor time, and nothing else")
	flag.Parse()
	if s.pid == 0 {
		fmt.Fprintln(os.Stderr, "probecost: name the target's process: --pid N")
		os.Exit(2)
	}
	if err := run(&s); err != nil {
		fmt.Fprintln(os.Stderr, "probecost:", err)
		os.Exit(2)
	}
}

func run(s *settings) error {
	ctx := context.Background()
	target, err := load.Resolve(ctx, s.url, load.TLSOptions{})
	if err != nil {
		return err
	}
	request, err := load.Prepare(target, "", nil, nil)
	if err != nil {
		return err
	}
	script := load.Static("GET", request, false)
	// The first, which warms the target up, is not counted.
	if _, err := s.measured(ctx, target, script, false); err != nil {
		return err
	}
	var goodputs, costs []float64
	for pair := range s.pairs {
		order := []bool{false, true}
		if rand.IntN(2) == 0 {
			order[0], order[1] = true, false
		}
		seen := map[bool]cost{}
		for _, probed := range order {
			if seen[probed], err = s.measured(ctx, target, script, probed); err != nil {
				return err
			}
		}
		with, without := seen[true], seen[false]
		goodputs = append(goodputs, with.goodput/without.goodput-1)
		costs = append(costs, with.each/without.each-1)
		fmt.Fprintf(os.Stderr, "pair %d: without %.0f/s, with %.0f/s, %+.2f %%; an answer costs %+.2f %%\n",
			pair+1, without.goodput, with.goodput, 100*goodputs[pair], 100*costs[pair])
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"goodput":        change(goodputs),
		"processor_time": change(costs),
		"pairs":          s.pairs,
		"deep":           s.deep,
		"perf":           s.perf,
	})
}

func change(differences []float64) map[string]float64 {
	shift := stats.Shift(differences, .95)
	return map[string]float64{
		"change": shift.Point,
		"low":    shift.Low,
		"high":   shift.High,
		"p":      stats.SignedRank(differences),
	}
}

// measured is what the target does in a step, with or without the probes.
func (s *settings) measured(
	ctx context.Context, target load.Target, script load.Script, probed bool,
) (c cost, err error) {
	o := runner.Options{Target: target, Script: script, Loops: 1, Spare: true}
	switch {
	case probed && s.perf:
		sampler, failed := kernel.OpenSampler(s.pid)
		if failed != nil {
			return cost{}, failed
		}
		defer sampler.Close()
		var taking sync.WaitGroup
		taking.Go(func() { _, failed = sampler.Take(ctx, s.length) })
		defer func() {
			taking.Wait()
			err = errors.Join(err, failed)
		}()
	case probed:
		var pages []string
		if s.metrics != "" {
			pages = append(pages, s.metrics)
		}
		sampler, missing, shut := harness.Probes(&target, s.pid, pages, s.deep, true)
		defer shut()
		for _, m := range missing {
			fmt.Fprintln(os.Stderr, m)
		}
		o.Sampler = sampler
	}
	before, err := s.used()
	if err != nil {
		return cost{}, err
	}
	step, _, err := runner.New(o).Step(ctx, measure.StepPlan{
		Number:      1,
		Phase:       "load",
		Length:      s.length.Nanoseconds(),
		Connections: s.clients,
	}, nil)
	if err != nil {
		return cost{}, err
	}
	after, err := s.used()
	if err != nil {
		return cost{}, err
	}
	answers := float64(step.Totals.Ended[measure.OK])
	if answers == 0 {
		return cost{}, errors.New("the target answered nothing")
	}
	return cost{step.Totals.Goodput(), (after - before) / answers}, nil
}

// used is how many processor seconds the target has used.
func (s *settings) used() (float64, error) {
	process, err := procfs.NewProc(s.pid)
	if err != nil {
		return 0, err
	}
	stat, err := process.Stat()
	return stat.CPUTime(), err
}
