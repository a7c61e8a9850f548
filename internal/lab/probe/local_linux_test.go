package probe

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestConnectionsOverUnixSocketsAndToNameServersAreOutgoingOnes(t *testing.T) {
	if err := diagLocal(func(localSocket) {}); err != nil {
		t.Logf("not tested: %v", err)
		return
	}
	_, address := listenOn(t, "127.0.77.2:0")
	path := filepath.Join(t.TempDir(), "db")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
	}
	asked, err := net.Dial("udp", "127.0.77.2:53")
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	told, err := net.Dial("udp", "127.0.77.2:8125")
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	s := New(Options{PID: os.Getpid(), Listen: []netip.AddrPort{address}})
	becomes(t, s, map[string]float64{
		measure.OutgoingTo + measure.UnixAddress + path: 3,
		measure.OutgoingTo + "127.0.77.2:53":            1,
		measure.TargetOutgoingEstablished:               4,
	})
	name := measure.OutgoingFresh + measure.UnixAddress + path
	before := fresh(s)[name]
	again, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if after := fresh(s)[name]; after != before+1 || fresh(s)[name] != after {
		t.Errorf("%v connections were new, and one more made %v of them", before, after)
	}
	for to, inode := range censusOf(s).paths {
		if pid, _, err := findHolder("/proc", inode); to != measure.UnixAddress+path ||
			pid != os.Getpid() {
			t.Errorf("%s is listened on by process %d (%v), want this one", to, pid, err)
		}
	}
}

func TestTheNameOfAUnixSocketIsMadeReadable(t *testing.T) {
	for name, want := range map[string]string{
		"/run/db/.s.PGSQL.5432\x00": "/run/db/.s.PGSQL.5432",
		"\x00abstract":              "@abstract",
		"/a b\x1b[2J":               "/a_b_[2J",
		"":                          "",
	} {
		if got := readable([]byte(name)); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestAPartOfAnAnswerThatIsTooLongEndsIt(t *testing.T) {
	for range attributes([]byte{200, 0, 0, 0, 1, 2, 3, 4}) {
		t.Error("it was read beyond its end")
	}
	if _, ok := parseLocal([]byte{1, 1, 1}); ok {
		t.Error("a message that is too short was read")
	}
}
