//go:build !race

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A load from two generators over real ssh: the program is sent once, and each request comes once.
func TestALoadFromGeneratorsOverSSH(t *testing.T) {
	host, cache := sshServer(t)
	other := strings.Replace(host, "127.0.0.1", "localhost", 1)
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
	}))
	t.Cleanup(server.Close)
	scenario := filepath.Join(t.TempDir(), "count.yaml")
	if err := os.WriteFile(scenario, []byte("data: {n: {sequence: {to: 100000}}}\n"+
		"mix: [{name: a, request: {path: \"/${n}\"}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		clear(seen)
		code, text, errs := command(nil, "load", server.URL, "--scenario", scenario, "--rate", "200",
			"-d", "1s", "-c", "4",
			"-t", "1", "--timeout", "1m", "--generator", host, "--generator", other, "--json")
		var result shared
		// That a slow machine is late is not a failure: what was sent is what was asked for.
		if err := json.Unmarshal([]byte(text), &result); err != nil || code != 0 && code != 3 {
			t.Fatalf("exit %d: %s\n%s", code, errs, text)
		}
		got := result.Totals
		if got.Due != 200 || got.Sent != 200 || got.Generator.Loops != 2 ||
			len(got.Generator.Remote) != 2 || len(seen) != 200 {
			t.Errorf("%+v, and %d requests came", got, len(seen))
		}
		for _, g := range got.Generator.Remote {
			if g.Due != 100 || g.Uncertainty <= 0 {
				t.Errorf("%+v", g)
			}
		}
		copies, err := filepath.Glob(filepath.Join(cache, "plimsoll", "*"))
		info, _ := os.Stat(filepath.Join(cache, "plimsoll"))
		if err != nil || len(copies) != 1 || info == nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v %v: %v", copies, err, info)
		}
	}
}

func TestAGeneratorThatCannotBeReached(t *testing.T) {
	host, cache := sshServer(t)
	for what, c := range map[string]struct {
		generator string
		code      int
		want      string
	}{
		"nobody listens": {"u@" + refusing(t), 2, "Connection refused"},
		"nobody we know": {strings.Replace(host, "@", "-nobody@", 1), 2, "Permission denied"},
		"an option":      {"-oProxyCommand=false", 1, "is not where a generator can be reached"},
	} {
		code, text, errs := command(nil, "load", "http://127.0.0.1:1/", "-d", "1s",
			"--generator="+c.generator)
		if code != c.code || !strings.Contains(errs, c.want) || text != "" {
			t.Errorf("%s: exit %d, %q %q", what, code, errs, text)
		}
	}
	// A file stands where the folder of copies would be.
	if err := os.WriteFile(cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := command(nil, "load", "http://127.0.0.1:1/", "-d", "1s", "--generator", host)
	if code != 2 || !strings.Contains(errs, "cannot be made, or is not yours") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
