package upstream

import (
	"crypto/tls"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]struct {
		printed, authority string
		named              bool
	}{
		"127.0.0.1:80":          {"127.0.0.1:80", "127.0.0.1:80", false},
		"[::1]:80":              {"[::1]:80", "[::1]:80", false},
		"[::ffff:127.0.0.1]:80": {"127.0.0.1:80", "[::ffff:127.0.0.1]:80", false},
		"users.internal:8080":   {"invalid AddrPort", "users.internal:8080", true},
		"unix:/run/users.sock":  {"unix:/run/users.sock", "localhost", false},
	} {
		a, named, err := parseAddress(text)
		if err != nil || named != want.named || a.Authority() != want.authority || (!named && a.String() != want.printed) {
			t.Errorf("%s is %v (%s), named %v, error %v", text, a, a.Authority(), named, err)
		}
	}
	for _, text := range []string{
		"", "127.0.0.1", "host:", ":80", "host:0", "host:65536", "host:http", "::1:80", "unix:",
		"unix:/" + strings.Repeat("x", 107), "unix:/a\x00b",
	} {
		if _, _, err := parseAddress(text); err == nil || !strings.Contains(err.Error(), "target") {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	w := newWorld(t, 1)
	for want, change := range map[string]func(*Options){
		"no targets":        func(o *Options) { o.Targets = nil },
		"more than the":     func(o *Options) { o.Targets = make([]TargetOption, maxTargets+1) },
		"weight 1001":       func(o *Options) { o.Targets[0].Weight = 1001 },
		"weight -1":         func(o *Options) { o.Targets[0].Weight = -1 },
		"not known":         func(o *Options) { o.Policy = "fastest" },
		"panic is 1.5":      func(o *Options) { o.Panic = 1.5 },
		"retry budget":      func(o *Options) { o.RetryBudget = math.NaN() },
		"max_ejected":       func(o *Options) { o.Passive.MaxEjected = -1 },
		"neither may":       func(o *Options) { o.Passive.SuccessRateDeviations = -1 },
		"is negative":       func(o *Options) { o.IdleTimeout = -1 },
		"health check's":    func(o *Options) { o.Active = &ActiveOptions{} },
		"deep health check": func(o *Options) { o.Active = &ActiveOptions{Path: "/", DeepPath: "x"} },
		"health checks is":  func(o *Options) { o.Active = &ActiveOptions{Path: "/", Timeout: -1} },
		"port must be":      func(o *Options) { o.Targets[0].Address = "a:b" },
	} {
		o := DefaultOptions(addresses(1)...)
		change(&o)
		if _, err := New("users", o, w.env()); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "users") {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestAReloadKnowsWhatStayedTheSame(t *testing.T) {
	w := newWorld(t, 1)
	make := func() Options {
		o := DefaultOptions(addresses(2)...)
		o.Active = &ActiveOptions{Path: "/"}
		o.TLS, o.TLSIdentity = &tls.Config{}, "ca.pem"
		return o
	}
	u := w.upstream(make())
	same := make()
	same.MaxConnections, same.Active.Interval = 0, 3*time.Second
	if !u.SameAs(make()) || !u.SameAs(same) {
		t.Error("the same options, and their defaults written out, should be the same")
	}
	for name, change := range map[string]func(*Options){
		"weight": func(o *Options) { o.Targets[1].Weight = 2 },
		"active": func(o *Options) { o.Active.Path = "/x" },
		"tls":    func(o *Options) { o.TLSIdentity = "other.pem" },
		"policy": func(o *Options) { o.Policy = Hash },
	} {
		o := make()
		change(&o)
		if u.SameAs(o) {
			t.Errorf("another %s is not the same", name)
		}
	}
}

func TestAReplacedUpstreamHandsOnWhatItKnows(t *testing.T) {
	w := newWorld(t, 1)
	o := DefaultOptions("users.internal:80", "127.0.0.1:80", "127.0.0.2:80", "127.0.0.3:80")
	o.Active = &ActiveOptions{Path: "/"}
	old := w.upstream(o)
	old.resolved(0, w.now, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil)
	targets := old.set.Load().targets
	for range 3 {
		old.checked(targets[1], check{asks: "/"}, w.now, errors.New("refused"))
	}
	for range 5 {
		old.failed(targets[2])
	}
	old.step(w.now)
	if err := old.Drain("127.0.0.3:80"); err != nil {
		t.Fatal(err)
	}
	states := func(o Options) string {
		u := w.upstream(o)
		u.settled = false
		u.Inherit(old)
		var all []string
		for _, s := range u.Status().Targets {
			all = append(all, s.Address+" "+s.State)
		}
		w.now += 10 * second
		u.step(w.now)
		w.now -= 10 * second
		for _, tg := range u.set.Load().targets {
			if tg.addr.String() == "127.0.0.2:80" && tg.state.Load() != 0 {
				t.Error("an ejection that was handed on does not end")
			}
		}
		return strings.Join(all, ", ")
	}
	o.Targets = append(o.Targets, TargetOption{Address: "127.0.0.4:80", Weight: 1})
	want := "10.0.0.1:80 up, 127.0.0.1:80 down, 127.0.0.2:80 ejected, 127.0.0.3:80 drained, 127.0.0.4:80 up"
	if got := states(o); got != want {
		t.Errorf("the new one begins with %s, want %s", got, want)
	}
	o.Active, o.Passive.Disabled = nil, true
	want = "10.0.0.1:80 up, 127.0.0.1:80 up, 127.0.0.2:80 up, 127.0.0.3:80 drained, 127.0.0.4:80 up"
	if got := states(o); got != want {
		t.Errorf("without checks it begins with %s, want %s", got, want)
	}
}

func TestStatusAndReportSayWhatIsGoingOn(t *testing.T) {
	w := newWorld(t, 1)
	u := w.upstream(DefaultOptions(addresses(2)...))
	l := u.Local(0)
	m := mustPick(t, l, w.now, 0)
	c := open(t, w, m)
	m.Begin(w.now)
	m.End(w.now, Success, int64(5*time.Millisecond))
	m.Put(c, w.now)
	m.Begin(w.now)
	m.End(w.now, Timeout, int64(time.Second))
	m.Begin(w.now)
	r := l.Members(w.now, index(l, m), 1)[0]
	if r.Outstanding != 1 || r.Idle != 1 || r.Requests != 2 || r.Failures != 1 || r.Latency != time.Second {
		t.Errorf("the report is %+v", r)
	}
	s := u.Status().Targets[index(l, m)]
	if s.Connections != 1 || s.ConsecutiveFailures != 1 || s.State != "up" || !s.Usable {
		t.Errorf("the status is %+v", s)
	}
	if err := u.Drain(addresses(1)[0]); err != nil {
		t.Fatal(err)
	}
	if s := u.Status().Targets[0]; s.State != "drained" || s.Why != whyDrained || s.Usable {
		t.Errorf("a drained target's status is %+v", s)
	}
}

func TestManyTargetsAreLookedAtInPieces(t *testing.T) {
	w := newWorld(t, 1)
	u := w.upstream(DefaultOptions(addresses(10)...))
	l := u.Local(0)
	for range 7 {
		mustPick(t, l, w.now, 0).Begin(w.now)
	}
	var names []string
	for from := 0; ; from += 4 {
		piece := l.Members(w.now, from, 4)
		for _, m := range piece {
			names = append(names, m.Address)
		}
		if len(piece) < 4 {
			break
		}
	}
	if !slices.Equal(names, addresses(10)) {
		t.Errorf("in pieces of four there are %q", names)
	}
	var sum Load
	calls := 0
	for from := 0; calls == 0 || from > 0; calls++ {
		from = l.AddLoad(&sum, from, 4)
	}
	if calls != 3 || sum.Outstanding != 7 {
		t.Errorf("in %d pieces the sum is %+v", calls, sum)
	}
}

func TestEjectionsAreCountedOverReloads(t *testing.T) {
	w := newWorld(t, 1)
	u := w.upstream(DefaultOptions(addresses(3)...))
	m := mustPick(t, u.Local(0), w.now, 0)
	for range 5 {
		m.Begin(w.now)
		m.End(w.now, Reset, 0)
	}
	u.step(w.now)
	after := w.upstream(DefaultOptions(addresses(1)...))
	after.Inherit(u)
	if a, b := u.Status().Ejections, after.Status().Ejections; a != 1 || b != 1 {
		t.Errorf("%d ejections, and %d after a reload that took targets out; want 1", a, b)
	}
}

// A reload may wait for name servers between taking over what is known and putting it in force.
func TestAnOperatorsWordIsHeardWhileAReloadIsUnderWay(t *testing.T) {
	w := newWorld(t, 1)
	u := w.upstream(DefaultOptions(addresses(3)...))
	if err := u.Drain(addresses(3)[0]); err != nil {
		t.Fatal(err)
	}
	refused := w.upstream(DefaultOptions(addresses(2)...))
	refused.Inherit(u)
	refused.Close()
	after := w.upstream(DefaultOptions(addresses(2)...))
	after.Inherit(u)
	for _, err := range []error{u.Restore(addresses(3)[0]), u.Drain(addresses(3)[1]), u.Drain(addresses(3)[2])} {
		if err != nil {
			t.Error(err)
		}
	}
	for i, want := range []string{"up", "drained"} {
		if got := after.Status().Targets[i].State; got != want {
			t.Errorf("target %d of the new upstream is %s, want %s", i, got, want)
		}
		if got := refused.Status().Targets[i].State; got != []string{"drained", "up"}[i] {
			t.Errorf("target %d of an upstream that was refused has become %s", i, got)
		}
	}
}
