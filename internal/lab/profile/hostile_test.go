package profile_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"

	lab "plimsoll/internal/lab/profile"
)

func zipped(t *testing.T, write func(*gzip.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	write(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatIsNoProfileIsSaidInOneLine(t *testing.T) {
	whole := encoded(t, time.Second, "cpu", "nanoseconds", stacks{"main.main;main.work": 5})
	message := func(number protowire.Number, content []byte, times int) []byte {
		return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content), times)
	}
	locations := func(n int) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), make([]byte, n))
	}
	twice := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}}, Sample: []*profile.Sample{{Value: []int64{1, 2}}}}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "empty"},
		"a page":               {[]byte("<!doctype html><title>404</title>"), "no profile in pprof's format"},
		"the text form":        {[]byte("goroutine profile: total 7\n1 @ 0x1\n"), "no profile in pprof's format"},
		"cut short":            {whole[:len(whole)-10], "cut short"},
		"zipped garbage":       {append([]byte{0x1f, 0x8b}, "garbage that is long enough to be read"...), "compression is damaged"},
		"a bomb":               {zipped(t, func(z *gzip.Writer) { repeat(t, z, make([]byte, 1<<20), 65) }), "unpacks to more than 64 MB"},
		"too long":             {make([]byte, 32<<20+1), "more than 32"},
		"too many samples":     {message(2, nil, 200_001), "more than 200000 samples"},
		"too many functions":   {message(5, nil, 1_000_001), "more than 1000000 functions"},
		"too many texts":       {message(6, nil, 1_000_001), "more than 1000000 texts"},
		"too many frames":      {message(2, locations(1<<20), 8), "more than 8000000 parts"},
		"too many inlined":     {message(4, message(4, nil, 513), 1), "more than 512 functions inlined"},
		"a tag of no field":    {[]byte{0, 0}, "no profile in pprof's format"},
		"no types":             {message(6, nil, 1), "does not say what it measured"},
		"two values of a type": {packed(t, twice), "contradicts itself"},
		"a sample and no more": {message(2, nil, 1), "damaged"},
		"zipped nothing":       {zipped(t, func(*gzip.Writer) {}), "damaged"},
	} {
		_, err := lab.Parse(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%s: %v, not %q", name, err, c.want)
		}
	}
}

func repeat(t *testing.T, z *gzip.Writer, content []byte, times int) {
	t.Helper()
	for range times {
		if _, err := z.Write(content); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStackThatIsTooDeepKeepsItsEnds(t *testing.T) {
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("main.f%d", i))
	}
	p := second(t, stacks{strings.Join(names, ";"): 1000})
	depth, cut := 0, 0
	var last *lab.Node
	for n := p.Tree(lab.CPU); ; n = n.Children[0] {
		depth, last = depth+1, n
		if n.Name == lab.Cut {
			cut = depth
		}
		if len(n.Children) == 0 {
			break
		}
	}
	if depth != 513 || cut != 129 || last.Name != "main.f1999" {
		t.Errorf("%d nodes with the root, cut at %d, and the leaf is %s", depth, cut, last.Name)
	}
	if got := p.Top(lab.CPU, lab.Started, 1); len(got) != 1 || got[0].Function != "main.f0" {
		t.Errorf("the root is %+v", got)
	}
}

// TestInlinedCallsDoNotMakeMemoryOfLittle has a profile of which each byte would be half a thousand frames.
func TestInlinedCallsDoNotMakeMemoryOfLittle(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "main.f"}
	l := &profile.Location{ID: 1}
	for i := range 512 {
		l.Line = append(l.Line, profile.Line{Function: f, Line: int64(i)})
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}}, Function: []*profile.Function{f}, Location: []*profile.Location{l}}
	for range 20_000 {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1}})
	}
	if _, err := lab.Parse(packed(t, p)); err == nil || !strings.Contains(err.Error(), "more than 8000000 calls") {
		t.Error(err)
	}
}

func TestNamesAreBoundedLinesOfText(t *testing.T) {
	p := second(t, stacks{"main.\x1b[31mred\n\xff": 1, strings.Repeat("é", 1000): 1})
	for _, at := range p.Top(lab.CPU, lab.Leaf, 5) {
		if len(at.Function) > 310 || strings.ContainsAny(at.Function, "\x1b\n") || !utf8.ValidString(at.Function) {
			t.Errorf("%q", at.Function)
		}
	}
}

func FuzzParse(f *testing.F) {
	whole := encoded(f, time.Second, "cpu", "nanoseconds", stacks{"main.main;main.work[...]": 5, "main.main": 3})
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	p, err := profile.ParseData(whole)
	if err != nil {
		f.Fatal(err)
	}
	var raw bytes.Buffer
	if err := p.WriteUncompressed(&raw); err != nil {
		f.Fatal(err)
	}
	f.Add(raw.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := lab.Parse(data)
		if err != nil {
			return
		}
		for _, kind := range p.Kinds() {
			total := p.Total(kind)
			var sum float64
			for _, weight := range p.Classify(kind, func(stack []lab.Frame) string { return fmt.Sprint(len(stack)) }) {
				sum += weight
			}
			if difference := sum - total; difference > 1e-6*total || difference < -1e-6*total {
				t.Errorf("classes weigh %v of %v", sum, total)
			}
			if root := lab.Difference(p, p, kind); (root == nil) != (total == 0) {
				t.Errorf("a tree of %v: %v", total, root)
			}
			p.Top(kind, lab.FirstUser, 3)
			p.Cumulative(kind)
		}
	})
}
