package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/remote"
	"plimsoll/internal/lab/text"
)

// usualDuration is how long a load lasts that was given no time and no profile with its own.
const usualDuration = 30 * time.Second

type loadCommand struct {
	URL         string         `arg:"" help:"The target, such as http://127.0.0.1:8080/path."`
	Connections int            `short:"c" default:"64" placeholder:"N" help:"${connections} (${default})."`
	Loops       int            `short:"t" placeholder:"N" help:"${loops}"`
	Duration    *time.Duration `short:"d" placeholder:"TIME" help:"${load_duration}"`
	Rate        string         `placeholder:"RATE" help:"${load_rate}"`
	Burst       []string       `placeholder:"RATE:TIME@START" help:"${load_burst}"`

	Arrivals string `enum:"constant,poisson," default:"" placeholder:"KIND" help:"${load_arrivals}"`

	Closed         bool          `help:"${load_closed}"`
	Scenario       string        `placeholder:"FILE" help:"${load_scenario}"`
	Timeout        time.Duration `default:"5s" placeholder:"TIME" help:"${timeout} (${default})."`
	NewConnections bool          `help:"Use a new connection for each request."`
	Lifetime       time.Duration `placeholder:"TIME" help:"${load_lifetime}"`
	Seed           uint64        `default:"1" placeholder:"N" help:"${seed} (${default})."`
	JSON           bool          `help:"Print the result as JSON."`
	HDR            string        `name:"hdr" placeholder:"FILE" help:"${load_hdr}"`
	Out            string        `placeholder:"DIR" help:"${load_out}"`

	Verify string `enum:"wrk,h2load," default:"" placeholder:"wrk|h2load" help:"${load_verify}"`

	generatorFlags
	protocolFlags
	requestFlags
	connectionFlags `group:"TLS"`
}

// Help is shown by plimsoll load --help.
func (loadCommand) Help() string {
	return `Sends requests and measures the answers. With a rate, the loop is open: requests are due
on schedule, however slow the target is, and a response time counts from when its request was due.
Without a rate, the loop is closed, as in wrk: each connection sends its next request when the last
one is answered. With --http2 and --http3, this applies to each stream. A request that fails or is
too late counts in the tail of the percentiles. Ctrl-C ends the load early and keeps what was
measured so far. A second Ctrl-C ends the process at once.

Exit codes: 0, it ran, whatever the results; 1, the command line or the scenario is wrong; 2, it
could not start (nothing listens, TLS is refused, the name cannot be resolved) or a file cannot be
written; 3, it was stopped early, the generator was the limit (INVALID), or --verify found no
agreement.

Examples:

    plimsoll load http://127.0.0.1:8080/
    plimsoll load http://127.0.0.1:8080/ --rate 10000 -d 60s --arrivals poisson
    plimsoll load http://127.0.0.1:8080/ --rate 1000 --burst 3200:8s@20s -d 40s
    plimsoll load http://127.0.0.1:8080/buy -X POST -H 'Content-Type: application/json' --body @order.json
    plimsoll load https://127.0.0.1:8443/ --insecure --new-connections --no-resumption
    plimsoll load https://127.0.0.1:8443/ --insecure --http2 -c 16 --streams 32 --rate 20000
    plimsoll load https://127.0.0.1:8443/ --insecure --http3 -c 16 --streams 32 --rate 5000
    plimsoll load http://10.0.0.7:8080/ --rate 50000 --generator load@gen1 --generator load@gen2:2222
    plimsoll load http://127.0.0.1:8080/ --scenario shop.yaml --json | jq .response_ms.p99
    plimsoll load http://127.0.0.1:8080/ -c 64 -t 1 -d 5s --verify wrk
    plimsoll load https://127.0.0.1:8443/ --insecure --http2 -c 8 -t 1 -d 5s --verify h2load`
}

// Run offers the load and prints what came of it.
func (k *loadCommand) Run(ctx context.Context, c *console) error {
	if err := k.check(); err != nil {
		return withExit{exitUsage, err}
	}
	if err := cmp.Or(emptyDirectory("--out", k.Out), hasFolder("--hdr", k.HDR)); err != nil {
		return withExit{exitUsage, err}
	}
	target, err := k.reach(ctx, k.URL, &k.protocolFlags)
	if err != nil {
		return err
	}
	if k.Verify != "" {
		return k.verify(ctx, c, target)
	}
	p, err := k.plan(ctx, c, target)
	if err != nil {
		return err
	}
	if p.offer.fleet != nil {
		defer p.offer.fleet.Close()
	}
	totals, early, err := p.offer.run(ctx, c)
	if err != nil {
		return err
	}
	if err := errors.Join(k.print(c, p, totals, early), k.keep(p, totals, early)); err != nil {
		return err
	}
	return exitOfLoad(totals, early)
}

