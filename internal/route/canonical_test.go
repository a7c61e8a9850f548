package route

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

func TestCanonicalFormsOfPaths(t *testing.T) {
	for target, want := range map[string]string{
		"/":                  "/",
		"*":                  "*",
		"/a/b":               "/a/b",
		"/a/b/":              "/a/b/",
		"//":                 "/",
		"/a//b///c":          "/a/b/c",
		"/a/./b":             "/a/b",
		"/a/../b":            "/b",
		"/a/b/..":            "/a/",
		"/a/b/.":             "/a/b/",
		"/a/..":              "/",
		"/a//../b":           "/b",
		"/a/%2e%2E/b":        "/b",
		"/a/.%2e":            "/",
		"/%2e/a":             "/a",
		"/...":               "/...",
		"/.hidden":           "/.hidden",
		"/..a/b..":           "/..a/b..",
		"/%41%7e%2d%5F":      "/A~-_",
		"/caf%c3%a9":         "/caf%C3%A9",
		"/a%2fb":             "/a%2Fb",
		"/a%2Fb":             "/a%2Fb",
		"/a%252fb":           "/a%252fb",
		"/a%3ab:c":           "/a%3Ab:c",
		"/a;v=1/b":           "/a;v=1/b",
		"/a%20b":             "/a%20b",
		`/a"<>[]^{|}`:        "/a%22%3C%3E%5B%5D%5E%7B%7C%7D",
		"/!$&'()*+,=@":       "/!$&'()*+,=@",
		"/@scope%2Fname/1.0": "/@scope%2Fname/1.0",
		"/%2F":               "/%2F",
		"/..%20":             "/..%20",
	} {
		got, query, err := Canonical(nil, []byte(target))
		if string(got) != want || query != nil || err != OK {
			t.Errorf("Canonical(%q) = %q, %q, %v; want %q", target, got, query, err, want)
		}
	}
}

func TestTheQueryIsLeftAlone(t *testing.T) {
	for _, c := range []struct{ target, path, query string }{
		{"/a?", "/a", ""},
		{"/a?x=1", "/a", "x=1"},
		{"/a/?x=/../%zz&y=?", "/a/", "x=/../%zz&y=?"},
		{"/a/../b?c=%2e", "/b", "c=%2e"},
	} {
		got, query, err := Canonical(nil, []byte(c.target))
		if string(got) != c.path || string(query) != c.query || query == nil || err != OK {
			t.Errorf("Canonical(%q) = %q, %q, %v", c.target, got, query, err)
		}
	}
}

// HAZARDS, "path or host read twice": what a server behind could read differently is refused, not
// guessed at.
func TestTargetsThatCanBeReadTwiceAreRefused(t *testing.T) {
	for target, want := range map[string]Error{
		"":                    NotOrigin,
		"a/b":                 NotOrigin,
		"**":                  NotOrigin,
		"?a":                  NotOrigin,
		"/a b":                BadByte,
		"/a#b":                BadByte,
		"/a\x00":              BadByte,
		"/a\x7f":              BadByte,
		"/caf\xc3\xa9":        BadByte,
		"/%":                  BadEscape,
		"/%4":                 BadEscape,
		"/%4/":                BadEscape,
		"/%zz":                BadEscape,
		"/a%u002f":            BadEscape,
		"/%00":                EncodedControl,
		"/a%0d%0aX:y":         EncodedControl,
		"/%7F":                EncodedControl,
		`/a\b`:                Backslash,
		`/..\admin`:           Backslash,
		"/a%5cb":              Backslash,
		"/a%5Cb":              Backslash,
		"/..":                 AboveRoot,
		"/../a":               AboveRoot,
		"/a/../..":            AboveRoot,
		"/%2e%2e/a":           AboveRoot,
		"/./..":               AboveRoot,
		"//..":                AboveRoot,
		"/a/..;/admin":        HiddenDots,
		"/a/.;x/admin":        HiddenDots,
		"/a/..%3bx/admin":     HiddenDots,
		"/a/%2e%2e;/admin":    HiddenDots,
		"/a/..%2fadmin":       HiddenDots,
		"/a/%2e%2e%2fadmin":   HiddenDots,
		"/a/x%2f..%2fadmin":   HiddenDots,
		"/a/x%2F%2e%2E":       HiddenDots,
		"/a/x%2F..;v=1/b":     HiddenDots,
		"/public/.%2F..%2Fxx": HiddenDots,
	} {
		got, query, err := Canonical(nil, []byte(target))
		if got != nil || query != nil || err != want {
			t.Errorf("Canonical(%q) = %q, %q, %v; want %v", target, got, query, err, want)
		}
		if err.Status() != 400 || err.Error() == "" {
			t.Errorf("%v is answered with %d", err, err.Status())
		}
	}
}

