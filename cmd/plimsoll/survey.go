package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profiler"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/remote"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stacks"
	"plimsoll/internal/lab/survey"
	"plimsoll/internal/lab/text"
)

type surveyCommand struct {
	URL            string   `arg:"" help:"The target, such as http://127.0.0.1:8080/path."`
	SLO            string   `name:"slo" required:"" placeholder:"OBJECTIVES" help:"${survey_slo}"`
	Scenario       string   `placeholder:"FILE" help:"${survey_scenario}"`
	PID            int      `name:"pid" placeholder:"N" help:"${survey_pid}"`
	Pprof          string   `placeholder:"URL" help:"${survey_pprof}"`
	Perf           bool     `help:"Have the kernel profile the target, whatever its language."`
	Inspect        string   `placeholder:"URL" help:"${inspect}"`
	ProfileCommand string   `placeholder:"COMMAND" help:"${survey_profile_command}"`
	ProfileHertz   float64  `placeholder:"N" help:"${profile_hertz}"`
	Metrics        []string `sep:"none" placeholder:"URL" help:"${survey_metrics}"`
	Deep           bool     `help:"${deep}"`
	Runs           int      `default:"5" placeholder:"N" help:"${survey_runs} (${default})."`
	Quick          bool     `help:"Take less time. The result is less certain."`
	Out            string   `placeholder:"DIR" help:"The run directory (plimsoll-runs/HOST-DATE-TIME)."`
	Export         string   `placeholder:"FILE" help:"${survey_export}"`
	Start          float64  `placeholder:"RATE" help:"Start with this rate (chosen automatically)."`
	Limit          float64  `placeholder:"RATE" help:"${survey_limit}"`
	Overshoot      float64  `default:"2" placeholder:"TIMES" help:"${survey_overshoot} (${default})."`

	Arrivals string `enum:"poisson,constant" default:"poisson" placeholder:"KIND" help:"${survey_arrivals}"`

	Connections    int           `short:"c" placeholder:"N" help:"${survey_connections}"`
	NewConnections bool          `help:"Use a new connection for each request."`
	Loops          int           `short:"t" placeholder:"N" help:"${loops}"`
	Timeout        time.Duration `default:"5s" placeholder:"TIME" help:"${timeout} (${default})."`
	Seed           uint64        `default:"1" placeholder:"N" help:"${seed} (${default})."`
	JSON           bool          `help:"Print the result as JSON."`
	generatorFlags
	protocolFlags
	requestFlags
	connectionFlags `group:"TLS"`
}

// Help is shown by plimsoll survey --help.
func (surveyCommand) Help() string {
	return `Finds the load line of a service: the highest rate at which it still meets the
objectives, as a confidence interval. It warms the service up, brackets the line, measures how much
two equal steps differ, refines the line with short steps above and below it, and measures what
happens beyond it. It never offers more than --overshoot times the highest rate that passed, and
stops when the target breaks. Survey only what you may overload.

At the end, even after Ctrl-C, the run directory has the raw results and report.html. A second
Ctrl-C ends the process at once. The service may be written in any language. It must speak HTTP/1.1,
HTTP/2 (with --http2) or HTTP/3 (with --http3).

Exit codes: 0, the line was found; 1, the command line or the scenario is wrong; 2, it could not
start or continue (nothing listens, TLS is refused, the name cannot be resolved, the disk is full);
3, it ended early or found no line.

Examples:

    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms,errors<0.1%'
    plimsoll survey http://127.0.0.1:8080/ --slo 'p99.9<200ms' --quick --limit 5000
    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms' --scenario shop.yaml --pid $(pidof shop)
    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms' --pprof http://127.0.0.1:6060 --metrics http://127.0.0.1:9090/metrics
    plimsoll survey http://10.0.0.7:8080/ --slo 'p99<50ms' --generator load@gen1 --generator load@gen2:2222
    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms' --inspect http://127.0.0.1:9229
    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms' --perf --pid $(pidof -s nginx)
    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms' \
      --profile-command 'py-spy record -d {seconds} -p {pid} -f raw -o {out}'
    plimsoll survey https://127.0.0.1:8443/ --slo 'p99<50ms' --insecure --http2 --streams 32
    plimsoll survey https://127.0.0.1:8443/ --slo 'errors<1%' --insecure --out runs/today --export line.json`
}

