package profile_test

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	lab "plimsoll/internal/lab/profile"
)

func thousandths(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e3, 'g', -1, 64) }

func TestATreeMergesStacksFromTheRoot(t *testing.T) {
	p := second(t, stacks{"main.main;main.cart;json.Marshal": 300, "main.main;main.cart": 100,
		"main.main;main.pay": 500, "runtime.gc": 100})
	want := "all 1000 (main.main 900 (main.pay 500, main.cart 400 (json.Marshal 300)), runtime.gc 100)"
	if got := drawn(p.Tree(lab.CPU)); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
}

func TestWeightsAreForASecondWhereTimeMakesThemGrow(t *testing.T) {
	for _, c := range []struct {
		kind, unit string
		value      int64
		want       float64
		words      string
	}{
		{"cpu", "nanoseconds", 6e9, 1.5, "processor seconds a second"},
		{"delay", "nanoseconds", 8e9, 2, "seconds waited a second"},
		{"contentions", "count", 40, 10, "waits a second"},
		{"alloc_space", "bytes", 4096, 1024, "bytes allocated a second"},
		{"alloc_objects", "count", 8, 2, "objects allocated a second"},
		{"inuse_space", "bytes", 4096, 4096, "bytes alive"},
		{"goroutine", "count", 40, 40, "goroutines"},
		{"lamas", "count", 40, 40, "lamas"},
	} {
		p := parsed(t, encoded(t, 4*time.Second, c.kind, c.unit, stacks{"main.main": c.value}))
		if got := p.Total(c.kind); got != c.want || p.Tree(c.kind).Weight != c.want {
			t.Errorf("%d %s of %s in 4 s: %v, not %v", c.value, c.unit, c.kind, got, c.want)
		}
		if got := p.Unit(c.kind); got != c.words {
			t.Errorf("%s is in %q, not %q", c.kind, got, c.words)
		}
	}
}

func TestAProfileWithoutADurationHasPlainAmounts(t *testing.T) {
	p := parsed(t, encoded(t, 0, "alloc_space", "bytes", stacks{"main.main": 4096}))
	if p.Rate(lab.AllocSpace) || p.Total(lab.AllocSpace) != 4096 || p.Unit(lab.AllocSpace) != "bytes allocated" || p.Seconds() != 0 {
		t.Errorf("%v %s", p.Total(lab.AllocSpace), p.Unit(lab.AllocSpace))
	}
}

func TestAKindThatIsNotThereWeighsNothing(t *testing.T) {
	p := second(t, stacks{"main.main": 1000})
	if p.Total(lab.Delay) != 0 || p.Tree(lab.Delay) != nil ||
		len(p.Top(lab.Delay, lab.Leaf, 5)) != 0 || len(p.Cumulative(lab.Delay)) != 0 ||
		len(p.Classify(lab.Delay, func([]lab.Frame) string { return "x" })) != 0 {
		t.Error("a processor profile has weight in delay")
	}
	if got := p.Kinds(); !reflect.DeepEqual(got, []string{"cpu"}) {
		t.Errorf("kinds %v", got)
	}
}

func TestLightNodesAreFoldedIntoOne(t *testing.T) {
	of := stacks{"main.main;main.heavy": 1_000_000}
	for i := range 900 {
		of[fmt.Sprintf("main.main;main.light%d;main.deep", i)] = 900
	}
	want := "all 1810 (main.main 1810 (main.heavy 1000, … 810))"
	if got := drawn(parsed(t, encoded(t, time.Second, "cpu", "microseconds", of)).Tree(lab.CPU)); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
}

func TestATreeHasABoundedNumberOfNodesAndLosesNoWeight(t *testing.T) {
	of := stacks{}
	for i := range 900 {
		name := fmt.Sprintf("f%d", i)
		for depth := range 30 {
			name += fmt.Sprintf(";g%d", depth)
		}
		of[name] = 1000 + int64(i)
	}
	root := second(t, of).Tree(lab.CPU)
	count := 0
	var walk func(n *lab.Node)
	walk = func(n *lab.Node) {
		count++
		var sum float64
		for _, c := range n.Children {
			sum += c.Weight
			walk(c)
		}
		if len(n.Children) > 0 && math.Abs(sum-n.Weight) > 1e-9 {
			t.Fatalf("%s weighs %v and its children %v, though nothing ends in it", n.Name, n.Weight, sum)
		}
	}
	walk(root)
	if count > 5000 || count < 4000 {
		t.Errorf("%d nodes", count)
	}
}

