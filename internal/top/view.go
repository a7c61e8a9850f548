package top

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"plimsoll/internal/lab/format"
)

// order is what the rows are sorted by.
type order uint8

const (
	asConfigured order = iota
	byRate
	byP99
	byErrors
	orders
)

var orderText = [orders]string{"as configured", "rate", "p99", "errors"}

// screen is what is shown of figures, and where.
type screen struct {
	width  int
	height int // 0: everything
	scroll int // rows of the tables that are above
	order  order
	colour bool
	help   bool
	footer []text // below everything, each a line
}

// wide is the width from which there is room for intervals.
const wide = 100

// Text is figures as lines of so many columns.
func Text(f *Figures, width int, colour bool) string {
	return strings.Join(lines(f, screen{width: width, colour: colour}), "\n") + "\n"
}

// lines are what stands on a screen. None is wider than it, and there are no more than it is high.
func lines(f *Figures, s screen) []string {
	head, body := headline(f, s), body(f, s)
	var foot []string
	for _, t := range s.footer {
		foot = append(foot, text{fit(t.words, s.width), t.tone}.paint(s.colour))
	}
	if s.height == 0 {
		return slices.Concat(head, body, foot)
	}
	room := max(0, s.height-len(head)-len(foot))
	from := min(s.scroll, max(0, len(body)-room))
	body = body[from:min(len(body), from+room)]
	blank := make([]string, max(0, room-len(body)))
	all := slices.Concat(head, body, blank, foot)
	return all[:min(len(all), s.height)]
}

// rows is how many lines of a screen can be scrolled, and how many of them it has room for.
func rows(f *Figures, s screen) (all, room int) {
	return len(body(f, s)), max(0, s.height-len(headline(f, s))-len(s.footer))
}

// headline says how the instance is.
func headline(f *Figures, s screen) []string {
	g := &f.Gateway
	state := text{g.State, plain}
	if g.State != "serving" || g.Lacks != "" {
		state.tone = caution
	}
	first := []text{{"plimsoll top", strong}, {f.Address, plain}, state,
		{"last " + format.Duration(f.Length*1e9), plain}}
	rate := text{unknown + "/s", strong}
	if g.Rate != nil {
		rate.words = perSecond(*g.Rate) + "/s"
	}
	second := []text{rate, headroomLine(g)}
	if len(g.Loops) > 0 {
		second = append(second, busyLine(g.Loops))
	}
	if g.InFlight != nil {
		second = append(second, text{format.Count(*g.InFlight) + " in flight", plain})
	}
	out := append(joined(first, s), joined(second, s)...)
	if g.Lacks != "" {
		out = append(out, text{fit("not ready: "+g.Lacks, s.width), caution}.paint(s.colour))
	}
	for _, note := range f.Notes {
		out = append(out, text{fit(note, s.width), caution}.paint(s.colour))
	}
	return append(out, "")
}

func headroomLine(g *Instance) text {
	h := g.Headroom.Headroom
	if h == nil {
		return text{"headroom: unknown (" + g.Why + ")", plain}
	}
	words := "headroom " + wholePercent(h.Estimate) + " % (" + between(h) + ")"
	if g.Limit != "" {
		words += ", limit: " + g.Limit
	}
	if g.Age != nil && *g.Age > stale {
		words += ", " + format.Duration(*g.Age*1e9) + " old"
	}
	return text{words, scarce(h)}
}

// stale is the age in seconds from which an estimate's is told.
const stale = 10

// between is an interval in percents.
func between(i *Interval) string {
	return wholePercent(i.Low) + "–" + wholePercent(i.High)
}

// scarce is the tone of a headroom.
func scarce(h *Interval) tone {
	switch {
	case h.Estimate < .1:
		return alarm
	case h.Estimate < .25:
		return caution
	}
	return plain
}

func busyLine(loops []Loop) text {
	sum, hottest := 0.0, 0.0
	for _, l := range loops {
		sum += l.Busy
		hottest = max(hottest, l.Busy)
	}
	words := "busy " + wholePercent(sum/float64(len(loops))) + " %"
	if len(loops) > 1 {
		words += ", hottest loop " + wholePercent(hottest) + " %"
	}
	if hottest > .8 {
		return text{words, alarm}
	}
	return text{words, plain}
}

// joined puts texts beside each other, on as many lines as they need.
func joined(parts []text, s screen) (out []string) {
	const between = " · "
	line, used := "", 0
	for _, p := range parts {
		p.words = fit(p.words, s.width)
		n := span(p.words)
		switch {
		case used == 0:
		case used+span(between)+n <= s.width:
			line, used = line+between, used+span(between)
		default:
			out, line, used = append(out, line), "", 0
		}
		line, used = line+p.paint(s.colour), used+n
	}
	return append(out, line)
}

// body is what can be scrolled.
func body(f *Figures, s screen) []string {
	if s.help {
		return helpLines(s)
	}
	return tables(f, s)
}