// Run finds the line and writes everything down.
func (k *surveyCommand) Run(ctx context.Context, c *console) error {
	objectives, err := k.check()
	if err != nil {
		return withExit{exitUsage, err}
	}
	if err := cmp.Or(emptyDirectory("--out", k.Out), hasFolder("--export", k.Export)); err != nil {
		return withExit{exitUsage, err}
	}
	target, err := k.reach(ctx, k.URL, &k.protocolFlags)
	if err != nil {
		return err
	}
	work, script, mix, err := k.mix(ctx, target)
	if err != nil {
		return err
	}
	if k.PID > 0 && harness.Local(&target) && errors.Is(syscall.Kill(k.PID, 0), syscall.ESRCH) {
		return withExit{
			exitUsage,
			fmt.Errorf("--pid: there is no process %d on this machine: leave it out, "+
				"and it is found by the port", k.PID),
		}
	}
	generators, end, err := k.generators(ctx, c, work, script)
	if err != nil {
		return err
	}
	defer end()
	dir := cmp.Or(k.Out, runDirectory(target.Authority, time.Now()))
	p := c.progress()
	result, err := harness.Run(ctx, harness.Options{
		Survey: survey.Options{
			SLO:         objectives,
			Arrivals:    k.Arrivals,
			Runs:        k.Runs,
			Quick:       k.Quick,
			Start:       k.Start,
			Limit:       k.Limit,
			Overshoot:   k.Overshoot,
			Connections: k.Connections,
			Streams:     k.streams(),
			Seed:        k.Seed,
			Tell:        tell(p),
		},
		Dir: dir,
		Manifest: record.Manifest{
			Tool:     tool(),
			Command:  withoutSecrets(os.Args),
			Target:   k.URL,
			Mix:      mix,
			Settings: k.settings(),
		},
		Target:         target,
		Script:         script,
		Generators:     generators,
		PID:            k.PID,
		Loops:          k.Loops,
		Timeout:        k.Timeout,
		NewConnections: k.NewConnections,
		Pprof:          k.Pprof,
		ProfileCommand: k.ProfileCommand,
		Perf:           k.Perf,
		Inspect:        k.Inspect,
		ProfileHertz:   k.ProfileHertz,
		Metrics:        k.Metrics,
		Deep:           k.Deep,
	})
	p.clear()
	if result == nil {
		return stoppedEarly(ctx, err)
	}
	if err = cmp.Or(err, k.conclude(c, dir)); err != nil {
		return err
	}
	return exitOfSurvey(result)
}

// generators are where the load comes from, nil for this process; end ends them.
func (k *surveyCommand) generators(
	ctx context.Context, c *console, work *remote.Work, script load.Script,
) (g harness.Generators, end func(), err error) {
	if !k.far() {
		return nil, func() {}, nil
	}
	fleet, err := k.open(ctx, c, work, script, k.Loops)
	if err != nil {
		return nil, nil, err
	}
	return fleet, fleet.Close, nil
}

// exitOfSurvey is nil when a line was found.
func exitOfSurvey(r *record.Result) error {
	if r.Early != "" || !r.Line.Found {
		return withExit{exitUnexpected, silent{errors.New("no line, or not the whole survey")}}
	}
	return nil
}

// check refuses what makes no sense, before anything is touched.
func (k *surveyCommand) check() (slo.SLO, error) {
	objectives, err := slo.Parse(k.SLO)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--slo: %w", err)
	case k.Pprof != "" && !webAddress(k.Pprof) ||
		slices.ContainsFunc(k.Metrics, func(u string) bool { return !webAddress(u) }):
		return nil, errors.New("--pprof and --metrics must be URLs that begin with http:// or https://")
	case len(k.Metrics) > mostPages:
		return nil, fmt.Errorf("--metrics is given %d times at most: "+
			"each page costs the target something", mostPages)
	case k.Runs < 1:
		return nil, errors.New("--runs must be at least 1")
	case !(k.Start >= 0) || !(k.Limit >= 0) || math.IsInf(max(k.Start, k.Limit), 0):
		return nil, errors.New("--start and --limit must be rates above 0")
	case k.Limit > 0 && k.Start > k.Limit:
		return nil, errors.New("--start must not be above --limit: begin with a lower rate")
	case !(k.Overshoot > 1):
		return nil, errors.New("--overshoot must be above 1: the line can only be found " +
			"from both sides")
	case k.checkProfiler() != nil:
		return nil, k.checkProfiler()
	case k.checkProtocol() != nil:
		return nil, k.checkProtocol()
	case k.checkGenerators() != nil:
		return nil, k.checkGenerators()
	case k.Connections < 0 || k.Loops < 0 || k.PID < 0:
		return nil, errors.New("--connections, --loops and --pid must be at least 1")
	case k.Timeout <= 0 || k.Timeout.Nanoseconds() > measure.Longest:
		return nil, fmt.Errorf("--timeout must be above 0s and at most %v",
			time.Duration(measure.Longest).Truncate(time.Second))
	case k.Timeout.Nanoseconds() <= objectives.Longest():
		return nil, errors.New("--timeout is not above the objectives' longest limit: " +
			"every slow request would count as failed; give a longer one")
	case k.Scenario != "" && k.given():
		return nil, errors.New("the scenario describes the requests: leave out --header, " +
			"--method and --body, or --scenario")
	}
	return objectives, nil
}

