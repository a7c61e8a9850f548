package profile_test

import (
	"testing"

	"github.com/google/pprof/profile"

	lab "plimsoll/internal/lab/profile"
)

// one returns a profile of one sample in one function.
func one(t *testing.T, name, file, binary string) *lab.Profile {
	t.Helper()
	fn := &profile.Function{ID: 1, Name: name, Filename: file}
	at := &profile.Location{ID: 1, Line: []profile.Line{{Function: fn}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{at}, Value: []int64{1}}},
		Location:   []*profile.Location{at},
		Function:   []*profile.Function{fn},
	}
	if binary != "" {
		at.Mapping = &profile.Mapping{ID: 1, File: binary}
		p.Mapping = []*profile.Mapping{at.Mapping}
	}
	return parsed(t, packed(t, p))
}

func TestWhoseCodeAFunctionIsInOtherLanguages(t *testing.T) {
	for _, c := range []struct {
		name, file, binary string
		want               lab.Origin
	}{
		{"score", "app.py", "", lab.Own},
		{"dumps", "json/__init__.py", "", lab.Standard},
		{"get", "/srv/json/shop.py", "", lab.Own},
		{"run", "/usr/lib/python3.12/threading.py", "", lab.Standard},
		{"dispatch", "/usr/lib/python3.12/site-packages/flask/app.py", "", lab.Own},
		{"_PyEval_EvalFrameDefault", "", "/usr/bin/python3.12", lab.Runtime},
		{"score", "/srv/shop.js", "", lab.Own},
		{"emit", "node:events", "", lab.Standard},
		{"(garbage collector)", "", "", lab.Runtime},
		{"(anonymous)", "/srv/shop.js", "", lab.Own},
		{"shop.App.score", "shop/App.java", "", lab.Own},
		{"java.util.HashMap.get", "java/util/HashMap.java", "", lab.Standard},
		{"each", "/usr/lib/ruby/3.1.0/set.rb", "", lab.Standard},
		{"call", "/usr/lib/ruby/gems/3.1.0/gems/rack-3/lib/rack.rb", "", lab.Own},
		{"score", "", "/usr/sbin/shopd", lab.Own},
		{"score", "main.c", "/usr/sbin/shopd", lab.Own},
		{"deflate", "", "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", lab.Standard},
		{"memcpy", "", "/usr/lib/x86_64-linux-gnu/libc.so.6", lab.Runtime},
		{"tcp_sendmsg", "", "[kernel]", lab.Runtime},
		{"score", "", "", lab.Own}, // folded stacks of anything
		{"std::vector<int>::push_back", "", "/usr/sbin/shopd", lab.Standard},
		{"void std::sort<int*>", "", "/usr/sbin/shopd", lab.Standard},
		{"core::slice::sort::merge", "", "/usr/sbin/shopd", lab.Standard},
		{"shop::score", "", "/usr/sbin/shopd", lab.Own},
		{"[unknown]", "", "/usr/sbin/shopd", lab.Runtime},
	} {
		top := one(t, c.name, c.file, c.binary).Top(lab.CPU, lab.FirstUser, 1)
		tree := one(t, c.name, c.file, c.binary).Tree(lab.CPU)
		if got := tree.Children[0].Origin(); got != c.want {
			t.Errorf("%s in %q of %q: origin %d, want %d", c.name, c.file, c.binary, got, c.want)
		}
		if (len(top) > 0) != (c.want == lab.Own) {
			t.Errorf("%s in %q of %q: as the service's code there is %v", c.name, c.file, c.binary, top)
		}
	}
}

// A profile of a Go program is classified by names even if it contains functions of the kernel.
func TestInAProfileOfGoNamesAloneDecide(t *testing.T) {
	if top := one(t, "main.handle", "/srv/shop.go", "/srv/shop").Top(lab.CPU, lab.FirstUser,
		1); len(top) != 1 {
		t.Error("main.handle is not the service's code")
	}
	if top := one(t, "memeqbody", "/usr/lib/go/src/asm.go", "").Top(lab.CPU, lab.FirstUser,
		1); len(top) != 0 {
		t.Error("memeqbody is the service's code")
	}
}
