package top

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the golden files should hold")

// evil is a name that would clear the screen, turn words around and start a new line.
const evil = "\x1b[2J\x1b]0;x\x07a\u202eb\nc\td\x00\xff"

// some are figures in which everything occurs.
func some() *Figures {
	headroom := func(low, estimate, high float64) Headroom {
		return Headroom{Headroom: &Interval{low, estimate, high, confidence}, Age: new(1.0)}
	}
	return &Figures{
		Address: "http://127.0.0.1:9900", Taken: began, Length: 1.0004,
		Gateway: Instance{State: "serving", Rate: new(12345.6), InFlight: new(int64(1234)),
			Loops:    []Loop{{0, .31, 6000}, {1, .35, 6345.6}},
			Headroom: headroom(.38, .421, .47), Limit: "gateway cpu"},
		Upstreams: []Upstream{
			{Name: "shop", Rate: new(2310.4), Response: &Percentiles{1.24, 23.4}, Errors: new(.002),
				InFlight: 12, Limit: new(64), Headroom: headroom(.5, .58, .66),
				Breakers: map[string]int{"closed": 3}, Up: 3, Targets: 3},
			{Name: "a-service-whose-name-is-longer-than-its-column", Rate: new(.5),
				Response: &Percentiles{123, 4567}, Errors: new(.5), InFlight: 128, Limit: new(128),
				Waiting: 321, Headroom: headroom(0, .04, .2),
				Breakers: map[string]int{"closed": 1, "open": 2, "half-open": 1}, Up: 2, Targets: 4},
			{Name: evil, Headroom: Headroom{Why: "too little traffic"}, Targets: 1,
				Breakers: map[string]int{"forced-open": 1}, Rate: new(0.0)},
			{Name: "新しいサービス", Rate: new(7.25), Response: &Percentiles{.05, .312}, Errors: new(0.0),
				Headroom: headroom(.1, .2, .3), Up: 1, Targets: 1, Panicking: true},
		},
		Routes: []Route{
			{Name: "GET /goods/{id}", Class: "P0", Rate: new(2000.0), Response: &Percentiles{.52, 9.87},
				Errors: new(0.0), Burn: new(.3)},
			{Name: "POST /orders/{customer}/items/{item}", Class: "P1", Rate: new(310.4),
				Response: &Percentiles{12.3, 1234}, Errors: new(.0123), Burn: new(20.5),
				Refused: []Refusal{{"overloaded", 41.2}, {"rate_limited", 3}},
				Limits: []Limit{{Name: "per_client", Rate: "50/s", Changed: true},
					{Name: "all", Rate: "900/m", DryRun: true, Allowed: new(14.2), Refused: new(3.0)}},
				Concurrency: &Concurrency{InFlight: 64, Limit: 64, LimitPerValue: 4, Refused: new(38.5)}},
			{Name: evil, Class: "P2", Burn: new(1.5)},
			{Name: unmatched, Rate: new(1.5), Response: &Percentiles{.04, .05}, Errors: new(0.0),
				Refused: []Refusal{{"no_route", 1.5}}},
		},
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (go test -update writes it again):\n%s", name, d)
	}
}

func TestTheViewIsAsTheGoldenFilesSay(t *testing.T) {
	golden(t, "80.txt", Text(some(), 80, false))
	golden(t, "120.txt", Text(some(), 120, false))
	f := some()
	f.Gateway.Age = new(95.5)
	golden(t, "stale.txt", strings.Join(headline(f, screen{width: 80}), "\n"))
	f.Gateway = Instance{State: "draining", Lacks: "the gateway is draining",
		Headroom: Headroom{Why: "this gateway has no estimate"}}
	f.Notes = []string{"the gateway started again: rates follow after the next interval"}
	f.Upstreams, f.Routes = nil, nil
	golden(t, "draining.txt", Text(f, 80, false))
	s := screen{width: 80, height: 12, order: byP99, scroll: 3}
	s.footer = []text{trouble(errors.New("cannot reach it\nat all"), began, began.Add(3*time.Second)),
		status(s, true)}
	golden(t, "screen.txt", strings.Join(lines(some(), s), "\n")+"\n")
	s.help, s.scroll, s.height = true, 0, 24
	golden(t, "help.txt", strings.Join(lines(some(), s), "\n")+"\n")
}

func TestColoursAreOnlyThereWhenAskedFor(t *testing.T) {
	if text := Text(some(), 80, false); strings.Contains(text, "\x1b") {
		t.Errorf("a plain text has an escape sequence:\n%q", text)
	}
	coloured := Text(some(), 80, true)
	if got := ansi.Strip(coloured); got != Text(some(), 80, false) {
		t.Errorf("colours change the text:\n%s", got)
	}
	for what, want := range map[string]string{
		"an open breaker":   codes[alarm] + "2/4 open",
		"a scarce headroom": codes[alarm] + "4 %",
		"a burning budget":  codes[alarm] + "20.5",
		"a title":           codes[strong] + "upstream",
	} {
		if !strings.Contains(coloured, want) {
			t.Errorf("%s is not seen as such", what)
		}
	}
}

func TestRowsAreSortedAndWhatIsUnknownComesLast(t *testing.T) {
	key := func(r *Route) key { return key{r.Rate, r.Response, r.Errors} }
	routes := []Route{{Name: "unknown"},
		{Name: "slow", Rate: new(1.0), Response: &Percentiles{1, 90}, Errors: new(0.0)},
		{Name: "many", Rate: new(9.0), Response: &Percentiles{1, 2}, Errors: new(.1)},
		{Name: "bad", Rate: new(2.0), Response: &Percentiles{1, 3}, Errors: new(.9)}}
	for by, want := range map[order]string{
		asConfigured: "unknown slow many bad", byRate: "many bad slow unknown",
		byP99: "slow bad many unknown", byErrors: "bad many slow unknown",
	} {
		var names []string
		for _, r := range sorted(routes, by, key) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %s: %s, want %s", orderText[by], got, want)
		}
	}
	if routes[0].Name != "unknown" {
		t.Error("sorting has changed the figures")
	}
}

func TestRatesAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", .004: "0", .5: "0.5", 5: "5", 1.25: "1.25", 9.99: "9.99",
		9.996: "10", 10.4: "10", 100: "100", 12345.6: "12,346", 1e16: "?", -1: "?"} {
		if got := perSecond(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