// checkProfiler refuses what makes no sense of how profiles are to be taken.
func (k *surveyCommand) checkProfiler() error {
	ways := 0
	for _, given := range []bool{k.Perf, k.Inspect != "", k.ProfileCommand != ""} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("--perf, --inspect and --profile-command all take the processor's " +
			"profile: give one of them")
	}
	if !stacks.ValidHertz(k.ProfileHertz) {
		return fmt.Errorf("--profile-hertz must be 1 to %v", stacks.MostHertz)
	}
	if k.ProfileCommand != "" {
		if _, err := profiler.NewCommand(k.ProfileCommand, 0, 0); err != nil {
			return fmt.Errorf("--profile-command: %w", err)
		}
	}
	if k.Inspect != "" {
		if _, err := profiler.NewInspector(k.Inspect); err != nil {
			return fmt.Errorf("--inspect: %w", err)
		}
	}
	return nil
}

// mostPages is how many metrics pages a survey reads.
const mostPages = 4

// webAddress says whether a URL can be fetched.
func webAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// mix is what is sent, as generators on other machines and as this one take it, and what that is in
// words.
func (k *surveyCommand) mix(
	ctx context.Context, target load.Target,
) (*remote.Work, load.Script, string, error) {
	work, err := k.work(ctx, k.URL, k.HTTP3, &k.requestFlags, target)
	if err != nil {
		return nil, nil, "", err
	}
	if k.Scenario == "" {
		return work, work.Script(), k.words(&target), nil
	}
	s, err := work.ReadScenario(k.Scenario, target)
	if err != nil {
		return nil, nil, "", err
	}
	return work, s.Script(), s.Mix(), nil
}

// settings are what the run directory says of the flags.
func (k *surveyCommand) settings() map[string]string {
	return k.note(map[string]string{
		"arrivals":        k.Arrivals,
		"runs":            strconv.Itoa(k.Runs),
		"quick":           strconv.FormatBool(k.Quick),
		"start":           numberOr(k.Start, "found"),
		"limit":           numberOr(k.Limit, "none"),
		"overshoot":       strconv.FormatFloat(k.Overshoot, 'g', -1, 64),
		"connections":     numberOr(k.Connections, "as the rate needs"),
		"timeout":         k.Timeout.String(),
		"seed":            strconv.FormatUint(k.Seed, 10),
		"scenario":        k.Scenario,
		"resumption":      strconv.FormatBool(!k.NoResumption),
		"new_connections": strconv.FormatBool(k.NewConnections),
		"profiles":        strconv.FormatBool(k.Pprof != ""),
		"profile_command": k.ProfileCommand,
		"perf":            strconv.FormatBool(k.Perf),
		"inspect":         strconv.FormatBool(k.Inspect != ""),
		"metrics":         strconv.Itoa(len(k.Metrics)),
		"deep":            strconv.FormatBool(k.Deep),
		"generators":      k.names(),
	})
}

func numberOr[T int | float64](v T, none string) string {
	if v == 0 {
		return none
	}
	return fmt.Sprint(v)
}

// runsFolder is where runs go that were given no place, and stampForm makes the end of their names.
const (
	runsFolder = "plimsoll-runs"
	stampForm  = "20060102-150405"
)

// runDirectory is where a run goes that was given no place.
func runDirectory(authority string, now time.Time) string {
	host := authority
	if u, err := url.Parse("http://" + authority); err == nil && u.Hostname() != "" {
		host = u.Hostname()
	}
	host = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' ||
			r == '-' {
			return r
		}
		return '_'
	}, strings.TrimLeft(host, "."))
	return filepath.Join(runsFolder, host+"-"+now.Format(stampForm))
}

// tell shows what a survey does. Its news, such as the line that it predicts before it looks for
// it, stays; on a terminal there is a line below that is drawn again and again, and elsewhere one
// for each step that has ended.
func tell(p *progress) func(survey.Event) {
	live := &recent{}
	return func(e survey.Event) {
		if e.Text != "" {
			p.say(format.Clean(e.Text))
			return
		}
		if !p.terminal() {
			if e.Judgement != nil {
				p.say(text.Step(&e.Plan, e.Judgement))
			}
			return
		}
		var last []*measure.Window
		if e.Window != nil {
			last = live.add(e.Window)
		} else {
			live.forget()
		}
		p.show(text.SurveyNow(&e, last))
	}
}

// conclude reads the run again, as everybody else will, and says what was found and where it is.
func (k *surveyCommand) conclude(c *console, dir string) error {
	run, err := record.Open(dir)
	if err != nil {
		return err
	}
	d := diagnosisOf(run)
	page, err := writeReport(run, d, filepath.Join(dir, "report.html"))
	if err != nil {
		return err
	}
	if k.Export != "" {
		line, err := record.Export(run)
		if err != nil {
			return fmt.Errorf("--export: %w", err)
		}
		if err := writeFile(k.Export, line); err != nil {
			return fmt.Errorf("--export: %w", err)
		}
	}
	if k.JSON {
		return c.json(document.NewSurvey(run, page, d))
	}
	summary := text.Survey(&run.Manifest, run.Result)
	if d != nil {
		summary += "\n" + text.DiagnosisInBrief(d, dir)
	}
	return c.print([]byte(fmt.Sprintf("%s\nrun     %s\nreport  %s\n", summary, dir, page)))
}
