package profile_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	lab "plimsoll/internal/lab/profile"
)

// stacks are a profile's weights by stack, the root first, written "main.main;main.work".
type stacks map[string]int64

// encoded returns a profile in pprof's format.
func encoded(t testing.TB, length time.Duration, kind, unit string, of stacks) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: kind, Unit: unit}}, DurationNanos: length.Nanoseconds()}
	known := map[string]*profile.Location{}
	for _, text := range slices.Sorted(maps.Keys(of)) {
		s := &profile.Sample{Value: []int64{of[text]}}
		names := strings.Split(text, ";")
		slices.Reverse(names)
		for _, name := range names {
			if known[name] == nil {
				f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: "/home/build/src/shop/cart/" + name + ".go"}
				p.Function = append(p.Function, f)
				known[name] = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 10 + int64(f.ID)}}}
				p.Location = append(p.Location, known[name])
			}
			s.Location = append(s.Location, known[name])
		}
		p.Sample = append(p.Sample, s)
	}
	return packed(t, p)
}

func packed(t testing.TB, p *profile.Profile) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func parsed(t testing.TB, data []byte) *lab.Profile {
	t.Helper()
	p, err := lab.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// second returns a processor profile of one second, in which a weight of 1 is a millisecond.
func second(t testing.TB, of stacks) *lab.Profile {
	t.Helper()
	return parsed(t, encoded(t, time.Second, "cpu", "milliseconds", of))
}

// drawn formats a tree as text: a name, its weight in thousandths, before if there is one, and the
// children in brackets.
func drawn(n *lab.Node) string {
	if n == nil {
		return "nothing"
	}
	text := n.Name + " " + thousandths(n.Weight)
	if n.Before > 0 {
		text += "<" + thousandths(n.Before)
	}
	if len(n.Children) == 0 {
		return text
	}
	var all []string
	for _, c := range n.Children {
		all = append(all, drawn(c))
	}
	return text + " (" + strings.Join(all, ", ") + ")"
}
