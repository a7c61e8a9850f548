package limit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOverridesAreChangedAtRunTime(t *testing.T) {
	limit := by("header:X-Tenant", perMinute(3))
	limit.Overrides = map[string]Override{"acme": {Rate: Rate{5, time.Minute}}}
	b := newBench(t, limit)
	set := func(value string, count int64) {
		t.Helper()
		if err := b.SetOverride("1", value, Rate{count, time.Minute}, 0); err != nil {
			t.Fatal(err)
		}
	}
	tenant := func(name string) int { return b.passes("", "X-Tenant", name) }
	if n := tenant("acme"); n != 5 {
		t.Errorf("%d pass of the override, want 5", n)
	}
	set("acme", 10)
	if n := tenant("acme"); n != 5 {
		t.Errorf("%d pass of an override of 10 that owes 5 as before, want 5", n)
	}
	set("other", 7)
	if n, rest := tenant("other"), tenant("third"); n != 7 || rest != 3 {
		t.Errorf("%d and %d pass, want 7 of the new override and 3 of others", n, rest)
	}
	b.now += 60 * second
	if n := tenant("acme"); n != 10 {
		t.Errorf("%d pass of the changed override, want 10", n)
	}
	if s := b.status("1"); s.OverridesChanged != 2 || s.Changed {
		t.Errorf("the status is %+v, want 2 changed overrides and the limit unchanged", s)
	}

	// A reload that leaves the overrides alone keeps them; one that changes them puts its own in force.
	b.now += 60 * second
	reload := func(limit Limit) {
		next := newBench(t, limit)
		next.Inherit(b.Policy)
		b.Policy = next.Policy
	}
	reload(limit)
	if n := tenant("other"); n != 7 {
		t.Errorf("%d pass after a reload, want 7", n)
	}
	limit.Overrides = map[string]Override{"acme": {Rate: Rate{6, time.Minute}}}
	reload(limit)
	if n, rest := tenant("acme"), tenant("other"); n != 6 || rest != 3 || b.status("1").OverridesChanged != 0 {
		t.Errorf("%d and %d pass after a reload with other overrides, want 6 and 3", n, rest)
	}
}

func TestOverridesThatCannotBeSet(t *testing.T) {
	b := newBench(t, by("client_address", perMinute(3)), perMinute(5))
	for _, c := range []struct {
		name, value string
		count       int64
		want        string
	}{
		{"1", "not-an-address", 5, "address"}, {"1", "192.0.2.1", 0, "1 to"}, {"2", "a", 5, "has no key"}, {"3", "a", 5, "no limit"},
	} {
		err := b.SetOverride(c.name, c.value, Rate{c.count, time.Minute}, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLogsOfOverridesTakeABoundedMemory(t *testing.T) {
	const enough = maxLogSize / (8 * maxRing)
	l := by("header:X-Tenant", perMinute(3))
	l.Name, l.Algorithm, l.Overrides = "logs", SlidingLog, map[string]Override{}
	for i := range enough + 1 {
		l.Overrides[fmt.Sprint(i)] = Override{Rate: Rate{maxRing, time.Minute}}
	}
	refused := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "more than 1024 MB") {
			t.Errorf("logs of overrides of more than a GB give %v", err)
		}
	}
	_, err := l.check()
	refused(err)
	delete(l.Overrides, "0")
	if _, err = l.check(); err != nil {
		t.Errorf("as many logs as there may be are refused: %v", err)
	}

	l.Overrides = nil
	b := newBench(t, l)
	largest, err := newParams(b.limits[0].numbers(Rate{maxRing, time.Minute}, 0))
	if err != nil {
		t.Fatal(err)
	}
	b.limits[0].current = map[string]*params{}
	for i := range enough {
		b.limits[0].current[fmt.Sprint(i)] = largest
	}
	refused(b.SetOverride("logs", "one more", Rate{maxRing, time.Minute}, 0))
}
