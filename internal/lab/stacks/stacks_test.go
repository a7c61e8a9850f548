package stacks_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	lab "plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/stacks"
)

// read reads a file and returns the profile as the rest of the lab sees it: encoded as pprof and
// parsed again.
func read(t *testing.T, data []byte, o stacks.Options) (*lab.Profile, stacks.Format) {
	t.Helper()
	p, format, err := stacks.Read(data, o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	again, err := lab.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return again, format
}

// The files were written by the tools, for services that do their work in a function score.
func TestFilesThatToolsWrote(t *testing.T) {
	for file, want := range map[string]struct {
		format stacks.Format
		top    string // the heaviest function with its place
		share  float64
	}{
		"py-spy.folded":          {stacks.Folded, "score app.py:7", .5},
		"py-spy.speedscope.json": {stacks.Speedscope, "score shop/app.py:7", .5},
		"app.perf":               {stacks.PerfScript, "score :0", .5},
		"node.cpuprofile":        {stacks.CPUProfile, "score [eval]:1", .8},
		"jfr.json":               {stacks.JFRPrint, "shop.App.score shop/App.java:5", .9},
	} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		p, format := read(t, data, stacks.Options{})
		top := p.Top(lab.CPU, lab.Leaf, 1)
		if format != want.format || len(top) == 0 {
			t.Errorf("%s: it is %s, and its top is %v", file, format, top)
			continue
		}
		at := fmt.Sprintf("%s %s:%d", top[0].Function, top[0].File, top[0].Line)
		if at != want.top || top[0].Share < want.share {
			t.Errorf("%s: at the top is %s with %.2f, want %s", file, at, top[0].Share, want.top)
		}
	}
}

// dump formats a profile as folded stacks with places and nanoseconds, the leaf first.
func dump(p *profile.Profile) string {
	var out strings.Builder
	for _, s := range p.Sample {
		for i, l := range s.Location {
			line := l.Line[0]
			fmt.Fprintf(&out, "%s%s", strings.Repeat(" < ", min(i, 1)), line.Function.Name)
			if line.Function.Filename != "" {
				fmt.Fprintf(&out, " %s:%d", line.Function.Filename, line.Line)
			}
			if l.Mapping != nil {
				fmt.Fprintf(&out, " in %s", l.Mapping.File)
			}
		}
		fmt.Fprintf(&out, " = %d, %d\n", s.Value[0], s.Value[1])
	}
	return out.String()
}

func TestStacksOfEachFormat(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		options stacks.Options
		want    string
	}{
		"folded": {
			"# by hand\n\n 13\nmain;serve;parse 3\r\nmain;serve 1\nmain;serve;parse 2\nnone 0\n",
			stacks.Options{},
			"parse < serve < main = 5, 50000000\nserve < main = 1, 10000000\n",
		},
		"another rate": {
			"main 3\n", stacks.Options{Hertz: 1000}, "main = 3, 3000000\n",
		},
		"rbspy": {
			"<main> - shop.rb:9;block in each - /srv/shop.rb:12 7\n", stacks.Options{},
			"block in each /srv/shop.rb:12 < <main> shop.rb:9 = 7, 70000000\n",
		},
		"async-profiler": {
			"java/lang/Thread.run_[j];shop/App$Cart.add_[i];__write;vfs_write_[k] 2\n" +
				"java/lang/Thread.run 1\n",
			stacks.Options{},
			"vfs_write in [kernel] < __write < shop.App$Cart.add shop/App.java:0" +
				" < java.lang.Thread.run java/lang/Thread.java:0 = 2, 20000000\n" +
				"java.lang.Thread.run java/lang/Thread.java:0 = 1, 10000000\n",
		},
		"perf script with source lines, runtimes' code, and an event that is not a clock": {
			"# ========\nnode worker  12/13 [001] 5.000000: 2000000 cpu-clock:uppp:\n" +
				"\t  7f00 JS:*price /srv/shop.js:12:3+0x40 (/tmp/perf-12.map)\n" +
				"\t  7f10 py::cart:/srv/cart.py+0x8 (/tmp/perf-12.map)\n" +
				"\t  40 main+0x1 (/srv/a b)\n  main.c:7\n\n" +
				"c 9 6.000000: 77 cycles:\n\t 10 [unknown] (/srv/c)\n",
			stacks.Options{},
			"price /srv/shop.js:12 < cart /srv/cart.py:0 < main main.c:7 in /srv/a b" +
				" = 1, 2000000\n[unknown] in /srv/c = 1, 10000000\n",
		},
		"speedscope, sampled and evented, frames after the profiles": {
			`{"profiles":[{"type":"sampled","unit":"milliseconds","samples":[[0,1],[0]],` +
				`"weights":[2,1]},{"unit":"none","type":"evented","events":[` +
				`{"type":"O","frame":0,"at":0},{"type":"O","frame":1,"at":2},` +
				`{"type":"C","frame":1,"at":5},{"type":"C","frame":0,"at":5}]}],` +
				`"shared":{"frames":[{"name":"main","file":"a.php","line":3},{"name":"f"}]}}`,
			stacks.Options{},
			"f < main a.php:3 = 2, 32000000\nmain a.php:3 = 2, 21000000\n",
		},
		"cpuprofile: lines by ticks, a sample lasts until the next, idle is left out": {
			`{"startTime":0,"endTime":10000,"nodes":[` +
				`{"id":1,"callFrame":{"functionName":"(root)"},"children":[2,3]},` +
				`{"id":2,"callFrame":{"functionName":"","url":"file:///s.js","lineNumber":4},` +
				`"positionTicks":[{"line":6,"ticks":1},{"line":7,"ticks":1}]},` +
				`{"id":3,"callFrame":{"functionName":"(idle)"}}],` +
				`"samples":[2,3,2],"timeDeltas":[1000,4000,2000]}`,
			stacks.Options{},
			"(anonymous) /s.js:6 = 1, 3500000\n(anonymous) /s.js:7 = 1, 3500000\n",
		},
	} {
		p, _, err := stacks.Read([]byte(c.text), c.options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := dump(p); got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
	}
}

