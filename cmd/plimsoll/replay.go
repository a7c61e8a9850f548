package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/replay"
	"plimsoll/internal/lab/text"
)

type replayCommand struct {
	Log      string            `arg:"" help:"${replay_log}"`
	Target   string            `required:"" placeholder:"URL" help:"${replay_target}"`
	Speed    string            `placeholder:"TIMES" help:"${replay_speed}"`
	Rate     float64           `placeholder:"RATE" help:"${replay_rate}"`
	From     string            `placeholder:"TIME" help:"${replay_from}"`
	To       string            `placeholder:"TIME" help:"${replay_to}"`
	Sample   int               `default:"1" placeholder:"N" help:"${replay_sample} (${default})."`
	Format   string            `placeholder:"FORMAT" help:"${replay_format}"`
	Field    map[string]string `placeholder:"WHAT=NAME" help:"${replay_field}"`
	Unsafe   bool              `help:"${replay_unsafe}"`
	Host     []string          `placeholder:"NAME" help:"${replay_host}"`
	KeepHost bool              `help:"Send the Host of the log instead of the target's."`

	Connections int `short:"c" default:"64" placeholder:"N" help:"${connections} (${default})."`

	Loops           int            `short:"t" placeholder:"N" help:"${loops}"`
	Duration        *time.Duration `short:"d" placeholder:"TIME" help:"${replay_duration}"`
	Timeout         time.Duration  `default:"5s" placeholder:"TIME" help:"${timeout} (${default})."`
	JSON            bool           `help:"Print the result as JSON."`
	connectionFlags `group:"TLS"`
	protocolFlags
}

// Help is shown by plimsoll replay --help.
func (replayCommand) Help() string {
	return `Sends the requests of an access log again, with the same times between them, bursts
included. All times count from the beginning, so delays do not add up. The end of the output says
how well the times were kept. Lines that cannot be read are counted and shown, and never guessed.
Only safe methods are sent, unless --unsafe is given. A log of any length takes the same memory.

Exit codes: 0, it ran, whatever the results; 1, the command line or the log's format is wrong; 2, it
could not start (nothing listens, TLS is refused, the name cannot be resolved) or the log could not
be read to its end; 3, it was stopped early, or the generator was the limit (INVALID).

Examples:

    plimsoll replay access.log --target http://127.0.0.1:8080
    plimsoll replay access.log.gz --target http://127.0.0.1:8080 --speed 2x --from 10m --to 15m
    plimsoll replay access.log --target http://127.0.0.1:8080 --format '$remote_addr [$time_iso8601] "$request" $status'
    plimsoll replay events.jsonl --target http://127.0.0.1:8080 --field time=ts --field path=url --rate 500
    plimsoll replay access.log --target https://127.0.0.1:8443 --insecure --http2 --streams 32
    zcat access.log.*.gz | plimsoll replay - --target http://127.0.0.1:8080 --sample 10`
}

// Run replays the log and prints what came of it.
func (k *replayCommand) Run(ctx context.Context, c *console) error {
	options, err := k.options()
	if err != nil {
		return withExit{exitUsage, err}
	}
	log, err := input(ctx, func() (*replay.Log, error) { return replay.Open(k.Log, options) })
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		return withExit{exitUsage, err}
	}
	target, err := k.reach(ctx, k.Target, &k.protocolFlags)
	if err != nil {
		log.Close()
		return err
	}
	if target.Path != "/" {
		log.Close()
		return withExit{
			exitUsage,
			fmt.Errorf("--target: the log says the paths, so %s cannot be one: give scheme, "+
				"host and port alone", target.Path),
		}
	}
	loops := harness.Loops(k.Loops, k.Connections, harness.Local(&target))
	c.progress().show("reading " + k.Log)
	source, err := log.Start(ctx, loops, target.Authority)
	if errors.Is(err, replay.ErrNothing) {
		return withExit{exitUsage, err}
	}
	if err != nil {
		return stoppedEarly(ctx, err)
	}
	defer source.Close()
	folded := &perSecond{}
	o := offer{
		watch: folded.add,
		options: load.Options{
			Target:      target,
			Script:      source,
			Arrivals:    source.Arrivals,
			Connections: k.Connections,
			Streams:     k.streams(),
			Loops:       loops,
			Timeout:     k.Timeout,
		},
	}
	totals, early, err := o.run(ctx, c)
	if err != nil {
		return err
	}
	source.Close()
	stats := source.Stats()
	kept := folded.against(source.Plan(), totals.Length)
	if err := errors.Join(k.print(c, loops, &stats, kept, totals, early),
		source.Err()); err != nil {
		return err
	}
	return exitOfLoad(totals, early)
}