// check refuses flags that contradict each other, before anything is touched.
func (k *loadCommand) check() error {
	open := k.Rate != "" || len(k.Burst) > 0
	switch {
	case k.Connections < 1:
		return errors.New("--connections must be at least 1")
	case k.Loops < 0:
		return errors.New("--loops must be at least 1")
	case noTime(k.Duration) || k.Timeout <= 0 || k.Lifetime < 0:
		return errors.New("--duration, --timeout and --lifetime must be above 0s: leave --duration " +
			"out for the usual one, and --lifetime for no bound")
	case k.Timeout.Nanoseconds() > measure.Longest:
		return fmt.Errorf("--timeout must be at most %v",
			time.Duration(measure.Longest).Truncate(time.Second))
	case k.Closed && open:
		return errors.New("--closed has no rate: leave out --closed, or --rate and --burst")
	case k.checkProtocol() != nil:
		return k.checkProtocol()
	case k.checkGenerators() != nil:
		return k.checkGenerators()
	case k.Verify != "" && k.far():
		return errors.New("--verify compares two generators on this machine: leave out --generator")
	case len(k.Burst) > 0 && k.Rate == "" && k.Scenario == "":
		return errors.New("--burst comes on top of a rate: give --rate too")
	case k.Scenario != "" && k.given():
		return errors.New("the scenario describes the requests: leave out --header, " +
			"--method and --body, or --scenario")
	case k.Verify != "" &&
		(open || cmp.Or(k.Scenario, k.Method, k.Body, k.HDR, k.Out) != "" || k.NewConnections ||
			k.Lifetime > 0):
		return fmt.Errorf("--verify %s compares what %s can do, a GET in a closed loop: "+
			"leave out the rate, the scenario, method, body, connections' lifetime, "+
			"--hdr and --out", k.Verify, k.Verify)
	case k.Verify == "wrk" && k.streams() > 0:
		return errors.New("wrk speaks HTTP/1.1: leave out --http2 and --http3, or compare with " +
			"--verify h2load")
	case k.Verify == "h2load" && !k.HTTP2:
		return errors.New("--verify h2load needs HTTP/2: give --http2 too, or --verify wrk")
	}
	return nil
}

// noTime says that a flag was given that has no time.
func noTime(d *time.Duration) bool { return d != nil && *d <= 0 }

// given is the time of a flag, 0 where it was left out.
func given(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}

// planned is a load that is ready to be offered.
type planned struct {
	offer    offer
	what     string
	mix      string
	settings map[string]string
	asked    *pace.Profile // in requests a second; nil for a closed loop
	arrivals pace.Arrivals
	near     bool
}

// plan reads everything that the load needs.
func (k *loadCommand) plan(ctx context.Context, c *console, target load.Target) (*planned, error) {
	p := &planned{near: harness.Local(&target), mix: k.words(&target)}
	work, err := k.work(ctx, k.URL, k.HTTP3, &k.requestFlags, target)
	if err != nil {
		return nil, err
	}
	script := work.Script()
	var own *pace.Profile
	if k.Scenario != "" {
		s, err := work.ReadScenario(k.Scenario, target)
		if err != nil {
			return nil, err
		}
		script, own, p.mix, p.arrivals = s.Script(), s.Profile, s.Mix(), s.Arrivals
	}
	if p.asked, err = k.profile(own); err != nil {
		return nil, withExit{exitUsage, err}
	}
	p.arrivals = cmp.Or(pace.Arrivals(k.Arrivals), p.arrivals, pace.Constant)
	fleet, loops, err := k.generators(ctx, c, work, script, p.near)
	if err != nil {
		return nil, err
	}
	p.offer = offer{
		fleet:  fleet,
		length: given(k.Duration),
		keep:   k.HDR != "" || k.Out != "",
		options: load.Options{
			Target:      target,
			Script:      script,
			Connections: k.Connections,
			Streams:     k.streams(),
			Loops:       loops,
			Timeout:     k.Timeout,
			Lifetime:    k.Lifetime,
			Seed:        k.Seed,
		},
	}
	if k.NewConnections {
		p.offer.options.PerConnection = 1
	}
	if p.asked != nil {
		profile := p.asked.Scale(1 / script.Requests())
		p.offer.options.Offered = &pace.Offered{Profile: profile, Arrivals: p.arrivals, Seed: k.Seed}
		p.offer.length = time.Duration(profile.Length())
		if k.Duration != nil {
			p.offer.length = min(p.offer.length, *k.Duration)
		}
	} else if k.Duration == nil {
		p.offer.length = usualDuration
	}
	p.offer.options.Duration = p.offer.length
	p.describe(k)
	return p, nil
}