func TestHowLongAProfileWasTaken(t *testing.T) {
	script := "a 1 5.5: cpu-clock:\n\t1 f (x)\n\na 1 8.0: cpu-clock:\n\t1 f (x)\n"
	if p, _ := read(t, []byte(script), stacks.Options{}); p.Seconds() != 2.5 {
		t.Errorf("from its first sample to its last: %v seconds", p.Seconds())
	}
	if p, _ := read(t, []byte(script), stacks.Options{Seconds: 4}); p.Seconds() != 4 {
		t.Errorf("as it was told: %v seconds", p.Seconds())
	}
}

func TestProfilesOfOtherLanguagesInPprofsFormat(t *testing.T) {
	handle := &profile.Function{ID: 1, Name: "handle", Filename: "/srv/shop.js"}
	idle := &profile.Function{ID: 2, Name: "(idle)"}
	at := func(f *profile.Function) *profile.Location {
		return &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 7}}}
	}
	running, waiting := at(handle), at(idle)
	node := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "sample", Unit: "count"}, {Type: "wall", Unit: "microseconds"},
		},
		PeriodType: &profile.ValueType{Type: "wall", Unit: "microseconds"},
		Period:     1000,
		Function:   []*profile.Function{handle, idle},
		Location:   []*profile.Location{running, waiting},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{running}, Value: []int64{3, 3000}},
			{Location: []*profile.Location{waiting}, Value: []int64{9, 9000}},
		},
	}
	var data bytes.Buffer
	if err := node.Write(&data); err != nil {
		t.Fatal(err)
	}
	p, format, err := stacks.Read(data.Bytes(), stacks.Options{Seconds: 2})
	if want := "handle /srv/shop.js:7 = 3, 3000000\n"; err != nil || dump(p) != want ||
		format != stacks.Pprof || p.DurationNanos != 2e9 {
		t.Errorf("%s of %d ns, %v:\n%swant\n%s", format, p.DurationNanos, err, dump(p), want)
	}
	// An impossible period is ignored: a sample then lasts as long as it usually does.
	only := node.Copy()
	only.SampleType, only.Period, only.PeriodType.Unit = node.SampleType[:1], 50e9, "seconds"
	for _, s := range only.Sample {
		s.Value = s.Value[:1]
	}
	data.Reset()
	if err := only.Write(&data); err != nil {
		t.Fatal(err)
	}
	p, _, err = stacks.Read(data.Bytes(), stacks.Options{})
	if want := "handle /srv/shop.js:7 = 3, 30000000\n"; err != nil || dump(p) != want {
		t.Errorf("%v:\n%swant\n%s", err, dump(p), want)
	}
	node.SampleType[0].Type, node.SampleType[1].Type = "objects", "space"
	data.Reset()
	if err := node.Write(&data); err != nil {
		t.Fatal(err)
	}
	if _, _, err := stacks.Read(data.Bytes(), stacks.Options{}); err == nil ||
		!strings.Contains(err.Error(), "no weight of processor time") {
		t.Errorf("of a heap: %v", err)
	}
}
