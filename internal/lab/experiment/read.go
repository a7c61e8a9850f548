package experiment

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/config/strict"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/scenario"
)

// The bounds of an experiment.
const (
	maxFile     = 1 << 20 // bytes of the file
	maxValues   = 20
	maxFigures  = 30
	maxRepeat   = 500
	maxPairs    = 5 // values if each is compared with each
	maxCommands = 50
	maxWords    = 200
	maxTime     = time.Hour // of each part of a run
	maxText     = 64 << 10  // bytes of a text
	leastAlpha  = 1e-6
)

// Defaults.
const (
	usualRepeat      = 10
	usualCool        = time.Second
	usualGrace       = 5 * time.Second
	usualWithin      = 10 * time.Second
	usualConnections = 64
	usualWarmup      = 2 * time.Second
	usualDuration    = 10 * time.Second
	usualTimeout     = 5 * time.Second
	usualAlpha       = 0.05
	usualRelevant    = 0.01
)

// Read reads an experiment from a file. The error is a config.Errors with all problems, one per
// line. It also reads the scenario, if there is one. It starts nothing.
func Read(path string) (*Experiment, error) {
	r := &strict.Reader{
		File:  path,
		Dir:   filepath.Dir(path),
		Docs:  "docs/experiment.md",
		Least: "it needs vary, start, ready, load and measure, as docs/experiment.md shows",
	}
	src, err := strict.Read(path, maxFile)
	if err != nil {
		return nil, config.Errors{{
			File: path,
			Problem: fmt.Sprintf("the experiment cannot be read: %v; "+
				"give the path of a readable file", err),
		}}
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return nil, config.Errors{{
			File:    path,
			Problem: fmt.Sprintf("its folder cannot be found: %v", err),
		}}
	}
	e := &Experiment{
		file:     path,
		dir:      dir,
		source:   string(src),
		Repeat:   usualRepeat,
		Alpha:    usualAlpha,
		Relevant: usualRelevant,
		Cool:     usualCool,
		Grace:    usualGrace,
	}
	if root, ok := r.Parse(src); ok {
		e.read(root)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return e, nil
}

// read fills the experiment from the file's top level.
func (e *Experiment) read(root strict.Value) {
	top, ok := root.Fields("name", "question", "vary", "baseline", "compare", "setup", "env",
		"config", "sysctl", "start", "ready", "load", "metrics",
		"command", "measure", "repeat", "cool", "stop_within", "alpha", "relevant")
	if !ok {
		return
	}
	e.Name = strings.TrimSuffix(filepath.Base(e.file), filepath.Ext(e.file))
	for name, into := range map[string]*string{"name": &e.Name, "question": &e.Question} {
		if v, ok := top.Get(name); ok {
			*into, _ = plain(v)
		}
	}
	if v, ok := top.Need("vary"); ok {
		e.readVary(v)
	}
	e.readCompare(top)
	if v, ok := top.Get("setup"); ok {
		e.setup = readCommands(v)
	}
	if v, ok := top.Need("start"); ok {
		e.start = readCommand(v, allVariables)
	}
	e.readSettings(top)
	if v, ok := top.Need("ready"); ok {
		e.readReady(v)
	}
	if v, ok := top.Get("load"); ok {
		e.Load = readLoad(v)
	}
	if v, ok := top.Get("metrics"); ok {
		e.metrics, _ = filled(v, allVariables)
	}
	if v, ok := top.Get("command"); ok {
		e.command = readCommand(v, allVariables)
	}
	if e.Load == nil && e.command == nil {
		root.Fail("nothing measures; add a load, or a command that prints figures as JSON")
	}
	if v, ok := top.Need("measure"); ok {
		e.readMeasure(v)
	}
	e.readNumbers(top)
}

// readNumbers reads the repetitions, times and statistical levels.
func (e *Experiment) readNumbers(top strict.Fields) {
	if v, ok := top.Get("repeat"); ok {
		if n, ok := between(v, 1, maxRepeat); ok {
			e.Repeat = int(n)
		}
	}
	for name, into := range map[string]*time.Duration{"cool": &e.Cool, "stop_within": &e.Grace} {
		if v, ok := top.Get(name); ok {
			readTime(v, into, 0)
		}
	}
	for name, into := range map[string]*float64{"alpha": &e.Alpha, "relevant": &e.Relevant} {
		v, ok := top.Get(name)
		if !ok {
			continue
		}
		n, ok := share(v)
		if ok && (n >= .5 || n < 0 || name == "alpha" && n < leastAlpha) {
			v.Fail("%v is not a share that makes sense here; write one such as 0.05 or 5%%", n)
		}
		*into = n
	}
}

// share reads a number from 0 to 1, or a percentage.
func share(v strict.Value) (float64, bool) {
	text, ok := v.Scalar()
	if !ok {
		return 0, false
	}
	if p, err := config.ParsePercent(text); err == nil && strings.HasSuffix(text, "%") {
		return float64(p), true
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		v.Wrong("a share, such as 0.05 or 5%")
		return 0, false
	}
	return n, true
}

// readVary reads the values that differ.
func (e *Experiment) readVary(v strict.Value) {
	f, ok := v.Fields("name", "values")
	if !ok {
		return
	}
	if at, ok := f.Need("name"); ok {
		e.Variable, _ = plain(at)
	}
	at, ok := f.Need("values")
	if !ok {
		return
	}
	all, ok := at.List()
	if !ok {
		return
	}
	if len(all) < 2 || len(all) > maxValues {
		at.Fail("%d values; an experiment compares 2 to %d", len(all), maxValues)
		return
	}
	for i, one := range all {
		value := readValue(one)
		if slices.ContainsFunc(e.Values, func(o Value) bool { return o.Name == value.Name }) {
			one.Fail("value %d has the name of another one, %q; give it one of its own, "+
				"as {name: off, value: \"0\"}", i+1, strict.Clip(value.Name))
		}
		e.Values = append(e.Values, value)
	}
}

// nameForm is the form of a value's name: the name may become part of a file name.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+%=-]{0,39}$`)

func readValue(v strict.Value) (value Value) {
	if v.IsScalar() {
		value.Value, _ = filled(v, valueVariables)
		if value.Name = value.Value; !nameForm.MatchString(value.Name) {
			v.Fail("%q cannot be a name, which is up to 40 letters, digits and . _ + %% = -; "+
				"give it one, as {name: off, value: ...}", strict.Clip(value.Name))
		}
		return value
	}
	f, ok := v.Fields("name", "value")
	if !ok {
		return value
	}
	if at, ok := f.Need("name"); ok {
		if value.Name, ok = at.Scalar(); ok && !nameForm.MatchString(value.Name) {
			at.Fail("%q is not a name; write up to 40 letters, digits and . _ + %% = -",
				strict.Clip(value.Name))
		}
	}
	value.Value = value.Name
	if at, ok := f.Get("value"); ok {
		value.Value, _ = filled(at, valueVariables)
	}
	return value
}

// readCompare reads which values are compared.
func (e *Experiment) readCompare(top strict.Fields) {
	v, named := top.Get("baseline")
	if named {
		name, ok := v.Scalar()
		e.Baseline = max(slices.IndexFunc(e.Values, func(o Value) bool { return o.Name == name }),
			0)
		if ok && len(e.Values) > 0 && e.Values[e.Baseline].Name != name {
			names := make([]string, len(e.Values))
			for i, o := range e.Values {
				names[i] = o.Name
			}
			v.Fail("%q is not one of the values; %s", strict.Clip(name), config.Suggest(name, names))
		}
	}
	at, ok := top.Get("compare")
	if !ok {
		return
	}
	text, ok := at.Text()
	switch known := []string{"baseline", "all", "previous"}; {
	case !ok:
	case !slices.Contains(known, text):
		at.Fail("%q is not a way to compare; %s", strict.Clip(text), config.Suggest(text, known))
	case text == "all" && named:
		at.Fail("each value is compared with each, so that there is no baseline; " +
			"remove one of the two")
	case text == "previous" && named:
		at.Fail("each value is compared with the one before it, so that there is no baseline; " +
			"remove one of the two")
	case text == "all" && len(e.Values) > maxPairs:
		at.Fail("%d values make too many pairs to say much about any; compare all of at most %d, "+
			"or with a baseline", len(e.Values), maxPairs)
	default:
		e.AllPairs, e.Previous = text == "all", text == "previous"
	}
}

// readMeasure reads the figures.
func (e *Experiment) readMeasure(v strict.Value) {
	all, ok := v.List()
	if !ok {
		return
	}
	if len(all) == 0 || len(all) > maxFigures {
		v.Fail("%d figures; name 1 to %d, such as [goodput, p99]", len(all), maxFigures)
		return
	}
	for _, at := range all {
		name, ok := at.Text()
		if !ok {
			continue
		}
		f, known := figureOf(name)
		_, ofPage := strings.CutPrefix(name, measure.Metrics)
		_, ofCommand := strings.CutPrefix(name, commandPrefix)
		ofPage = ofPage || name == gcCycles
		switch {
		case !known:
			at.Fail("%q is not a figure; %s",
				strict.Clip(name), config.Suggest(name, figureNames()))
		case slices.Contains(e.Figures, f):
			at.Fail("%s is measured already; remove it", strict.Clip(name))
		case ofPage && e.metrics == "":
			at.Fail("%s is read from a page of metrics; add metrics: "+
				"http://127.0.0.1:${admin_port}/metrics", strict.Clip(name))
		case ofCommand && e.command == nil:
			at.Fail("%s is read from what a command prints; add command: [...]", strict.Clip(name))
		case !ofCommand && name != "rss" && e.Load == nil:
			at.Fail("%s takes a load; add load: {url: ...}", strict.Clip(name))
		}
		e.needPage = e.needPage || ofPage
		e.Figures = append(e.Figures, f)
	}
}

// sysctlForm is a kernel setting that may belong to a network namespace.
var sysctlForm = regexp.MustCompile(`^net(\.[a-z0-9_-]+)+$`)

// environmentForm is the form of an environment variable's name.
var environmentForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readSettings reads the settings made before the service starts.
func (e *Experiment) readSettings(top strict.Fields) {
	for name, into := range map[string]*[]setting{"env": &e.env, "sysctl": &e.sysctl} {
		v, ok := top.Get(name)
		if !ok {
			continue
		}
		pairs, _ := v.Pairs()
		if len(pairs) > maxCommands {
			v.Fail("%d of them; %d are the most", len(pairs), maxCommands)
			continue
		}
		for _, p := range pairs {
			switch {
			case name == "env" && !environmentForm.MatchString(p.Name):
				p.Key.Fail("%q is not a name of an environment variable; it has letters, "+
					"digits and \"_\"", strict.Clip(p.Name))
			case name == "sysctl" && !sysctlForm.MatchString(p.Name):
				p.Key.Fail("%q cannot be set; only settings of the network, "+
					"as net.ipv4.tcp_tw_reuse, exist once for each namespace", strict.Clip(p.Name))
			}
			text, _ := filled(p.Value, allVariables)
			*into = append(*into, setting{p.Name, text})
		}
	}
	v, ok := top.Get("config")
	if !ok {
		return
	}
	f, ok := v.Fields("file", "content")
	if !ok {
		return
	}
	var s setting
	if at, ok := f.Need("file"); ok {
		s.name, _ = filled(at, allVariables)
		rest, inside := strings.CutPrefix(s.name, "${"+varWork+"}/")
		if !inside || !filepath.IsLocal(rest) {
			at.Fail("the file is written, and so must lie in the experiment's own folder; "+
				"write ${work}/%s", filepath.Base(s.name))
		}
	}
	if at, ok := f.Need("content"); ok {
		s.text, _ = filled(at, allVariables)
	}
	e.config = append(e.config, s)
}

// readReady reads how the service shows that it is ready.
func (e *Experiment) readReady(v strict.Value) {
	e.ready.within = usualWithin
	f, ok := v.Fields("url", "line", "port", "within")
	if !ok {
		return
	}
	kind, ok := f.One("url", "line", "port")
	if ok {
		at, _ := f.Get(kind)
		*map[string]*string{
			"url":  &e.ready.url,
			"line": &e.ready.line,
			"port": &e.ready.port,
		}[kind], _ = filled(at, allVariables)
	}
	if at, ok := f.Get("within"); ok {
		readTime(at, &e.ready.within, time.Millisecond)
	}
}

// readLoad reads the load.
func readLoad(v strict.Value) *Load {
	l := &Load{
		Connections: usualConnections,
		Warmup:      usualWarmup,
		Duration:    usualDuration,
		Timeout:     usualTimeout,
		Arrivals:    "poisson",
	}
	f, ok := v.Fields("url", "rate", "arrivals", "connections", "new_connections", "warmup",
		"duration", "timeout", "scenario", "method", "headers", "body")
	if !ok {
		return l
	}
	if at, ok := f.Need("url"); ok {
		l.URL, _ = filled(at, allVariables)
	}
	if at, ok := f.Get("rate"); ok {
		if l.Rate, ok = at.Number(); ok && (l.Rate <= 0 || l.Rate > 1e7) {
			at.Fail("%v requests a second cannot be offered; give a rate above 0, "+
				"or leave it out for a closed loop", l.Rate)
		}
	}
	if at, ok := f.Get("arrivals"); ok {
		text, isText := at.Text()
		if known := []string{"poisson", "constant"}; isText && !slices.Contains(known, text) {
			at.Fail("%q is not a kind of arrivals; %s",
				strict.Clip(text), config.Suggest(text, known))
		}
		l.Arrivals = text
		if !f.Has("rate") {
			at.Fail("a closed loop has no arrivals; add a rate, or remove this")
		}
	}
	if at, ok := f.Get("connections"); ok {
		n, _ := between(at, 1, 100_000)
		l.Connections = int(n)
	}
	if at, ok := f.Get("new_connections"); ok {
		text, _ := at.Scalar()
		if text != "true" && text != "false" {
			at.Wrong("true or false")
		}
		l.Fresh = text == "true"
	}
	for name, into := range map[string]*time.Duration{
		"warmup":   &l.Warmup,
		"duration": &l.Duration,
		"timeout":  &l.Timeout,
	} {
		if at, ok := f.Get(name); ok {
			least := 10 * time.Millisecond
			if name == "warmup" {
				least = 0
			}
			readTime(at, into, least)
		}
	}
	l.readRequest(f, v.In.Dir)
	return l
}

// readRequest reads the request.
func (l *Load) readRequest(f strict.Fields, dir string) {
	if at, ok := f.Get("scenario"); ok {
		l.Scenario, _ = at.Text()
		if f.Has("method") || f.Has("headers") || f.Has("body") {
			at.Fail("the scenario describes the requests; leave out method, headers and body, " +
				"or the scenario")
		}
		if !filepath.IsAbs(l.Scenario) {
			l.Scenario = filepath.Join(dir, l.Scenario)
		}
		if _, err := scenario.Load(l.Scenario, load.Target{
			Authority: "127.0.0.1",
			Path:      "/",
		}); err != nil {
			at.Fail("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	for name, into := range map[string]*string{"method": &l.Method, "body": &l.Body} {
		if at, ok := f.Get(name); ok {
			*into, _ = filled(at, allVariables)
		}
	}
	if at, ok := f.Get("headers"); ok {
		pairs, _ := at.Pairs()
		for _, p := range pairs {
			text, _ := filled(p.Value, allVariables)
			l.Headers = append(l.Headers, p.Name+": "+text)
		}
	}
}

// readCommands reads a list of commands.
func readCommands(v strict.Value) (all [][]string) {
	list, _ := v.List()
	if len(list) > maxCommands {
		v.Fail("%d commands; %d are the most", len(list), maxCommands)
		return nil
	}
	for _, one := range list {
		all = append(all, readCommand(one, setupVariables))
	}
	return all
}

// readCommand reads a program and its arguments. No shell interprets them.
func readCommand(v strict.Value, known []string) (words []string) {
	if v.IsScalar() {
		v.Fail("a command is a list, as no shell reads it; write [\"./server\", " +
			"\"--port=${port}\"]")
		return nil
	}
	list, ok := v.List()
	if !ok {
		return nil
	}
	if len(list) == 0 || len(list) > maxWords {
		v.Fail("%d words; a command is a program and its arguments, %d at most",
			len(list), maxWords)
		return nil
	}
	for i, one := range list {
		text, ok := filled(one, known)
		if ok && i == 0 && text == "" {
			one.Fail("the program is empty; name it")
		}
		words = append(words, text)
	}
	return words
}

// filled reads a text whose variables are replaced later.
func filled(v strict.Value, known []string) (string, bool) {
	text, ok := plain(v)
	if !ok {
		return "", false
	}
	if err := checkVariables(text, known); err != nil {
		v.Fail("%v", err)
		return "", false
	}
	return text, true
}

// plain reads a text or number of bounded length.
func plain(v strict.Value) (string, bool) {
	text, ok := v.Scalar()
	if ok && (len(text) > maxText || strings.ContainsRune(text, 0)) {
		v.Fail("the text has %d bytes; it may have %d, none of them 0",
			len(text), maxText)
		return "", false
	}
	return text, ok
}

func between(v strict.Value, least, most int64) (int64, bool) {
	n, ok := v.Whole()
	if ok && (n < least || n > most) {
		v.Fail("%d is not within %d and %d", n, least, most)
		return least, false
	}
	return n, ok
}

func readTime(v strict.Value, into *time.Duration, least time.Duration) {
	d, ok := v.Duration()
	if ok && (time.Duration(d) < least || time.Duration(d) > maxTime) {
		v.Fail("%v is not within %v and %v", d, least, maxTime)
		return
	}
	*into = time.Duration(d)
}