func tables(f *Figures, s screen) []string {
	out := upstreamTable(sorted(f.Upstreams, s.order, func(u *Upstream) key {
		return key{u.Rate, u.Response, u.Errors}
	}), s).lines(s.width, s.colour)
	out = append(append(out, missing(f, s)...), "")
	routes := sorted(f.Routes, s.order, func(r *Route) key { return key{r.Rate, r.Response, r.Errors} })
	out = append(out, routeTable(routes).lines(s.width, s.colour)...)
	if limits := limitTable(routes); len(limits.rows) > 0 {
		out = append(append(out, ""), limits.lines(s.width, s.colour)...)
	}
	return out
}

// missing says why there is no headroom of an upstream, where the headline does not say it.
func missing(f *Figures, s screen) (out []string) {
	by := map[string][]string{}
	for i := range f.Upstreams {
		if why := f.Upstreams[i].Why; why != "" && why != f.Gateway.Why {
			by[why] = append(by[why], f.Upstreams[i].Name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		of := by[why][0]
		if n := len(by[why]); n > 1 {
			of = strconv.Itoa(n) + " upstreams"
		}
		words := fit("no headroom of "+of+": "+why, s.width)
		out = append(out, text{words, faint}.paint(s.colour))
	}
	return out
}

// key is what rows are sorted by.
type key struct {
	rate     *float64
	response *Percentiles
	errors   *float64
}

// sorted is a list in an order, the greatest first and what is unknown last.
func sorted[T any](list []T, by order, keyOf func(*T) key) []T {
	list = slices.Clone(list)
	value := func(v *T) float64 {
		k, p := keyOf(v), (*float64)(nil)
		switch by {
		case byRate:
			p = k.rate
		case byErrors:
			p = k.errors
		case byP99:
			if k.response != nil {
				p = &k.response.P99
			}
		}
		if p == nil {
			return -1
		}
		return *p
	}
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(value(&b), value(&a)) })
	return list
}

func upstreamTable(list []Upstream, s screen) *table {
	t := &table{columns: []column{{title: "upstream", left: true, least: 8}, {title: "rate/s"},
		{title: "p50 ms"}, {title: "p99 ms"}, {title: "in flight"}, {title: "wait"}, {title: "headroom"},
		{title: "breaker", least: 8}, {title: "up"}}}
	for i := range list {
		u := &list[i]
		inFlight, waiting := text{words: strconv.Itoa(u.InFlight)}, text{words: strconv.Itoa(u.Waiting)}
		if u.Limit != nil {
			inFlight.words += "/" + strconv.Itoa(*u.Limit)
			if u.InFlight >= *u.Limit {
				inFlight.tone = caution
			}
		}
		if u.Waiting > 0 {
			waiting.tone = caution
		}
		up := text{words: strconv.Itoa(u.Up) + "/" + strconv.Itoa(u.Targets)}
		switch {
		case u.Up == 0 || u.Panicking:
			up.tone = alarm
		case u.Up < u.Targets:
			up.tone = caution
		}
		t.rows = append(t.rows, []text{{words: u.Name}, {words: optional(u.Rate, perSecond)},
			millis(u.Response, func(p *Percentiles) float64 { return p.P50 }),
			millis(u.Response, func(p *Percentiles) float64 { return p.P99 }), inFlight, waiting,
			headroomCell(&u.Headroom, s.width), breakerCell(u.Breakers), up})
	}
	return t
}

func millis(p *Percentiles, of func(*Percentiles) float64) text {
	if p == nil {
		return text{unknown, faint}
	}
	return text{words: format.Digits(of(p))}
}

func headroomCell(h *Headroom, width int) text {
	i := h.Headroom
	if i == nil {
		return text{unknown, faint}
	}
	words := wholePercent(i.Estimate) + " %"
	if width >= wide {
		words += " (" + between(i) + ")"
	}
	return text{words, scarce(i)}
}

// breakerCell names the worst state that a target's breaker is in, and how many are in it.
func breakerCell(by map[string]int) text {
	all := 0
	for _, n := range by {
		all += n
	}
	if all == 0 {
		return text{unknown, faint}
	}
	states := []string{"forced-open", "open", "half-open", "ramping", "forced-closed"}
	for i, state := range states {
		if n := by[state]; n > 0 {
			tone := caution
			if i < 2 {
				tone = alarm
			}
			return text{strconv.Itoa(n) + "/" + strconv.Itoa(all) + " " + state, tone}
		}
	}
	return text{words: "closed"}
}

func routeTable(list []Route) *table {
	t := &table{columns: []column{{title: "route", left: true, least: 10}, {title: "class"},
		{title: "rate/s"}, {title: "p50 ms"}, {title: "p99 ms"}, {title: "err %"},
		{title: "burn 1h"}, {title: "refused/s", left: true, least: 12}}}
	for i := range list {
		r := &list[i]
		t.rows = append(t.rows, []text{{words: r.Name}, {words: cmp.Or(r.Class, unknown)},
			{words: optional(r.Rate, perSecond)},
			millis(r.Response, func(p *Percentiles) float64 { return p.P50 }),
			millis(r.Response, func(p *Percentiles) float64 { return p.P99 }),
			errorCell(r.Errors), burnCell(r.Burn), refusedCell(r.Refused)})
	}
	return t
}

