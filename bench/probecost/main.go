// Command probecost says what probes cost their target: closed loops that keep it busy all the
// time, in pairs, one with nothing sampled and one with everything that a survey samples, in random
// order within each pair. What the target answers in a second is what it can do, and so stands for
// its load line.
//
//	go run ./bench/probecost --pid N --url http://127.0.0.1:18800/ \
//	    --metrics http://127.0.0.1:18801/metrics --pairs 12 --deep
//
// It prints one line of JSON: the change of the goodput with its interval (95 %) and the
// probability of such differences by chance.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/runner"
	"plimsoll/internal/lab/stats"
)

type settings struct {
	url, metrics        string
	pid, pairs, clients int
	length              time.Duration
	deep                bool
}

func main() {
	var s settings
	flag.StringVar(&s.url, "url", "http://127.0.0.1:18800/", "the target")
	flag.StringVar(&s.metrics, "metrics", "", "its metrics page; empty is none")
	flag.IntVar(&s.pid, "pid", 0, "its process")
	flag.IntVar(&s.pairs, "pairs", 12, "how many pairs")
	flag.IntVar(&s.clients, "connections", 64, "connections that are kept busy")
	flag.DurationVar(&s.length, "length", 4*time.Second, "of each measurement")
	flag.BoolVar(&s.deep, "deep", false, "with the kernel's events too")
	flag.Parse()
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
	if _, err := s.goodput(ctx, target, script, false); err != nil {
		return err
	}
	var differences []float64
	for pair := range s.pairs {
		order := []bool{false, true}
		if rand.IntN(2) == 0 {
			order[0], order[1] = true, false
		}
		seen := map[bool]float64{}
		for _, probed := range order {
			if seen[probed], err = s.goodput(ctx, target, script, probed); err != nil {
				return err
			}
		}
		differences = append(differences, seen[true]/seen[false]-1)
		fmt.Fprintf(os.Stderr, "pair %d: without %.0f/s, with %.0f/s, %+.2f %%\n",
			pair+1, seen[false], seen[true], 100*differences[pair])
	}
	shift := stats.Shift(differences, .95)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"change": shift.Point,
		"low":    shift.Low,
		"high":   shift.High,
		"p":      stats.SignedRank(differences),
		"pairs":  s.pairs,
		"deep":   s.deep,
	})
}

// goodput is what the target answers in a second, with or without the probes.
func (s *settings) goodput(
	ctx context.Context, target load.Target, script load.Script, probed bool,
) (float64, error) {
	o := runner.Options{Target: target, Script: script, Loops: 1, Spare: true}
	if probed {
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
	step, _, err := runner.New(o).Step(ctx, measure.StepPlan{
		Number:      1,
		Phase:       "load",
		Length:      s.length.Nanoseconds(),
		Connections: s.clients,
	}, nil)
	if err != nil {
		return 0, err
	}
	return step.Totals.Goodput(), nil
}
