package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
)

// offered is a schedule of n arrivals.
func offered(kind pace.Arrivals, n int) *pace.Offered {
	return &pace.Offered{Profile: pace.Hold(4*float64(n), 250e6), Arrivals: kind, Seed: 7}
}

// counting is a scenario whose every request has a path of its own, in a file of values too.
func counting(t *testing.T) string {
	dir := t.TempDir()
	path := filepath.Join(dir, "count.yaml")
	var rows strings.Builder
	rows.WriteString("id\n")
	for i := range 1000 {
		fmt.Fprintf(&rows, "%d\n", i)
	}
	text := "data: {n: {csv: rows.csv}}\n" +
		"headers: {X-Who: \"${REMOTE_WHO}\"}\n" +
		"mix: [{name: a, weight: 3, request: {path: \"/a/${n.id}\"}}, {name: b, request: {path: " +
		"\"/b/${n.id}\"}}]\n"
	for name, content := range map[string]string{"count.yaml": text, "rows.csv": rows.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("REMOTE_WHO", "me")
	return path
}

// One generator with four loops and generators with four loops between them send the same requests.
func TestGeneratorsTogetherSendTheScheduleOfOne(t *testing.T) {
	path := counting(t)
	for _, kind := range []pace.Arrivals{pace.Constant, pace.Poisson} {
		var want map[string]int
		var wanted *measure.Totals
		for _, generators := range [][]string{nil, {"a", "b"}, {"a", "b", "c"}} {
			g := serve(t)
			work := g.work(t)
			resolved, err := load.Resolve(t.Context(), g.url, load.TLSOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := work.ReadScenario(path, resolved)
			if err != nil {
				t.Fatal(err)
			}
			o := load.Options{
				Target: resolved, Script: s.Script(), Offered: offered(kind, 400), Connections: 8,
				Loops: 4, Seed: 7,
				Timeout: patience, Window: 40 * time.Millisecond,
			}
			var windows []measure.Window
			o.Observe = func(w *measure.Window) { windows = append(windows, *w) }
			run := load.Run
			if generators != nil {
				// Neither the files nor the environment are there on another machine.
				os.Unsetenv("REMOTE_WHO")
				if err := os.Rename(filepath.Dir(path), filepath.Dir(path)+".away"); err != nil {
					t.Fatal(err)
				}
				f := open(t, Options{Generators: generators, Work: work, Script: s.Script(), Loops: 2})
				run = f.Run
				t.Setenv("REMOTE_WHO", "me")
				if err := os.Rename(filepath.Dir(path)+".away", filepath.Dir(path)); err != nil {
					t.Fatal(err)
				}
			}
			totals, err := run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if generators == nil {
				want, wanted = g.seen, totals
				continue
			}
			compareRuns(t, fmt.Sprint(kind, generators), g.seen, want, totals, wanted, windows)
		}
	}
}

// compareRuns compares all that does not depend on how fast the target was.
func compareRuns(
	t *testing.T, what string, seen, want map[string]int, got, wanted *measure.Totals,
	windows []measure.Window,
) {
	t.Helper()
	if len(seen) != len(want) {
		t.Errorf("%s: %d paths were asked for, %d by one generator", what, len(seen), len(want))
	}
	for path, n := range want {
		if seen[path] != n {
			t.Fatalf("%s: %s was asked for %d times, and %d times by one generator", what, path,
				seen[path], n)
		}
	}
	if got.Due != wanted.Due || got.Sent != wanted.Sent || got.Ended != wanted.Ended ||
		got.Length != wanted.Length ||
		got.Response.Count() != wanted.Response.Count() || got.Generator.Loops != 4 {
		t.Errorf("%s: %+v\nwant %+v", what, got, wanted)
	}
	for i, r := range wanted.Requests {
		if g := got.Requests[i]; g.Name != r.Name || g.Ended != r.Ended ||
			g.Response.Count() != r.Ended[measure.OK] {
			t.Errorf("%s: of %s %v, want %v", what, r.Name, g.Ended, r.Ended)
		}
	}
	var due, ok, next uint64
	at := int64(0)
	for i := range windows {
		w := &windows[i]
		if w.Start != at || w.Length <= 0 {
			t.Errorf("%s: a window from %d for %d after %d", what, w.Start, w.Length, at)
		}
		at, due, ok, next = w.End(), due+w.Due, ok+w.Ended[measure.OK], next+w.Response.Count()
	}
	if due != wanted.Due || ok != wanted.Ended[measure.OK] || next != ok {
		t.Errorf("%s: %d due and %d answered in the windows, want %d", what, due, ok, wanted.Due)
	}
	var parts uint64
	for _, m := range got.Generator.Remote {
		parts += m.Due
		if m.ClockUncertainty <= 0 || m.Cores < 1 || m.Descriptors == 0 || m.Loops < 1 {
			t.Errorf("%s: a generator says %+v", what, m)
		}
	}
	if parts != wanted.Due {
		t.Errorf("%s: the generators had %d due, want %d", what, parts, wanted.Due)
	}
}

// Two loads one after the other, a closed loop, and one with fewer connections than generators.
func TestAFleetIsUsedAgain(t *testing.T) {
	g := serve(t)
	f := open(t, Options{Generators: []string{"a", "b"}, Work: g.work(t)})
	for _, o := range []load.Options{
		{Connections: 1, Offered: offered(pace.Constant, 20)},
		{Connections: 4, Loops: 2, Duration: 50 * time.Millisecond},
		{Connections: 64, Loops: 64, Offered: offered(pace.Poisson, 100)},
	} {
		o.Script, o.Timeout = f.o.Script, patience
		o.Loops = max(o.Loops, 1)
		totals, err := f.Run(t.Context(), o)
		if err != nil || totals.Ended.Failed() > 0 {
			t.Fatalf("%v %+v", err, totals)
		}
		if open := o.Offered != nil; open && (totals.Due == 0 || totals.Due != totals.Ended.Total()) {
			t.Errorf("%d due, %d ended", totals.Due, totals.Ended.Total())
		}
	}
	if n, err := f.Connections(t.Context()); err != nil || n < 0 {
		t.Error(n, err)
	}
	if !f.Near() || f.Loops(1) != 1 {
		t.Error("the target is on this machine, and one connection has one loop")
	}
}

func TestALoadThatIsStoppedIsStoppedEverywhere(t *testing.T) {
	g := serve(t)
	f := open(t, Options{Generators: []string{"a", "b"}, Work: g.work(t)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := load.Options{Script: f.o.Script, Connections: 2, Loops: 2, Duration: time.Hour, Timeout: patience}
	o.Observe = func(w *measure.Window) {
		if w.Ended[measure.OK] > 0 {
			cancel()
		}
	}
	totals, err := f.Run(ctx, o)
	if err != nil || totals.Ended[measure.OK] == 0 || totals.Generator.Invalid != "" {
		t.Fatalf("%v %+v", err, totals)
	}
	if totals.Length >= int64(time.Hour) {
		t.Error("it is as long as if it had not been stopped")
	}
	// The fleet is as good as new.
	o.Observe, o.Duration, o.Offered = nil, 0, offered(pace.Constant, 10)
	if totals, err = f.Run(t.Context(), o); err != nil || totals.Ended[measure.OK] == 0 {
		t.Fatal(err)
	}
}

func TestWhatCannotBeReachedIsNamedAndTheFleetStaysUsable(t *testing.T) {
	g := serve(t)
	work := g.work(t)
	work.URL = "http://127.0.0.1:1/"
	f := open(t, Options{Generators: []string{"first", "second"}, Work: work})
	o := load.Options{Script: f.o.Script, Connections: 4, Loops: 2, Duration: time.Millisecond,
		Timeout: patience}
	for range 2 {
		_, err := f.Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "generator ") || !strings.Contains(err.Error(),
			"does the target listen there") {
			t.Fatalf("%v", err)
		}
	}
}

func TestAGeneratorThatCannotBeDialledIsNamed(t *testing.T) {
	g := serve(t)
	dial := inProcess(t)
	_, err := Open(t.Context(), Options{
		Generators: []string{"good", "bad"}, Work: g.work(t), Script: g.work(t).Script(),
		Dial: func(ctx context.Context, name string) (Link, error) {
			if name == "bad" {
				return nil, errors.New("no route to host")
			}
			return dial(ctx, name)
		},
	})
	if err == nil || err.Error() != "generator bad: no route to host" {
		t.Error(err)
	}
}
