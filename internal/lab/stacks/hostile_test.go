package stacks_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lab "plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/stacks"
)

func TestErrorsSayWhere(t *testing.T) {
	frames := `{"shared":{"frames":[{"name":"a"}]},` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {" \n", "nothing in it"},
		"no count":           {"a;b 1\nabc\n", "line 2: there is no number of samples"},
		"a count of letters": {"a;b 1\na;b x\n", `line 2: "x" is not a number`},
		"a negative count":   {"a -1\n", "line 1: "},
		"a count too large":  {"a 99999999999\n", "line 1: "},
		"too deep": {"a 1\n" + strings.Repeat("a;", 10_001) + "b 1\n",
			"line 2: the stack has more than"},
		"nothing ran":       {"a 0\n", "no stack in which anything ran"},
		"perf: not a frame": {"c 9 6.0: 7 cycles:\n\thuh\n", "line 2: "},
		"perf: no head":     {"c 9 6.0: 7 cycles:\n\n\t1 f (x)\n", "line 3: "},
		"perf: a broken head": {
			"c 9 6.0: 7 cycles:\n\t1 f (x)\n\nhuh\n", "line 4: ",
		},
		"another JSON":     {`{"a":` + "\n" + `[1,2]}`, "this JSON is not a profile"},
		"JSON cut short":   {"{\"nodes\":[\n{\"id\":1},\n", "line 3: the file ends in the middle"},
		"JSON with a typo": {"{\"nodes\":[\n{\"id\":1}\nx", "line 3: "},
		"a wrong type":     {"{\"nodes\":[\n\n{\"id\":\"x\"}]}", "line 3: "},
		"a node twice":     {"{\"nodes\":[{\"id\":1},\n{\"id\":1}]}", "line 2: there are two nodes 1"},
		"a circle of nodes": {
			`{"nodes":[{"id":1,"children":[2]},{"id":2,"children":[1],"hitCount":1}]}`, "circle",
		},
		"a sample of no node": {`{"nodes":[{"id":1}],"samples":[4]}`, "node 4, which is not there"},
		"a frame that is not there": {
			frames + `"profiles":[{"unit":"none","samples":[[0,1]]}]}`,
			"line 2: a sample names the frame 1 of 1",
		},
		"a negative frame": {
			frames + `"profiles":[{"unit":"none","samples":[[-1]]}]}`, "line 2: ",
		},
		"a profile of bytes": {
			frames + `"profiles":[{"unit":"bytes","samples":[[0]]}]}`, `"bytes" is not one of time`,
		},
		"weights that do not fit": {
			frames + `"profiles":[{"unit":"none","samples":[[0]],"weights":[1,2]}]}`,
			"1 samples and 2 weights",
		},
		"events that do not nest": {
			frames + `"profiles":[{"unit":"none","events":[{"type":"C","frame":0,"at":1}]}]}`,
			"fits no open frame",
		},
		"binary that is not pprof": {"\x00\x01\x02\x03\x04\x05", "not a profile in pprof's format"},
		"compression cut short":    {packed("a 1\n")[:12], "cut short"},
	} {
		_, _, err := stacks.Read([]byte(c.text), stacks.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %q", name, err)
		}
	}
	if _, _, err := stacks.Read([]byte("FLR\x00\x00"), stacks.Options{}); !errors.Is(err,
		stacks.ErrRecording) {
		t.Errorf("a flight recording: %v", err)
	}
	if _, _, err := stacks.Read([]byte("a 1000000000\n"), stacks.Options{Hertz: .01}); err == nil {
		t.Error("a sample that lasts so long that their time overflows is accepted")
	}
	if _, _, err := stacks.Read([]byte("a 1\n"), stacks.Options{Hertz: -1}); err == nil {
		t.Error("a negative rate is taken")
	}
}

func packed(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write([]byte(text))
	w.Close()
	return out.String()
}