// limitTable has a row for each limit of each route, the bound on what is under way first. It
// stands below the routes, because beside them there is no room for it on 80 columns.
func limitTable(list []Route) *table {
	t := &table{columns: []column{{title: "route", left: true, least: 10},
		{title: "limit", left: true, least: 8},
		{title: "at most"}, {title: "now"}, {title: "refused/s"}, {title: "state", left: true, least: 8}}}
	for i := range list {
		r := &list[i]
		if c := r.Concurrency; c != nil {
			most, state := []string{}, text{}
			if c.Limit > 0 {
				most = append(most, strconv.Itoa(c.Limit)+" at once")
			}
			if c.LimitPerValue > 0 {
				most = append(most, strconv.Itoa(c.LimitPerValue)+" a value")
			}
			if c.Limit > 0 && c.InFlight >= c.Limit {
				state = text{"full", alarm}
			}
			t.rows = append(t.rows, []text{{words: r.Name}, {words: "concurrency"},
				{words: strings.Join(most, ", ")}, {words: strconv.Itoa(c.InFlight)},
				refusedRate(c.Refused), state})
		}
		for _, l := range r.Limits {
			now := optional(l.Allowed, perSecond)
			if l.Allowed != nil {
				now += "/s"
			}
			t.rows = append(t.rows, []text{{words: r.Name}, {words: l.Name}, {words: l.Rate}, {words: now},
				refusedRate(l.Refused), limitState(&l)})
		}
	}
	return t
}

func refusedRate(v *float64) text {
	t := text{words: optional(v, perSecond)}
	if v != nil && *v > 0 {
		t.tone = caution
	}
	return t
}

// limitState says what is special about a rate limit.
func limitState(l *Limit) text {
	var words []string
	if l.Changed {
		words = append(words, "changed")
	}
	if l.DryRun {
		words = append(words, "dry run")
	}
	return text{words: strings.Join(words, ", ")}
}

func errorCell(share *float64) text {
	switch {
	case share == nil:
		return text{unknown, faint}
	case *share >= .01:
		return text{percent(*share), alarm}
	case *share > 0:
		return text{percent(*share), caution}
	}
	return text{words: percent(*share)}
}

// fastBurn is the burn over an hour from which the rules in examples/prometheus wake somebody.
const fastBurn = 14.4

func burnCell(burn *float64) text {
	switch {
	case burn == nil:
		return text{unknown, faint}
	case *burn >= fastBurn:
		return text{format.Digits(*burn), alarm}
	case *burn >= 1:
		return text{format.Digits(*burn), caution}
	}
	return text{words: format.Digits(*burn)}
}

func refusedCell(list []Refusal) text {
	var words []string
	for _, r := range list {
		words = append(words, perSecond(r.Rate)+" "+r.Reason)
	}
	return text{strings.Join(words, ", "), caution}
}

func helpLines(s screen) (out []string) {
	for _, l := range []string{
		"q, ctrl-c   quit              s   sort by rate, p99, errors, as configured",
		"↑ ↓ PgUp PgDn   scroll        p   pause, and go on",
		"?           close this help",
		"",
		"All figures are of the last interval, percentiles too, but for burn 1h.",
		"in flight   requests at the upstream / how many its targets' limits allow",
		"wait        requests that wait for a connection or a place at the upstream",
		"headroom    share of the upstream's capacity that is free, as estimated",
		"breaker     the worst state of the targets' circuit breakers, and how many",
		"            of them are in it",
		"up          targets that are up, of all",
		"err %       5xx among the answers",
		"burn 1h     how many times faster than its objective allows the route's",
		"            requests failed in the last hour",
		"refused/s   requests refused, cut or given a fallback's answer, by reason",
		"limit       a rate limit, or concurrency: requests of the route under way",
		"at most     what it lets pass; now is what passes, or is under way",
		"state       changed: by an operator; dry run: only counts; full",
	} {
		out = append(out, ansi.Truncate(l, s.width, "…"))
	}
	return out
}

// status is the line at the bottom.
func status(s screen, paused bool) text {
	words := "q quit · s sort: " + orderText[s.order] + " · p pause · ↑↓ scroll · ? help"
	if paused {
		return text{"paused: p goes on · " + words, caution}
	}
	return text{words, faint}
}

// trouble says that the last look failed, and how old what is shown is.
func trouble(err error, taken, now time.Time) text {
	words := format.Clean(strings.ReplaceAll(err.Error(), "\n", "; "))
	if !taken.IsZero() {
		words = format.Duration(float64(now.Sub(taken))) + " old: " + words
	}
	return text{words, alarm}
}
