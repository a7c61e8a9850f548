package profile_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"

	"plimsoll/internal/lab/format"
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

// message returns a field of a message, repeated times times.
func message(number protowire.Number, content []byte, times int) []byte {
	return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content), times)
}

func TestWhatIsNotAProfileIsSaidInOneLine(t *testing.T) {
	whole := encoded(t, time.Second, "cpu", "nanoseconds", stacks{"main.main;main.work": 5})
	locations := func(n int) []byte { return message(1, make([]byte, n), 1) }
	twice := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}},
		Sample: []*profile.Sample{{Value: []int64{1, 2}}}}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "empty"},
		"a page":               {[]byte("<!doctype html><title>404</title>"), "not a profile in pprof's format"},
		"the text form":        {[]byte("goroutine profile: total 7\n1 @ 0x1\n"), "not a profile in pprof's format"},
		"cut short":            {whole[:len(whole)-10], "cut short"},
		"zipped garbage":       {append([]byte{0x1f, 0x8b}, "garbage that is long enough to be read"...), "compression is damaged"},
		"a bomb":               {zipped(t, func(z *gzip.Writer) { repeat(t, z, make([]byte, 1<<20), 65) }), "unpacks to more than 64 MiB"},
		"too long":             {make([]byte, 32<<20+1), "more than 32"},
		"too many types":       {message(1, nil, 101), "more than 100 types"},
		"too many samples":     {message(2, nil, 200_001), "more than 200000 samples"},
		"too many mappings":    {message(3, nil, 1<<16+1), "more than 65536 mappings"},
		"too many functions":   {message(5, nil, 500_001), "more than 500000 functions"},
		"too many texts":       {message(6, nil, 500_001), "more than 500000 texts"},
		"too many labels":      {message(2, message(3, nil, 8_000_001), 1), "more than 8000000 parts"},
		"too many frames":      {message(2, locations(1<<20), 8), "more than 8000000 parts"},
		"too many inlined":     {message(4, message(4, nil, 513), 1), "more than 512 functions inlined"},
		"too many lines":       {message(4, message(4, nil, 512), 977), "more than 500000 lines of code"},
		"a tag of no field":    {[]byte{0, 0}, "not a profile in pprof's format"},
		"a number for a text":  {[]byte{6 << 3, 0}, "damaged"},
		"two in one":           {append(raw(t, whole, 7), raw(t, whole, 7)...), "damaged"},
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

// raw returns a profile without compression. at is the time at which it was taken.
func raw(t testing.TB, data []byte, at int64) []byte {
	t.Helper()
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	p.TimeNanos = at
	var out bytes.Buffer
	if err := p.WriteUncompressed(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
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

// TestInlinedCallsDoNotMakeMemoryOfLittle has a profile in which each byte would become half a
// thousand frames.
func TestInlinedCallsDoNotMakeMemoryOfLittle(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "main.f"}
	l := &profile.Location{ID: 1}
	for i := range 512 {
		l.Line = append(l.Line, profile.Line{Function: f, Line: int64(i)})
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}},
		Function: []*profile.Function{f}, Location: []*profile.Location{l}}
	for range 20_000 {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1}})
	}
	if _, err := lab.Parse(packed(t, p)); err == nil || !strings.Contains(err.Error(), "more than 8000000 calls") {
		t.Error(err)
	}
}

// TestWhatIsNotReadMakesNoMemory has profiles of a few thousand compressed bytes, for which pprof's
// parser alone would allocate a gigabyte, or cleaning names would take hours.
func TestWhatIsNotReadMakesNoMemory(t *testing.T) {
	whole := raw(t, encoded(t, time.Second, "cpu", "nanoseconds", stacks{"main.main;main.work": 5}), 0)
	numbers := make([]byte, 0, 6<<20)
	for i := range 1_000_000 {
		numbers = append(protowire.AppendTag(numbers, protowire.Number(1_000_000+i), protowire.VarintType), 0)
	}
	// A sample with a value and without a location.
	labelled := message(2, append([]byte{2 << 3, 5}, message(3, nil, 2_000_000)...), 1)
	for name, more := range map[string][]byte{
		"labels": labelled, "comments": message(13, make([]byte, 8<<20), 1), "fields without a name": numbers,
		"a long name of many": named(t, strings.Repeat("x",
			1<<20)), "type arguments of many": named(t,
			"main.work["+strings.Repeat("x", 1<<20)+"]"),
	} {
		data := append(bytes.Clone(whole), more...)
		if strings.HasSuffix(name, "of many") {
			data = more
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := lab.Parse(data)
		runtime.ReadMemStats(&after)
		if err != nil || p.Total(lab.CPU) == 0 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 64 {
			t.Errorf("%s: %d MB were made of %d", name, made, len(data)>>20)
		}
		for _, at := range p.Top(lab.CPU, lab.Leaf, 5) {
			if len(at.Function) > 310 || len(at.File) > 310 {
				t.Errorf("%s: %d bytes of %.20q in %.20q", name, len(at.Function), at.Function, at.File)
			}
		}
	}
}

// named returns a profile with many functions of the same name, in a file and a binary of that
// name.
func named(t testing.TB, name string) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}}}
	m := &profile.Mapping{ID: 1, File: name}
	p.Mapping = append(p.Mapping, m)
	for i := range uint64(20_000) {
		f := &profile.Function{ID: i + 1, Name: name, Filename: name}
		if i%2 > 0 {
			f.Name = "" // so that its name is the binary's
		}
		l := &profile.Location{ID: i + 1, Mapping: m, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1}})
	}
	return raw(t, packed(t, p), 0)
}

func TestNamesAreBoundedLinesOfText(t *testing.T) {
	binary := &profile.Mapping{ID: 1, File: "/lib/\u202elib\u0085c\xff.so"}
	hostile := &profile.Function{ID: 1, Name: "main.\x1b[31mred\n\xff\u009b\u202e\u2028", Filename: "/src/\u2066a\x9b/b\u0090.go"}
	long := &profile.Function{ID: 2, Name: strings.Repeat("é", 1000), Filename: strings.Repeat("\xff", 1000)}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}, {Type: "\u202ewall\u0080", Unit: "seconds"}},
		Mapping: []*profile.Mapping{binary}, Function: []*profile.Function{hostile, long}}
	for i, lines := range [][]profile.Line{nil, {{Function: hostile}}, {{Function: long}}} {
		l := &profile.Location{ID: uint64(i + 1), Mapping: binary, Line: lines}
		p.Location = append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1, 1}})
	}
	read := parsed(t, packed(t, p))
	texts := read.Kinds()
	for _, at := range read.Top(lab.CPU, lab.Leaf, 5) {
		texts = append(texts, at.Function, at.File)
	}
	if len(texts) != 8 {
		t.Errorf("%d texts: %q", len(texts), texts)
	}
	for _, text := range texts {
		if len(text) > 310 || format.Clean(text) != text || !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	whole := encoded(f, time.Second, "cpu", "nanoseconds", stacks{"main.main;main.work[...]": 5, "main.main": 3})
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(raw(f, whole, 7))
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
