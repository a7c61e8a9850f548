package gateway

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// What limits the memory is the least of the control groups that the process is in.
func TestTheMemorysLimitIsTheLeastOfItsControlGroups(t *testing.T) {
	for name, c := range map[string]struct {
		groups string            // of the process
		limits map[string]string // memory.max of each
		want   uint64
	}{
		"no groups":       {"", nil, math.MaxInt64},
		"no limit":        {"0::/a/b\n", map[string]string{"a": "max\n", "a/b": "max\n"}, math.MaxInt64},
		"its own":         {"0::/a/b\n", map[string]string{"a": "max\n", "a/b": "1000\n"}, 1000},
		"one around it":   {"0::/a/b\n", map[string]string{"a": "500\n", "a/b": "1000\n"}, 500},
		"the outermost":   {"0::/a/b\n", map[string]string{"": "300\n", "a": "500\n"}, 300},
		"in a namespace":  {"0::/\n", map[string]string{"": "700\n"}, 700},
		"of version 1":    {"4:memory:/a\n0::/\n", map[string]string{"a": "5\n", "": "700\n"}, 700},
		"outside its own": {"0::/../../a\n", map[string]string{"a": "900\n"}, 900},
		"not a number":    {"0::/a\n", map[string]string{"a": "much\n"}, math.MaxInt64},
		"more than there is": {"0::/a\n", map[string]string{"a": "18446744073709551615\n"},
			math.MaxInt64},
	} {
		root := t.TempDir()
		write := func(file, text string) {
			t.Helper()
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.groups != "" {
			write("proc/self/cgroup", c.groups)
		}
		for group, limit := range c.limits {
			write(filepath.Join("sys/fs/cgroup", group, "memory.max"), limit)
		}
		if got := groupLimit(root); got != c.want {
			t.Errorf("%s: the limit is %d, want %d", name, got, c.want)
		}
	}
}

func TestGOMEMLIMITLimitsTheMemory(t *testing.T) {
	const limit = 1 << 39 // more than the tests use
	was := debug.SetMemoryLimit(limit)
	defer debug.SetMemoryLimit(was)
	used, most := new(Gateway).memory()
	if want := min(uint64(limit), groupLimit("/")); most != want {
		t.Errorf("the limit is %d, want %d", most, want)
	}
	if used == 0 || used > most {
		t.Errorf("%d bytes of %d are used", used, most)
	}
}
