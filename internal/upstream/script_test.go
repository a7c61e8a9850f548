package upstream

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what the scripts say now into testdata")

// TestScripts runs the files of testdata. A line is a command; the lines under it that begin with
// "->" are the upstream as it then is: each target's state, and which targets may be picked.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t, w: newWorld(t, 1)}
			var out strings.Builder
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "->") {
					continue
				}
				out.WriteString(line)
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					s.run(strings.Fields(line))
					out.WriteString(s.state())
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if out.String() != string(text) {
				t.Errorf("%s now says (run with -update to take it over):\n%s", file, out.String())
			}
		})
	}
}

type script struct {
	t     *testing.T
	w     *world
	u     *Upstream
	l     *Local
	began int64
	last  string
}

func (s *script) run(words []string) {
	arg := func(i int) string {
		if i >= len(words) {
			return ""
		}
		return words[i]
	}
	number := func(i int) int {
		n, err := strconv.Atoi(arg(i))
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	target := func() (*Target, *Member) {
		i := int(words[1][0] - 'a')
		return s.u.set.Load().targets[i], s.l.members[i]
	}
	switch words[0] {
	case "targets":
		s.begin(number(1), words[2:])
	case "at":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.now = s.began + int64(d)
		s.u.step(s.w.now)
	case "light", "deep":
		tg, _ := target()
		var err error
		if words[2] != "ok" {
			err = errors.New(strings.Join(words[2:], " "))
		}
		c := check{deep: words[0] == "deep", asks: "/" + words[0], interval: 5 * time.Minute}
		if next := s.u.checked(tg, c, s.w.now, err); c.deep && next < c.interval {
			s.last = fmt.Sprintf("-> asked again in %v\n", next)
		}
	case "traffic":
		_, m := target()
		for range number(3) {
			m.Begin(s.w.now)
			m.End(s.w.now, map[string]Outcome{"ok": Success, "fail": Status5xx, "cancelled": Cancelled}[words[2]], 1000)
		}
		s.l.Sweep(s.w.now)
		select {
		case <-s.u.kick:
			s.u.step(s.w.now)
		default:
		}
	case "drain":
		tg, _ := target()
		_ = s.u.Drain(tg.addr.String())
	case "restore":
		tg, _ := target()
		_ = s.u.Restore(tg.addr.String())
	default:
		s.t.Fatalf("the command %q is not known", words[0])
	}
}

func (s *script) begin(n int, settings []string) {
	o := DefaultOptions(addresses(n)...)
	o.Policy = RoundRobin
	o.Active = &ActiveOptions{Path: "/light", DeepPath: "/deep"}
	for _, setting := range settings {
		name, text, _ := strings.Cut(setting, "=")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		switch name {
		case "panic":
			o.Panic = value
		case "max_ejected":
			o.Passive.MaxEjected = value
		case "consecutive":
			o.Passive.ConsecutiveFailures = int(value)
		default:
			s.t.Fatalf("the setting %q is not known", name)
		}
	}
	s.began = s.w.now
	s.u = s.w.upstream(o)
	s.u.nextRates = s.w.now + int64(ratesEvery)
	s.l = s.u.Local(0)
}

func (s *script) state() string {
	var b strings.Builder
	b.WriteString(s.last)
	s.last = ""
	for i, t := range s.u.Status().Targets {
		if t.State == "up" && t.Why == "" {
			continue
		}
		fmt.Fprintf(&b, "-> %c %s: %s\n", 'a'+i, t.State, t.Why)
	}
	picked := make(map[int]bool)
	_, why := s.l.Pick(s.w.now, 0, nil)
	for range 20 {
		if m, _ := s.l.Pick(s.w.now, 0, nil); m != nil {
			picked[index(s.l, m)] = true
		}
	}
	names := ""
	for i := range s.l.members {
		if picked[i] {
			names += string(rune('a' + i))
		}
	}
	switch {
	case names == "":
		names = why.String()
	case s.l.Panicking():
		names += ", in panic"
	}
	fmt.Fprintf(&b, "-> used: %s\n", names)
	return b.String()
}
