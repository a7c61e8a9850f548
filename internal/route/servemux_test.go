package route

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/head"
)

// The oracle is net/http itself: for patterns of its kind and clean paths, the same pattern must
// win with the same values, the same methods must be allowed, and the same sets of patterns must
// conflict.

func randomPattern(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString([]string{"", "", "", "GET ", "HEAD ", "POST ", "PUT "}[r.IntN(7)])
	b.WriteString([]string{"", "", "", "", "h.test", "i.test"}[r.IntN(6)])
	n := r.IntN(4)
	for i := range n {
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "/{n%d}", i)
		} else {
			b.WriteString("/" + []string{"a", "b", "ab", "abc", "a:b"}[r.IntN(5)])
		}
	}
	switch k := r.IntN(8); {
	case k == 0 || n == 0 && k < 4:
		b.WriteString("/")
	case k == 1:
		b.WriteString("/{$}")
	case k == 2 || n == 0:
		b.WriteString("/{rest...}")
	}
	return b.String()
}

func randomRequest(r *rand.Rand) (method, host, path string) {
	method = []string{"GET", "HEAD", "POST", "PUT", "DELETE"}[r.IntN(5)]
	host = []string{"h.test", "i.test", "j.test"}[r.IntN(3)]
	for range r.IntN(5) {
		path += "/" + []string{"a", "b", "ab", "abc", "a:b", "abcd", "x"}[r.IntN(7)]
	}
	if path == "" || r.IntN(4) == 0 {
		path += "/"
	}
	return
}

// register adds a pattern to a mux whose handler reports what it was called with, and says whether
// the mux took it.
func register(mux *http.ServeMux, pattern string, names []string) (ok bool) {
	defer func() { ok = recover() == nil }()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		out := pattern
		for _, n := range names {
			out += fmt.Sprintf(" %s=%s", n, r.PathValue(n))
		}
		w.Header().Set("Outcome", out)
	})
	return
}

// muxOutcome is what outcome gives, as net/http sees it, and false where it redirects, which this
// package never does.
func muxOutcome(mux *http.ServeMux, method, host, path string) (string, bool) {
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, &http.Request{Method: method, Host: host, URL: &url.URL{Path: path}, ProtoMajor: 1, ProtoMinor: 1})
	switch w.Code {
	case http.StatusNotFound:
		return "404", true
	case http.StatusMethodNotAllowed:
		return "405 " + strings.ReplaceAll(w.Header().Get("Allow"), ", ", ","), true
	case http.StatusOK:
		return w.Header().Get("Outcome"), true
	}
	return "", false
}

// compareWithServeMux makes a random set of patterns from seed and compares conflicts and matches.
// It returns how many matches it compared and whether the whole set conflicted.
func compareWithServeMux(t *testing.T, seed uint64) (matches int, conflicted bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	mux := http.NewServeMux()
	var kept []Rule
	for range 1 + r.IntN(14) {
		pattern := randomPattern(r)
		p, err := parse(pattern)
		if err != nil {
			t.Fatalf("seed %d: %q: %v", seed, pattern, err)
		}
		taken := register(mux, pattern, p.names)
		with := append(kept[:len(kept):len(kept)], Rule{Pattern: pattern})
		_, errs := Compile(with)
		if taken != (len(errs) == 0) {
			t.Fatalf("seed %d: %q with %v: ServeMux takes it: %v; here: %v", seed, pattern, kept, taken, errs)
		}
		for _, e := range errs {
			checkExample(t, seed, with, e)
		}
		if taken {
			kept = with
		}
		conflicted = conflicted || !taken
	}
	table := mustCompile(t, kept)
	for range 30 {
		method, host, path := randomRequest(r)
		want, ok := muxOutcome(mux, method, host, path)
		if !ok {
			continue
		}
		matches++
		req := request(method + " " + host + path)
		got := outcome(table, kept, req)
		if strings.HasPrefix(want, "405") && !strings.HasSuffix(path, "/") {
			got = allowedWithSlash(table, req)
		}
		if got != want {
			t.Fatalf("seed %d: %s %s%s with %v: got %q, ServeMux says %q", seed, method, host, path, kept, got, want)
		}
	}
	return matches, conflicted
}

// allowedWithSlash is what ServeMux allows for a path without a slash at its end: the methods of
// the path with one too, where it would redirect.
func allowedWithSlash(table *Table, req *head.Request) string {
	methods := append(table.Allowed(req, req.Host, req.Path), table.Allowed(req, req.Host,
		append(req.Path[:len(req.Path):len(req.Path)], '/'))...)
	slices.Sort(methods)
	return "405 " + strings.Join(slices.Compact(methods), ",")
}

// checkExample asks net/http whether each of two conflicting patterns alone matches the path that
// the error gives.
func checkExample(t *testing.T, seed uint64, rules []Rule, e *CompileError) {
	for _, i := range []int{e.Index, e.Other} {
		pattern := rules[i].Pattern
		p, _ := parse(pattern)
		mux := http.NewServeMux()
		register(mux, pattern, p.names)
		method, host := p.method, p.host
		if method == "" {
			method = "GET"
		}
		if _, found := muxOutcome(mux, method, host, e.Example); !found {
			t.Fatalf("seed %d: %q redirects %s", seed, pattern, e.Example)
		}
		if got, _ := muxOutcome(mux, method, host, e.Example); !strings.HasPrefix(got, pattern) {
			t.Fatalf("seed %d: %q does not match its example %s: %s", seed, pattern, e.Example, got)
		}
	}
}

func TestPatternsAgreeWithServeMux(t *testing.T) {
	matches, conflicts, rounds := 0, 0, 600
	for seed := range uint64(rounds) {
		n, conflicted := compareWithServeMux(t, seed)
		matches += n
		if conflicted {
			conflicts++
		}
	}
	if matches < rounds*10 || conflicts < rounds/4 || conflicts > rounds*99/100 {
		t.Errorf("the comparison has become empty: %d matches, %d of %d sets with conflicts", matches, conflicts, rounds)
	}
}

func FuzzServeMux(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { compareWithServeMux(t, seed) })
}
