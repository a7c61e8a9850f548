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
