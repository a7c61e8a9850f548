package probe

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// asking is a target, process 20, that listens on 8080 and is connected to port 8081. It is also
// connected to port 8082, on which its child 21 listens.
func asking(t *testing.T) *fakeProc {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "shop", start: 5, inodes: []int{1, 2, 3}})
	f.process(process{pid: 21, parent: 20, name: "helper", start: 6, inodes: []int{4}})
	f.process(process{pid: 30, parent: 1, name: "postgres", user: 100, start: 4, inodes: []int{5}})
	f.process(process{pid: 31, parent: 30, name: "postgres", user: 50, start: 9})
	f.sockets(tcpLine("1F90", "0000", "0A", 1), tcpLine("1F91", "0000", "0A", 5),
		tcpLine("1F92", "0000", "0A", 4), tcpLine("9001", "1F91", "01", 2),
		tcpLine("9002", "1F92", "01", 3))
	return f
}

// followed returns the services behind the target of asking, with their processor time.
func followed(t *testing.T, f *fakeProc) (s *Sampler, behinds map[string]float64) {
	t.Helper()
	s = New(Options{
		Root: f.root, PID: 20, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8080")},
	})
	for _, source := range s.sources {
		if b, is := source.(*behind); is {
			fresh(s)
			for range 3 { // one address is looked for at a time
				b.next = b.next.AddDate(-1, 0, 0)
				fresh(s)
			}
		}
	}
	behinds = map[string]float64{}
	for name, used := range fresh(s) {
		if to, is := strings.CutPrefix(name, measure.Behind); is {
			behinds[to] = used
		}
	}
	return s, behinds
}

func TestWhatTheTargetAsksOnThisMachineIsFollowed(t *testing.T) {
	f := asking(t)
	s, behinds := followed(t, f)
	if len(behinds) != 1 || behinds["127.0.0.1:8081/postgres"] != 1.5 {
		t.Errorf("behind the target are %v, want postgres with 1.5 s, and none of its own", behinds)
	}
	f.process(process{pid: 31, parent: 30, name: "postgres", user: 250, start: 9})
	if used := fresh(s)[measure.Behind+"127.0.0.1:8081/postgres"]; used != 3.5 {
		t.Errorf("it has used %v s, want 3.5", used)
	}
}

// A launcher starts a service and its proxy, and the proxy is surveyed.
func TestAServiceThatHasStartedTheTargetIsFollowedWithoutIt(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 10, parent: 1, name: "app", user: 100, start: 4, inodes: []int{5}})
	f.process(process{pid: 20, parent: 10, name: "nginx", user: 700, start: 5, inodes: []int{1, 2}})
	f.process(process{pid: 21, parent: 20, name: "nginx", user: 900, start: 6})
	f.process(process{pid: 11, parent: 10, name: "helper", user: 30, start: 7})
	f.sockets(tcpLine("1F90", "0000", "0A", 1), tcpLine("1F91", "0000", "0A", 5),
		tcpLine("9001", "1F91", "01", 2))
	if _, behinds := followed(t, f); behinds["127.0.0.1:8081/app"] != 1.3 {
		t.Errorf("behind the target are %v, want app with 1.3 s", behinds)
	}
}

func TestAnotherProgramThatTheTargetHasStartedAndAsksIsFollowedToo(t *testing.T) {
	f := asking(t)
	for pid, program := range map[string]string{"20": "/usr/bin/node", "21": "/usr/bin/python3.11"} {
		if err := os.Symlink(program, filepath.Join(f.root, pid, "exe")); err != nil {
			t.Fatal(err)
		}
	}
	if _, behinds := followed(t, f); len(behinds) != 2 {
		t.Errorf("behind the target are %v, want postgres and the helper", behinds)
	}
}

// The address of a container's network is not this machine's own, but its processes are.
func TestADatabaseInAContainerIsFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		at       string // as /proc/net/tcp has it
		behind   string
		isTarget bool // the target is in a container of its own
	}{
		"from this machine":      {"030011AC:0050", "172.17.0.3:80/postgres", false},
		"from another container": {"030011AC:0050", "172.17.0.3:80/postgres", true},
		"nobody's address":       {"090011AC:0050", "", false},
		"another machine":        {"08080808:0050", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			f.process(process{pid: 20, parent: 1, name: "shop", start: 5, inodes: []int{1, 2}})
			f.process(process{
				pid: 30, parent: 1, name: "postgres", user: 150, start: 4, inodes: []int{100},
			})
			f.inNamespace(30, 1, "172.17.0.3", 100)
			lines := strings.ReplaceAll(strings.Join([]string{
				tcpLine("1F90", "0000", "0A", 1), tcpLine("9001", "FFFF", "01", 2),
			}, "\n"), "0100007F:FFFF", c.at)
			f.sockets(lines)
			if c.isTarget {
				f.inNamespace(20, 2, "172.17.0.2", 1)
				f.write("20/net/tcp", tcpHead+lines+"\n")
				f.write("20/net/dev", "theirs")
			}
			_, behinds := followed(t, f)
			if c.behind == "" && len(behinds) > 0 || c.behind != "" && behinds[c.behind] != 1.5 {
				t.Errorf("behind the target are %v, want %q", behinds, c.behind)
			}
		})
	}
}

func TestWaitingForALockIsToldHoweverMuchElseIsDone(t *testing.T) {
	s := served{doing: map[string]bool{}}
	for i := range maxDoing {
		does := "DOES " + strings.Repeat("X", i)
		if got := s.known(does); got != does {
			t.Fatalf("%q is counted as %q", does, got)
		}
	}
	for does, want := range map[string]string{
		"DOES ":          "DOES ",
		"SELECT":         theRest,
		"UPDATE waiting": theRest + " waiting",
		"DELETE waiting": theRest + " waiting",
	} {
		if got := s.known(does); got != want {
			t.Errorf("%q is counted as %q", does, got)
		}
	}
	if len(s.doing) > maxDoing+2 {
		t.Errorf("%d names", len(s.doing))
	}
}