func TestSizesAreBounded(t *testing.T) {
	if _, _, err := stacks.Read(make([]byte, stacks.Most+1), stacks.Options{}); err == nil ||
		!strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("a large file: %v", err)
	}
	bomb := packed(strings.Repeat(" ", stacks.Most+1))
	if _, _, err := stacks.Read([]byte(bomb), stacks.Options{}); err == nil ||
		!strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("a file that unpacks to a large one: %v", err)
	}
	b := stacks.NewBuilder(0)
	for i := range 300_000 {
		name := string([]rune{rune('a' + i%26), rune(0x4e00 + i/26)})
		if err := b.Add([]stacks.Frame{{Function: name}}, 1, 1); err != nil {
			if !strings.Contains(err.Error(), "more than") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("there is no bound on the number of stacks")
}

// A file of some hundred kilobytes can ask for the same deep stack again and again.
func TestTheWorkIsBounded(t *testing.T) {
	stacks.LimitWork(t, 5_000_000)
	const deep = 9_000
	chain := func(last string) string {
		var text strings.Builder
		text.WriteString(`{"nodes":[`)
		for i := 1; i < deep; i++ {
			fmt.Fprintf(&text, `{"id":%d,"children":[%d]},`, i, i+1)
		}
		return text.String() + fmt.Sprintf(`{"id":%d,"hitCount":1,%s}]}`, deep, last)
	}
	events := func(n int, name string) string {
		return `{"shared":{"frames":[{"name":"` + name + `"}]},` +
			`"profiles":[{"unit":"none","events":[` +
			strings.Repeat(`{"type":"O","frame":0,"at":0},`, deep) +
			strings.Repeat(`{"type":"O","frame":0,"at":1},{"type":"C","frame":0,"at":2},`+
				`{"type":"O","frame":0,"at":3},{"type":"C","frame":0,"at":0},`, n) +
			`{"type":"C","frame":0,"at":9}]}]}`
	}
	for name, c := range map[string]struct{ text, want string }{
		"lines of a deep node": {
			chain(`"positionTicks":[` + strings.Repeat(`{"line":1,"ticks":1},`, 60_000) +
				`{"line":1,"ticks":1}]`), "too many for stacks as deep as these",
		},
		"a circle of roots": {
			`{"nodes":[{"id":1,"children":[2],"callFrame":{"functionName":"(root)"}},` +
				`{"id":2,"children":[1,3],"callFrame":{"functionName":"(root)"}},` +
				`{"id":3,"hitCount":1}]}`, "",
		},
		"events on a deep stack":      {events(20_000, "f"), "too many for stacks as deep as these"},
		"a long name in a deep stack": {events(100, strings.Repeat("f", 1<<20)), ""},
		"frames of a flight recording": {
			`{"recording":{"events":[{"type":"jdk.ExecutionSample","values":{"stackTrace":` +
				`{"frames":[` + strings.Repeat("{},", 300_000) + `{}]}}}]}}`,
			"line 1: an event has more than 10000 frames",
		},
	} {
		_, _, err := stacks.Read([]byte(c.text), stacks.Options{})
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What is read is always a profile that the lab can read.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 5 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 8<<10)])
	}
	f.Add([]byte(`{"shared":{"frames":[{"name":"a"}]},"profiles":[{"unit":"none","samples":[[0]],"weights":[1]}]}`))
	f.Add([]byte(`{"nodes":[{"id":1,"hitCount":2,"callFrame":{"functionName":"f"}}],"samples":[1],"timeDeltas":[1]}`))
	f.Add([]byte("c 9 6.0: 7 cycles:\n\t1 f+0x1 (x)\n  a.c:3\n\n"))
	f.Add([]byte(packed("a;b 1\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _, err := stacks.Read(data, stacks.Options{})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("an error that a terminal cannot show: %q", err)
			}
			return
		}
		var out bytes.Buffer
		if err := p.Write(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := lab.Parse(out.Bytes()); err != nil {
			t.Fatal(err)
		}
	})
}