func TestADifferenceHasBothWeights(t *testing.T) {
	before := second(t, stacks{"main.main;main.cart": 400, "main.main;main.old": 100})
	after := parsed(t, encoded(t, 2*time.Second, "cpu", "milliseconds", stacks{"main.main;main.cart": 1000, "main.main;main.new": 200}))
	want := "all 600<500 (main.main 600<500 (main.cart 500<400, main.new 100, main.old 0<100))"
	root := lab.Difference(before, after, lab.CPU)
	if got := drawn(root); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	root.Scale(.5, .25)
	if want, got := "all 300<125 (main.main 300<125 (main.cart 250<100, main.new 50, main.old 0<25))", drawn(root); got != want {
		t.Errorf("scaled: %s\nnot %s", got, want)
	}
}

func TestATreeSaysWhatOneSampleWeighs(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "main.work"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f}}}
	take := func(length time.Duration, count int64) *lab.Profile {
		return parsed(t, packed(t, &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "milliseconds"}},
			DurationNanos: length.Nanoseconds(), Function: []*profile.Function{f}, Location: []*profile.Location{l},
			Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{count, 10 * count}}}}))
	}
	root := lab.Difference(take(time.Second, 30), take(4*time.Second, 80), lab.CPU)
	root.Scale(2, 4)
	if got, want := [2]string{thousandths(root.Grain), thousandths(root.GrainBefore)}, [2]string{"5", "40"}; got != want {
		t.Errorf("10 ms in 4 s twice and in 1 s four times: %v thousandths, not %v", got, want)
	}
	if root := second(t, stacks{"main.main": 1}).Tree(lab.CPU); root.Grain != 0 {
		t.Error("samples were not counted, and the tree says what one weighs")
	}
}

func TestADifferenceFromNothingIsAllNew(t *testing.T) {
	empty, after := second(t, stacks{}), second(t, stacks{"main.main": 1000})
	if got := drawn(lab.Difference(empty, after, lab.CPU)); got != "all 1000 (main.main 1000)" {
		t.Error(got)
	}
	if got := drawn(lab.Difference(empty, empty, lab.CPU)); got != "nothing" {
		t.Error(got)
	}
}

func TestWhatWasFreedMeanwhileIsNotHeld(t *testing.T) {
	p := parsed(t, encoded(t, time.Second, "inuse_space", "bytes", stacks{"main.keep": 70, "main.free": -30}))
	if got := drawn(p.Tree(lab.InuseSpace)); got != "all 70000 (main.keep 70000)" {
		t.Error(got)
	}
}

func TestEachStackIsInOneClass(t *testing.T) {
	p := second(t, stacks{"main.main;main.cart;encoding/json.Marshal;reflect.Value.Field": 300,
		"main.main;log/slog.Info": 200, "runtime.gcBgMarkWorker": 500})
	got := p.Classify(lab.CPU, func(stack []lab.Frame) string {
		for _, f := range stack {
			if strings.HasPrefix(f.Function, "encoding/json.") {
				return "json"
			}
		}
		return stack[0].Function
	})
	want := map[string]float64{"json": .3, "log/slog.Info": .2, "runtime.gcBgMarkWorker": .5}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

func TestTopGivesTheWeightToTheChosenFrame(t *testing.T) {
	p := second(t, stacks{"main.main;main.cart;encoding/json.Marshal": 300, "main.main;main.cart;sync.(*Mutex).Lock": 200,
		"main.main;github.com/shop/pay.Card;crypto/rsa.Sign": 400, "runtime.gc": 100})
	got := p.Top(lab.CPU, lab.FirstUser, 5)
	if len(got) != 2 || got[0].Function != "main.cart" || math.Abs(got[0].Share-.5) > 1e-9 ||
		got[1].Function != "github.com/shop/pay.Card" ||
		math.Abs(got[1].Share-.4) > 1e-9 {
		t.Fatalf("%+v", got)
	}
	if got[0].Of != "of the processor time" || got[0].File != "cart/main.cart.go" || got[0].Line == 0 {
		t.Errorf("%+v", got[0])
	}
	if leaf := p.Top(lab.CPU, lab.Leaf, 1); len(leaf) != 1 || leaf[0].Function != "crypto/rsa.Sign" {
		t.Errorf("%+v", leaf)
	}
}

func TestAPlaceIsAFunctionAtItsHeaviestLine(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "main.work", Filename: "work.go"}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}, Function: []*profile.Function{f}}
	for i, value := range []int64{10, 50, 40} {
		l := &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: f, Line: int64(100 + i)}}}
		p.Location = append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{value}})
	}
	got := parsed(t, packed(t, p)).Top(lab.CPU, lab.Leaf, 5)
	if len(got) != 1 || got[0].Line != 101 || got[0].Share != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAFunctionThatCallsItselfCountsOnce(t *testing.T) {
	p := second(t, stacks{"main.main;main.walk;main.walk;main.walk": 600, "main.main": 400})
	got := p.Cumulative(lab.CPU)
	if len(got) != 2 || got[0].Function != "main.main" || got[0].Share != 1 ||
		got[1].Function != "main.walk" || math.Abs(got[1].Share-.6) > 1e-9 {
		t.Errorf("%+v", got)
	}
}