// generators are where the load comes from, nil for this process, and how many loops they have.
func (k *loadCommand) generators(
	ctx context.Context, c *console, work *remote.Work, script load.Script, near bool,
) (fleet *remote.Fleet, loops int, err error) {
	if !k.far() {
		return nil, harness.Loops(k.Loops, k.Connections, near), nil
	}
	if fleet, err = k.open(ctx, c, work, script, k.Loops); err != nil {
		return nil, 0, err
	}
	return fleet, fleet.Loops(k.Connections), nil
}

// profile is the offered rate in requests a second; nil is a closed loop. A rate that is given
// stands for the scenario's, and bursts come on top of either.
func (k *loadCommand) profile(own *pace.Profile) (*pace.Profile, error) {
	if k.Closed || k.Rate == "" && own == nil {
		return nil, nil
	}
	var p pace.Profile
	if k.Rate != "" {
		parsed, err := pace.ParseProfile(k.Rate, cmp.Or(given(k.Duration), usualDuration))
		if err != nil {
			return nil, fmt.Errorf("--rate: %w", err)
		}
		p = parsed
	} else {
		p = *own
		p.Bursts = append([]pace.Burst(nil), p.Bursts...)
	}
	for _, text := range k.Burst {
		b, err := pace.ParseBurst(text)
		if err != nil {
			return nil, fmt.Errorf("--burst: %w", err)
		}
		p.Bursts = append(p.Bursts, b)
	}
	return &p, p.Validate()
}

// describe says what is offered, to a person and by setting.
func (p *planned) describe(k *loadCommand) {
	o := &p.offer.options
	rate, arrivals := "closed loop", ""
	if asked := p.asked; asked != nil {
		rate, arrivals = asked.String(), string(p.arrivals)
		p.what = fmt.Sprintf("%s, %s arrivals", format.Rate(asked.Mean()), p.arrivals)
		if len(asked.Segments) > 1 || len(asked.Bursts) > 0 {
			p.what = fmt.Sprintf("%s, on average %s, %s arrivals",
				rate, format.Rate(asked.Mean()), p.arrivals)
		}
	} else {
		p.what = "closed loop"
	}
	p.what = fmt.Sprintf("%s at %s\n%s, for %s, over %s, with %s",
		format.Clean(p.mix), o.Target.URL, p.what,
		format.Duration(float64(p.offer.length)), k.over(o.Connections), many(o.Loops, "loop"))
	if k.far() {
		p.what += " on " + many(len(k.Generator), "generator")
	}
	p.settings = k.note(map[string]string{
		"rate":            rate,
		"arrivals":        arrivals,
		"connections":     strconv.Itoa(o.Connections),
		"loops":           strconv.Itoa(o.Loops),
		"duration":        p.offer.length.String(),
		"timeout":         o.Timeout.String(),
		"new_connections": strconv.FormatBool(k.NewConnections),
		"lifetime":        o.Lifetime.String(),
		"resumption":      strconv.FormatBool(!k.NoResumption),
		"seed":            strconv.FormatUint(k.Seed, 10),
		"scenario":        k.Scenario,
		"generators":      k.names(),
	})
}

// print says what came of it.
func (k *loadCommand) print(c *console, p *planned, t *measure.Totals, early string) error {
	if k.JSON {
		return c.json(document.NewLoad(k.URL, p.settings, t, early))
	}
	run := &text.Run{
		Totals: t,
		Closed: p.asked == nil,
		TLS:    p.offer.options.Target.TLS != nil,
		Asked:  p.offer.options.Streams,
		Early:  early,
	}
	return c.print([]byte(p.what + "\n\n" + text.Load(run)))
}

// keep writes the files that were asked for.
func (k *loadCommand) keep(p *planned, t *measure.Totals, early string) error {
	if k.HDR != "" {
		if err := writeHDR(k.HDR, p.offer.began, p.offer.windows); err != nil {
			return fmt.Errorf("--hdr: %w", err)
		}
	}
	if k.Out == "" {
		return nil
	}
	o := harness.LoadRun{
		Dir: k.Out,
		Manifest: record.Manifest{
			Tool:     tool(),
			Command:  withoutSecrets(os.Args),
			Started:  p.offer.began,
			Target:   k.URL,
			Mix:      p.mix,
			Settings: p.settings,
		},
		Target:      &p.offer.options.Target,
		Connections: k.Connections,
		Seed:        k.Seed,
		Totals:      t,
		Windows:     p.offer.windows,
		Early:       early,
	}
	if p.asked != nil {
		o.Arrivals = p.arrivals
	}
	if p.offer.fleet != nil {
		o.Generators = p.offer.fleet
	}
	if err := o.Record(); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
