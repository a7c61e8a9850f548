package doctor

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
)

// Bounds on what is read.
const (
	mostText      = 1 << 20
	mostListeners = 16
)

// subject is what is examined, with the facts that several checks need.
type subject struct {
	root, proc string
	pid        int
	name       string
	elsewhere  bool
	apart      bool // it has its own network namespace, as in a container
	// values are one sample of the probes; missing is what they could not read.
	values  map[string]float64
	missing []string
	// settings are the kernel settings of the network namespace, by name; settingsErr says why
	// there are none.
	settings    map[string]string
	settingsErr error
	listeners   []listener
	listenErr   error
	built       *buildinfo.BuildInfo
	speeds      speeds
	speedErr    error
}

// listener is a listening socket of the process.
type listener struct {
	at           netip.AddrPort
	queue, limit float64
	unknown      string // why limit is 0
}

// text reads a small file below the root.
func (s *subject) text(name string) (string, error) {
	f, err := os.Open(filepath.Join(s.root, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostText))
	return string(b), err
}

// reason says why something cannot be read, and what to do about it.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "it may not be read: run as the process's user, or as root"
	case errors.Is(err, fs.ErrNotExist):
		return "this kernel does not have it, or not in this container"
	}
	return err.Error()
}

// settingNames are the kernel settings of a network namespace that are judged.
var settingNames = []string{
	"net.core.somaxconn", "net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_max_syn_backlog",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_tw_reuse",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
	"net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_max",
}

// readNetwork reads the settings and the listeners in the namespace of the process, which may
// differ from this program's.
func (s *subject) readNetwork() {
	read := func() error {
		s.settings = make(map[string]string)
		for _, name := range settingNames {
			if text, err := s.text(filepath.Join("proc/sys",
				strings.ReplaceAll(name, ".", "/"))); err == nil {
				s.settings[name] = strings.TrimSpace(text)
			}
		}
		return nil
	}
	if s.pid == 0 {
		s.settingsErr = read()
		return
	}
	s.apart = probe.Apart(s.proc, s.pid)
	s.settingsErr = probe.Inside(s.proc, s.pid, read)
	addresses, err := probe.Listening(s.proc, s.pid)
	s.listenErr = err
	for _, at := range addresses[:min(len(addresses), mostListeners)] {
		sampler := probe.New(probe.Options{
			Root:   s.proc,
			PID:    s.pid,
			Alone:  true,
			Listen: []netip.AddrPort{at},
		})
		values := sampler.Sample(0).Values
		l := listener{
			at:    at,
			queue: values[measure.ListenerQueue],
			limit: values[measure.ListenerQueueLimit],
		}
		if l.limit == 0 {
			l.unknown = "the kernel does not tell: " +
				strings.Join(append(sampler.NotMeasured(), "INET_DIAG does not know the socket"),
					"; ")
		}
		s.listeners = append(s.listeners, l)
	}
}

// sample takes the probes' readings, as in a survey.
func (s *subject) sample() {
	sampler := probe.New(probe.Options{Root: s.proc, PID: s.pid, Alone: true})
	s.values = sampler.Sample(0).Values
	s.missing = sampler.NotMeasured()
}

// value is one value of the sample.
func (s *subject) value(name string) (float64, error) {
	if v, there := s.values[name]; there {
		return v, nil
	}
	return 0, fmt.Errorf("it cannot be read (%s)", strings.Join(s.missing, "; "))
}

// numbers reads a setting that consists of count numbers.
func numbers(name string, count int) func(s *subject) ([]int, error) {
	return func(s *subject) ([]int, error) {
		if s.settingsErr != nil {
			return nil, s.settingsErr
		}
		text, there := s.settings[name]
		if !there {
			return nil, fs.ErrNotExist
		}
		fields := strings.Fields(text)
		if len(fields) != count {
			return nil, fmt.Errorf("%q is not understood", text)
		}
		all := make([]int, count)
		for i, field := range fields {
			var err error
			if all[i], err = strconv.Atoi(field); err != nil {
				return nil, fmt.Errorf("%q is not understood", text)
			}
		}
		return all, nil
	}
}

// setting is a single number, 0 if it cannot be read.
func (s *subject) setting(name string) int {
	v, err := numbers(name, 1)(s)
	if err != nil {
		return 0
	}
	return v[0]
}

// ofPID reads a file of the process.
func (s *subject) ofPID(name string) (string, error) {
	return s.text(filepath.Join("proc", strconv.Itoa(s.pid), name))
}

// status is the value of a line in the process's status; empty if there is none.
func (s *subject) status(key string) string {
	text, err := s.ofPID("status")
	if err != nil {
		return ""
	}
	return field(text, key)
}

// field is the text after a key and a colon at the beginning of a line.
func field(text, key string) string {
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, mostText)
	for in.Scan() {
		if name, value, found := strings.Cut(in.Text(), ":"); found &&
			strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// environment is a variable from the process's start. Changes made since by the process itself are
// not visible.
func (s *subject) environment(name string) (value string, there bool, err error) {
	text, err := s.ofPID("environ")
	if err != nil {
		return "", false, err
	}
	for entry := range strings.SplitSeq(text, "\x00") {
		if key, value, found := strings.Cut(entry, "="); found && key == name {
			return value, true, nil
		}
	}
	return "", false, nil
}

// cores is the number of processors that the process may use, or of the machine.
func (s *subject) cores() int {
	n := max(1, int(s.values[measure.HostCores]))
	if allowed := int(s.values[measure.TargetCoresAllowed]); allowed > 0 {
		n = min(n, allowed)
	}
	return n
}

// mostBinary is the largest program file that is read: one segment of it is searched for build
// information.
const mostBinary = 2 << 30

// readGo reads the build information of a Go program. The error says that it could not be read;
// another kind of program is not an error.
func (s *subject) readGo() error {
	f, err := os.Open(filepath.Join(s.proc, strconv.Itoa(s.pid), "exe"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel thread
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > mostBinary {
		return err
	}
	if built, err := buildinfo.Read(f); err == nil {
		s.built = built
	}
	return nil
}

// memory is the value of a line in meminfo, in bytes.
func (s *subject) memory(key string) (float64, error) {
	text, err := s.text("proc/meminfo")
	if err != nil {
		return 0, err
	}
	return kilobytes(field(text, key))
}

// kilobytes parses "123 kB" as bytes.
func kilobytes(text string) (float64, error) {
	number, _, _ := bytes.Cut([]byte(text), []byte(" "))
	n, err := strconv.ParseUint(string(number), 10, 54)
	return float64(n) * 1024, err
}
