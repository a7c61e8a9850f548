package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// Figure is something measured in each run.
type Figure struct {
	Name string `json:"name"`
	// Unit is the unit of its values: "/s", "s", "B", "cores", "share", or empty for a count.
	Unit string `json:"unit"`
	// Up and Down are the words for a difference: "slower", "faster".
	Up   string `json:"up"`
	Down string `json:"down"`
	// Better is the word that means an improvement; empty if neither does.
	Better string `json:"better"`
}

// Names of figures from a metrics page and from a command's output.
const (
	commandPrefix = "command."
	gcCycles      = "gc_cycles"
)

// figures are the figures with fixed names.
var figures = []Figure{
	{"goodput", "/s", "more", "less", "more"},
	{"p50", "s", "slower", "faster", "faster"},
	{"p90", "s", "slower", "faster", "faster"},
	{"p99", "s", "slower", "faster", "faster"},
	{"p999", "s", "slower", "faster", "faster"},
	{"errors", "share", "more", "less", "less"},
	{"cpu_per_request", "s", "more", "less", "less"},
	{"cpu", "cores", "more", "less", ""},
	{"rss", "B", "more", "less", "less"},
	{gcCycles, "", "more", "less", ""},
}

// quantiles are the figures that are response times, with their quantiles.
var quantiles = map[string]float64{"p50": .5, "p90": .9, "p99": .99, "p999": .999}

// figureOf finds a figure by its name.
func figureOf(name string) (Figure, bool) {
	if i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == name }); i >= 0 {
		return figures[i], true
	}
	for _, prefix := range []string{measure.Metrics, commandPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return Figure{Name: name, Up: "more", Down: "less"}, true
		}
	}
	return Figure{}, false
}

func figureNames() []string {
	names := []string{measure.Metrics + "SERIES", commandPrefix + "KEY"}
	for _, f := range figures {
		names = append(names, f.Name)
	}
	return names
}

const (
	// maxFigure is the largest absolute value of a figure: differences between larger ones are no
	// longer finite numbers.
	maxFigure = 1e100
	// Every value of a figure must be above leastShare for its differences to be shares. The ratio
	// of a large value to a smaller one than that is not a finite number.
	leastShare = 1e-100
)

// raw is what a run has measured, before its figures are computed.
type raw struct {
	load          *measure.Totals
	timeout       float64 // seconds
	before, after map[string]float64
	rss           float64 // the highest value seen, in bytes; 0 if unknown
	command       map[string]float64
}

// figures computes the figures that a run has, and says why others are missing.
func (r *raw) figures(of []Figure) (values map[string]float64, missing []string) {
	values = make(map[string]float64, len(of))
	for _, f := range of {
		v, why := r.figure(f.Name)
		if why == "" && !(math.Abs(v) <= maxFigure) {
			why = fmt.Sprintf("%g is nothing that can be judged", v)
		}
		if why != "" {
			missing = append(missing, f.Name+": "+why)
			continue
		}
		values[f.Name] = v
	}
	return values, missing
}

func (r *raw) figure(name string) (v float64, why string) {
	if _, is := strings.CutPrefix(name, measure.Metrics); is {
		return r.grown(name)
	}
	if key, is := strings.CutPrefix(name, commandPrefix); is {
		v, ok := r.command[key]
		if !ok {
			return 0, fmt.Sprintf("the command's JSON has no number %q", key)
		}
		return v, ""
	}
	switch name {
	case gcCycles:
		// Old and new names, as the scraper or the page itself uses them.
		for _, series := range []string{
			measure.GoGCCycles,
			measure.Metrics + "go_gc_duration_seconds_count",
			measure.Metrics + "go_gc_cycles_total_gc_cycles_total",
		} {
			if v, why = r.grown(series); why == "" {
				return v, ""
			}
		}
		return 0, "the metrics page has no series of Go's collector"
	case "rss":
		if r.rss == 0 {
			return 0, "the service's memory could not be read"
		}
		return r.rss, ""
	}
	return r.ofLoad(name)
}

// grown is the increase of a counter during the load.
func (r *raw) grown(series string) (v float64, why string) {
	a, before := r.before[series]
	b, after := r.after[series]
	if !before || !after {
		return 0, "it was not there before and after the load"
	}
	return b - a, ""
}

// ofLoad is a figure that requires a load.
func (r *raw) ofLoad(name string) (v float64, why string) {
	t := r.load
	if t == nil {
		return 0, "there is no load"
	}
	if q, is := quantiles[name]; is {
		ns, ok := t.Quantile(q)
		if !ok {
			// The quantile lies among failed requests. It counts as the timeout, which is longer
			// than any good answer took.
			return r.timeout, ""
		}
		return float64(ns) / 1e9, ""
	}
	total := float64(t.Ended.Total())
	switch name {
	case "goodput":
		return t.Goodput(), ""
	case "errors":
		return float64(t.Ended.Failed()) / max(total, 1), ""
	}
	used, why := r.grown(measure.TargetCPU)
	if why != "" {
		return 0, "the service's processor time could not be read"
	}
	if name == "cpu" {
		return used / (float64(max(t.Length+t.Drain, 1)) / 1e9), ""
	}
	return used / max(total, 1), ""
}