func TestInlinedCallsAreFramesOfTheirOwn(t *testing.T) {
	inner, outer := &profile.Function{ID: 1, Name: "main.inner"}, &profile.Function{ID: 2, Name: "main.outer"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: inner, Line: 3}, {Function: outer, Line: 7}}}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}}, Function: []*profile.Function{inner, outer},
		Location: []*profile.Location{l}, Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{1}}}}
	if got := drawn(parsed(t, packed(t, p)).Tree(lab.CPU)); got != "all 1000 (main.outer 1000 (main.inner 1000))" {
		t.Error(got)
	}
}

func TestCodeWithoutSymbolsIsCalledWhatItIsIn(t *testing.T) {
	m := &profile.Mapping{ID: 1, File: "/usr/lib/x86_64-linux-gnu/libc.so.6"}
	l := &profile.Location{ID: 1, Mapping: m, Address: 0x1234}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "seconds"}}, Mapping: []*profile.Mapping{m},
		Location: []*profile.Location{l}, Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{1}}}}
	if got := drawn(parsed(t, packed(t, p)).Tree(lab.CPU)); got != "all 1000 ([libc.so.6] 1000)" {
		t.Error(got)
	}
}

func TestTypeArgumentsAreNotPartOfAName(t *testing.T) {
	p := second(t, stacks{"main.Map[go.shape.int];slices.SortFunc[...]": 300, "main.Map[go.shape.string];main.(*Tree[...]).Get": 200})
	want := "all 500 (main.Map 500 (slices.SortFunc 300, main.(*Tree).Get 200))"
	if got := drawn(p.Tree(lab.CPU)); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
}

func TestWhoseCodeAFunctionIsIsSaidByItsName(t *testing.T) {
	for name, want := range map[string]lab.Origin{
		"main.main": lab.Own, "main.(*Shop).cart.func1": lab.Own, "github.com/gin-gonic/gin.(*Context).Next": lab.Own,
		"plimsoll/examples/patients/ward.Main": lab.Own, "example.com/shop.New": lab.Own,
		"net/http.(*conn).serve": lab.Standard, "sync.(*Mutex).Lock": lab.Standard,
		"encoding/json.Marshal": lab.Standard, "internal/poll.(*FD).Read": lab.Standard,
		"vendor/golang.org/x/net/http/httpguts.ValidHeaderFieldName": lab.Standard,
		"golang.org/x/sys/unix.Recvfrom":                             lab.Standard, "syscall.Syscall": lab.Standard,
		"runtime.mallocgc": lab.Runtime, "internal/runtime/syscall.Syscall6": lab.Runtime,
		"memeqbody": lab.Runtime, "[libc.so.6]": lab.Runtime,
		"type:.eq.main.key": lab.Runtime, "go:buildid": lab.Runtime, lab.Cut: lab.Runtime,
		lab.Folded: lab.Runtime, "": lab.Runtime, "runtime/pprof.StartCPUProfile": lab.Runtime,
	} {
		if got := lab.OriginOf(name); got != want {
			t.Errorf("%q is %v, not %v", name, got, want)
		}
	}
}
