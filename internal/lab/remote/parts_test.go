package remote

import (
	"reflect"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestWindowsOfTheSameTimeAreAddedUp(t *testing.T) {
	var got []measure.Window
	w := windows{length: 10, of: make([]part, 2), observe: func(w *measure.Window) { got = append(got, *w) }}
	add := func(from int, start, length int64, due uint64) {
		t.Helper()
		var h measure.Histogram
		h.Record(int64(due))
		win := &measure.Window{Start: start, Length: length, Due: due, Waiting: 1, InFlight: 2,
			Response: h.Sparse()}
		if err := w.add(from, win); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 0, 10, 1)
	add(0, 10, 10, 2)
	if len(got) != 0 {
		t.Fatal("a window without that of the other")
	}
	add(1, 0, 20, 4) // it could not pass on the first one in time
	add(1, 20, 10, 8)
	add(0, 20, 3, 16) // its last
	w.end(0)
	add(1, 30, 10, 32)
	add(1, 40, 7, 64) // the last of all
	w.end(1)
	want := []struct {
		start, length int64
		due           uint64
		waiting       int
	}{{0, 20, 7, 2}, {20, 10, 24, 2}, {30, 10, 32, 1}, {40, 7, 64, 1}}
	if len(got) != len(want) {
		t.Fatalf("%d windows, want %d: %+v", len(got), len(want), got)
	}
	for i, x := range want {
		g := got[i]
		if g.Start != x.start || g.Length != x.length || g.Due != x.due || g.Waiting != x.waiting ||
			g.Response.Sum != x.due {
			t.Errorf("window %d: %+v, want %+v", i, g, x)
		}
	}
	if w.add(1, &measure.Window{Start: 47, Length: 1}) == nil {
		t.Error("a window after the last one")
	}
}

// Another clock is 1000 ahead; some round trips are slow on one way.
func TestClocksAreComparedByWhatRoundTripsProve(t *testing.T) {
	trip := func(sent, there, answer, back int64) reading {
		return reading{sent, sent + there + 1000, sent + there + answer + 1000, sent + there + answer + back}
	}
	for _, c := range []struct {
		readings []reading
		most     int64
	}{
		{[]reading{trip(0, 50, 5, 50)}, 51},
		{[]reading{trip(0, 500, 5, 10), trip(2000, 10, 5, 500)}, 11},
		{[]reading{trip(0, 500, 0, 500), trip(2000, 3, 700, 3)}, 4},
	} {
		got := compare(c.readings)
		if got.uncertainty > c.most || got.offset < 1000-got.uncertainty ||
			got.offset > 1000+got.uncertainty {
			t.Errorf("%+v: %+v", c.readings, got)
		}
	}
	if got := compare([]reading{trip(0, 30, 900, 40)}); got.longest != 70 {
		t.Errorf("a round trip of 70 took %d", got.longest)
	}
	// Clocks that drift prove what cannot be: the uncertainty says by how much.
	if got := compare([]reading{{0, 100, 100, 1}, {10, 90, 90, 11}}); got.uncertainty < 9 {
		t.Errorf("%+v", got)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]address{
		"gen1":             {"gen1", ""},
		"load@gen1":        {"load@gen1", ""},
		"load@gen1:2222":   {"load@gen1", "2222"},
		"load@[::1]:22":    {"load@::1", "22"},
		"[fe80::1%eth0]":   {"fe80::1%eth0", ""},
		"a.b-c@10.0.0.1:1": {"a.b-c@10.0.0.1", "1"},
	} {
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "@", "a@", "@b", "-oProxyCommand=x", "-v@h", "a@-b", "h:0", "h:99999", "h:x", "::1", "a b",
		"a@h;reboot", "a@$(x)",
		"a@h:22:23", "a\n", "'", "h:", "ssh://h",
	} {
		if got, err := parseAddress(text); err == nil || !strings.Contains(err.Error(), "user@host") {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
}

func TestAnotherKindOfMachineIsRefused(t *testing.T) {
	for _, names := range []string{"Linux riscv64", "SunOS sun4v", "Linux", "", "Linux x86_64 aarch64"} {
		if err := sameKind(strings.Fields(names)); err == nil || !strings.Contains(err.Error(), "made for") {
			t.Errorf("%q: %v", names, err)
		}
	}
}

func TestLoopsAreDealtOutEvenly(t *testing.T) {
	f := &Fleet{peers: []*peer{{name: "a", loops: 4}, {name: "b", loops: 1}, {name: "c", loops: 2}}}
	for all, want := range map[int][]int{1: {1}, 2: {1, 1}, 4: {2, 1, 1}, 7: {4, 1, 2}, 100: {4, 1, 2}} {
		o := withDefaults(optionsOf(all))
		var got []int
		first := 0
		for _, s := range f.deal(&o) {
			got = append(got, s.Loops)
			if s.First != first || s.All != min(all, 7) {
				t.Errorf("%d loops: from %d of %d, want from %d", all, s.First, s.All, first)
			}
			first += s.Loops
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d loops: %v, want %v", all, got, want)
		}
	}
}