// options are what the flags say of the log.
func (k *replayCommand) options() (o replay.Options, err error) {
	if k.Connections < 1 || k.Loops < 0 || k.Sample < 1 {
		return o, errors.New("--connections, --loops and --sample must be at least 1")
	}
	if err := k.checkProtocol(); err != nil {
		return o, err
	}
	if noTime(k.Duration) || k.Timeout <= 0 || k.Timeout.Nanoseconds() > measure.Longest {
		return o, fmt.Errorf("--duration and --timeout must be longer than 0s, "+
			"and --timeout at most %v: leave --duration out to replay the log to its end",
			time.Duration(measure.Longest).Truncate(time.Second))
	}
	o = replay.Options{
		Format:      k.Format,
		Fields:      k.Field,
		Rate:        k.Rate,
		Sample:      k.Sample,
		Unsafe:      k.Unsafe,
		KeepHost:    k.KeepHost,
		Hosts:       k.Host,
		MaxDuration: given(k.Duration),
	}
	if k.Speed != "" {
		if o.Speed, err = replay.ParseSpeed(k.Speed); err != nil {
			return o, fmt.Errorf("--speed: %w", err)
		}
	}
	for _, m := range []struct {
		flag, text string
		into       *replay.Moment
	}{{"--from", k.From, &o.From}, {"--to", k.To, &o.To}} {
		if m.text == "" {
			continue
		}
		if *m.into, err = replay.ParseMoment(m.text); err != nil {
			return o, fmt.Errorf("%s: %w", m.flag, err)
		}
	}
	return o, nil
}

func (k *replayCommand) print(
	c *console, loops int, stats *replay.Stats, kept *text.Kept, t *measure.Totals, early string,
) error {
	if k.JSON {
		settings := k.note(map[string]string{
			"log":         k.Log,
			"connections": strconv.Itoa(k.Connections),
			"loops":       strconv.Itoa(loops),
			"timeout":     k.Timeout.String(),
			"sample":      strconv.Itoa(k.Sample),
			"unsafe":      strconv.FormatBool(k.Unsafe),
		})
		return c.json(document.NewReplay(k.Target, settings, t, early,
			document.Log{Stats: stats, Kept: kept}))
	}
	return c.print([]byte(fmt.Sprintf("%s at %s, over %s, with %s\n\n%s\n%s",
		format.Clean(k.Log), format.Clean(k.Target), k.over(k.Connections), many(loops, "loop"),
		text.Replay(stats, kept),
		text.Load(&text.Run{
			Totals: t,
			TLS:    strings.HasPrefix(k.Target, "https"),
			Asked:  k.streams(),
			Early:  early,
		}))))
}

// perSecond is what was due and sent in each second of a replay, which may last for days, without
// the windows' histograms.
type perSecond struct {
	mu      sync.Mutex
	windows []measure.Window
	last    *measure.Window // the last one that has a lag
}

// mostSeconds bounds what is kept: a replay of more than a week is compared with its log for its
// first week.
const mostSeconds = 7 * 86_400

func (p *perSecond) add(w *measure.Window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.Lag.Count() > 0 {
		p.last = w
	}
	second := w.Start / int64(time.Second)
	if second >= mostSeconds {
		return
	}
	if n := len(p.windows); n == 0 || p.windows[n-1].Start/int64(time.Second) != second {
		p.windows = append(p.windows, measure.Window{
			Start:  second * int64(time.Second),
			Length: int64(time.Second),
		})
	}
	into := &p.windows[len(p.windows)-1]
	into.Due += w.Due
	into.Sent += w.Sent
}

// against compares what was sent with the log's plan, in the steps of it that were whole when the
// run had lasted for so long.
func (p *perSecond) against(plan replay.ArrivalPlan, lasted int64) *text.Kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &text.Kept{}
	_, sent := plan.Fold(p.windows)
	k.Seconds = min(len(plan.Counts), int(lasted/int64(plan.Step)), mostSeconds)
	worst, at := replay.Compare(plan.Counts[:k.Seconds], sent[:k.Seconds])
	k.Worst, k.At = worst, time.Duration(at)*plan.Step
	if p.last != nil {
		k.Drift, k.Known = p.last.Lag.Quantile(.5), true
	}
	return k
}