func TestACanonicalTargetIsNeitherCopiedNorAllocated(t *testing.T) {
	target := []byte("/api/v1/users/caf%C3%A9/@scope%2Fname/.well-known/..x?q=1")
	got, query, err := Canonical(nil, target)
	if err != OK || &got[0] != &target[0] || &query[len(query)-1] != &target[len(target)-1] {
		t.Fatalf("Canonical(%q) = %q, %q, %v", target, got, query, err)
	}
	if cap(got) != len(got) {
		t.Error("an append to the path would write over the query")
	}
	if n := testing.AllocsPerRun(100, func() { Canonical(nil, target) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOtherTargetsAreAppendedToTheScratch(t *testing.T) {
	scratch := make([]byte, 0, 256)
	target := []byte("/a//b/%7euser/../c^d?q")
	if n := testing.AllocsPerRun(100, func() { Canonical(scratch, target) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	got, _, _ := Canonical(append(scratch, "kept"...), target)
	if string(got) != "/a/b/c%5Ed" || string(scratch[:14]) != "kept/a/b/c%5Ed" {
		t.Errorf("got %q, scratch %q", got, scratch[:14])
	}
}

func TestEveryErrorHasALabel(t *testing.T) {
	seen := map[string]bool{}
	for e := range Error(Errors) {
		if e.Error() == "" || seen[e.Error()] {
			t.Errorf("error %d is %q", e, e.Error())
		}
		seen[e.Error()] = true
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"/", "*", "/a/../b?c", "/a%2e%2e/..%2f", "//a;b/./%41%2F%25", "/^%5e\"", "/a/b/..", "/%2f.", "/.;", "/x%3b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, target []byte) {
		got, query, err := Canonical(nil, target)
		if err != OK || string(got) == "*" {
			return
		}
		if slow, err := rebuild(nil, got); err != OK || string(slow) != string(got) {
			t.Fatalf("%q becomes %q one way and %q, %v the other", target, got, slow, err)
		}
		again, _, err := Canonical(nil, got)
		if err != OK || string(again) != string(got) {
			t.Fatalf("%q becomes %q, and that %q, %v", target, got, again, err)
		}
		s := string(got)
		if s[0] != '/' || strings.Contains(s, "//") || strings.ContainsAny(s, "\\?# \"<>[]^`{|}") {
			t.Fatalf("%q becomes %q", target, got)
		}
		if s+"/" != path.Clean(s)+"/" && s != path.Clean(s)+"/" {
			t.Fatalf("%q becomes %q, which path.Clean makes %q", target, got, path.Clean(s))
		}
		plainPath, _, hasQuery := strings.Cut(string(target), "?")
		if hasQuery != (query != nil) {
			t.Fatalf("%q has the query %q", target, query)
		}
		decoded, bad := url.PathUnescape(plainPath)
		if bad != nil {
			t.Fatalf("%q was let in, and net/url says %v", target, bad)
		}
		if strings.Contains(strings.ToUpper(plainPath), "%2F") || strings.Contains(plainPath, "%25") {
			return
		}
		if mine, _ := url.PathUnescape(s); path.Clean(mine) != path.Clean(decoded) {
			t.Fatalf("%q becomes %q, decoded %q; path.Clean says %q", target, got, mine, path.Clean(decoded))
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	for name, target := range map[string]string{
		"canonical": "/api/v1/users/4711/orders?limit=20",
		"rebuilt":   "/api/v1/users/%7Ejoe/../orders?limit=20",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			scratch, t := make([]byte, 0, 256), []byte(target)
			for b.Loop() {
				Canonical(scratch, t)
			}
		})
	}
}
