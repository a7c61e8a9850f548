package guard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/plainfile"
	"plimsoll/internal/policy/guard"
)

const patience = time.Minute

// list writes a file with n keys, p0 and so on.
func list(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "p%d\n", i)
	}
	name := filepath.Join(t.TempDir(), "keys")
	write(t, name, b.String())
	return name
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, o guard.Options) *guard.Policy {
	t.Helper()
	if o.Key == "" {
		o.Key = "query:id"
	}
	p, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// eventually waits until the status is as wanted.
func eventually(t *testing.T, p *guard.Policy, what string, holds func(guard.Status) bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(p.Status().(guard.Status)); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not so in time: %s; %+v", what, p.Status())
		}
	}
}

func loaded(s guard.Status) bool { return s.Loaded }

// passes says whether a request for the key passes.
func passes(p *guard.Policy, key string) bool {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Request.Query = []byte("id=" + key)
	return p.OnRequest(x) == exchange.Continue
}

func TestKeysOfTheListPassAndOthersDoNotButForTheShareAskedFor(t *testing.T) {
	const n, others = 20_000, 100_000
	p := open(t, guard.Options{File: list(t, n), FalsePositives: 0.01})
	eventually(t, p, "the list is read", loaded)
	for i := range n {
		if !passes(p, fmt.Sprintf("p%d", i)) {
			t.Fatalf("p%d is in the list and refused", i)
		}
	}
	passed := 0
	for i := range others {
		if passes(p, fmt.Sprintf("q%d", i)) {
			passed++
		}
	}
	if share := float64(passed) / others; share > 0.011 {
		t.Errorf("%.4f of what is not in the list passes", share)
	}
	if s := p.Status().(guard.Status); s.Keys != n || s.FalsePositives > 0.01 || s.MemoryBytes > 4*n {
		t.Errorf("%+v", s)
	}
}

func TestWithoutAListEverythingPasses(t *testing.T) {
	p := open(t, guard.Options{File: filepath.Join(t.TempDir(), "none")})
	eventually(t, p, "it says why", func(s guard.Status) bool { return s.Error != "" })
	if !passes(p, "anything") {
		t.Error("refused without a list")
	}
}

func TestWhatIsChangedBeforeTheFirstListHoldsWithIt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "keys")
	p := open(t, guard.Options{File: name, Every: time.Millisecond})
	if err := p.Add("byhand"); err != nil {
		t.Fatal(err)
	}
	write(t, name, "a\n")
	eventually(t, p, "the list is read", loaded)
	if !passes(p, "byhand") || !passes(p, "a") || passes(p, "b") {
		t.Error("it does not hold")
	}
}

func TestRequestsWithoutTheKeyPass(t *testing.T) {
	p := open(t, guard.Options{File: list(t, 1)})
	eventually(t, p, "the list is read", loaded)
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	if p.OnRequest(x) != exchange.Continue {
		t.Error("refused")
	}
	if passes(p, "x") || x.Reason != exchange.NoReason {
		t.Error("an unknown key passes")
	}
}

func TestTheListIsReadAgainWhenItHasChanged(t *testing.T) {
	name := list(t, 10)
	p := open(t, guard.Options{File: name, Every: 2 * time.Millisecond})
	eventually(t, p, "the list is read", loaded)
	if err := p.Remove("p1"); err != nil {
		t.Fatal(err)
	}
	if err := p.Add("byhand"); err != nil {
		t.Fatal(err)
	}
	if passes(p, "p1") || !passes(p, "byhand") {
		t.Error("what was changed by hand does not hold")
	}
	write(t, name, "p1\nnew\n\n  spaces  \r\n")
	eventually(t, p, "the new list is read", func(s guard.Status) bool { return s.Keys == 4 })
	for key, want := range map[string]bool{"p1": true, "new": true, "spaces": true, "byhand": true,
		"p2": false} {
		if passes(p, key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
	write(t, name, "\n\n")
	eventually(t, p, "an empty list is refused",
		func(s guard.Status) bool { return strings.Contains(s.Error, "no keys") })
	if !passes(p, "new") || passes(p, "p2") {
		t.Error("an empty list has taken the last one's place")
	}
}

func TestAnInvalidListIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\nc\n":                         "max_keys",
		strings.Repeat("x", 5000) + "\na\n": "longer than",
	} {
		name := filepath.Join(t.TempDir(), "keys")
		write(t, name, text)
		p := open(t, guard.Options{File: name, MaxKeys: 2})
		eventually(t, p, want, func(s guard.Status) bool { return strings.Contains(s.Error, want) })
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{t.TempDir(), pipe} {
		p := open(t, guard.Options{File: name})
		eventually(t, p, name, func(s guard.Status) bool { return strings.Contains(s.Error, plainfile.ErrKind.Error()) })
	}
}

func TestAListAtAURL(t *testing.T) {
	var asked, broken atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if broken.Load() > 0 {
			w.WriteHeader(500)
			return
		}
		w.Header().Set("Etag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(304)
			return
		}
		fmt.Fprintln(w, "a")
	}))
	t.Cleanup(service.Close)
	p := open(t, guard.Options{URL: service.URL, Every: time.Millisecond})
	eventually(t, p, "the list is read, and looked at again",
		func(s guard.Status) bool { return s.Loaded && asked.Load() > 3 })
	broken.Store(1)
	eventually(t, p, "it says that it cannot be read",
		func(s guard.Status) bool { return strings.Contains(s.Error, "500") })
	if !passes(p, "a") || passes(p, "b") {
		t.Error("the last list does not hold any more")
	}
}

func TestAReloadKeepsTheFilterOfTheSameList(t *testing.T) {
	name := list(t, 10)
	old := open(t, guard.Options{File: name, Every: time.Hour})
	eventually(t, old, "the list is read", loaded)
	old.Add("byhand")
	same := open(t, guard.Options{File: name, Every: time.Hour})
	same.Inherit(old)
	if !passes(same, "byhand") || passes(same, "other") {
		t.Error("the filter was not taken over")
	}
	if other := open(t, guard.Options{File: list(t, 3), Every: time.Hour}); true {
		other.Inherit(old)
		eventually(t, other, "the other list is read", func(s guard.Status) bool { return s.Keys == 3 })
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for _, o := range []guard.Options{
		{Key: "query:id"}, {File: "a"}, {Key: "client_address", File: "a"}, {Key: "query:id",
			File: "a", URL: "b"},
		{Key: "query:id", File: "a", FalsePositives: 0.9}, {Key: "query:id", File: "a", MaxKeys: -1},
	} {
		if p, err := guard.New(o); err == nil {
			p.Close()
			t.Errorf("%+v is taken", o)
		}
	}
}
