// Package doctor examines a machine and one of its processes. For each setting that matters to a
// service under load, it reports the value, the recommended value, the reason, and the command that
// sets it. It reads and never changes anything. Its only loads are one second of encryption on one
// core and, if it is given a URL, a few requests to it. It must not know of surveys, run
// directories or terminals.
//
// A check (see checks) is one entry of a table: its name, what it reads, and how that is judged.
// Advice is given only if facts show that the setting will be a problem: the number of cores, what
// is in use, what the process is. Other users' values are not a reason.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/lab/probe"
)

// SettingVerdict is the verdict on a setting.
type SettingVerdict string

// The verdicts.
const (
	Good       SettingVerdict = "good"
	Advise     SettingVerdict = "advise"
	Unreadable SettingVerdict = "cannot read"
)

// Finding is the result of one check.
type Finding struct {
	Name    string         `json:"name"`
	Value   string         `json:"value"`
	Verdict SettingVerdict `json:"verdict"`
	// Recommended is the recommended value; empty if the present one is good.
	Recommended string `json:"recommended,omitempty"`
	// Why is the reason for the advice, for leaving the setting alone, or why it cannot be read.
	Why string `json:"why"`
	// Command changes the setting, ready to be typed; empty if there is nothing to change. If no
	// command can change it, it is a remark that begins with "# ", like a shell comment.
	Command string `json:"command,omitempty"`
}

// Process is the examined process.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	// Go is the Go version that built it; empty if it is not a Go program, or cannot be read.
	Go string `json:"go,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	Machine probe.Facts `json:"machine"`
	Process *Process    `json:"process,omitempty"`
	URL     string      `json:"url,omitempty"`
	// Findings are in the order of the table of checks.
	Findings []Finding `json:"findings"`
	// Notes say what could not be examined, and what to do about it.
	Notes []string `json:"notes,omitempty"`
}

// Options say what to examine.
type Options struct {
	// PID is the process. If 0, it is the process on this machine that listens on the port of URL,
	// if there is one.
	PID int
	// URL gets a few requests, to see how the service communicates; "" for none.
	URL string
	// Root is the folder that contains proc and sys; default "/".
	Root string
	// Speed is how long the processor's encryption speed is measured in all; 0 for a second,
	// negative to skip it.
	Speed time.Duration
}

// ErrURL is the error for an invalid URL.
var ErrURL = errors.New("no URL of http or https")

// usualSpeed is long enough for a handful of RSA handshakes on a slow processor.
const usualSpeed = time.Second

// Examine examines the machine, the process and the URL. It takes a second or two; ctx ends it
// early, with an error. It also fails if the named process cannot be examined at all, if nothing
// answers at the URL, and with ErrURL. Anything else that cannot be read becomes a finding that
// says so.
func Examine(ctx context.Context, o Options) (*Report, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Speed == 0 {
		o.Speed = usualSpeed
	}
	s := &subject{root: o.Root, proc: filepath.Join(o.Root, "proc"), pid: o.PID}
	r := &Report{Machine: probe.Machine(), URL: o.URL}
	if o.URL != "" {
		if err := r.outside(ctx, s, o.URL); err != nil {
			return nil, err
		}
	}
	if !linux(o.Root) {
		if o.PID != 0 {
			return nil, fmt.Errorf("a process can only be looked at on Linux, and this is %s",
				runtime.GOOS)
		}
		r.Notes = append(r.Notes, "settings of the machine are read on Linux only, and this is "+
			runtime.GOOS)
		return r, nil
	}
	if r.remote(s) {
		return r, nil
	}
	if err := s.examine(r); err != nil {
		return nil, err
	}
	if o.Speed > 0 {
		s.speeds, s.speedErr = measureSpeeds(ctx, o.Speed)
	}
	for _, c := range checks {
		if c.of.fits(s) && (o.Speed > 0 || c.of != ofProcessor) {
			r.Findings = append(r.Findings, c.run(s))
		}
	}
	return r, ctx.Err()
}

// linux reports whether there is a proc to read. Only a test uses a root other than the machine's.
func linux(root string) bool { return runtime.GOOS == "linux" || root != "/" }

// outside examines the URL, and finds the process behind it if that is on this machine.
func (r *Report) outside(ctx context.Context, s *subject, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%.200q: %w: write it as http://host:port/path", raw, ErrURL)
	}
	v, err := look(ctx, u)
	if err != nil {
		return err
	}
	for _, c := range outsideChecks {
		if v.secure() || !c.tls {
			r.Findings = append(r.Findings, c.judge(v).finding(c.name))
		}
	}
	if s.pid != 0 {
		return nil
	}
	if s.elsewhere = !probe.LocalTarget(v.remote.Addr()); s.elsewhere {
		return nil
	}
	pid, _, err := probe.FindPID(int(v.remote.Port()))
	if err != nil {
		r.Notes = append(r.Notes, "its process is not looked at: "+err.Error())
		return nil
	}
	s.pid = pid
	return nil
}

// remote reports whether the URL is on another machine. This machine's settings then say nothing
// about it.
func (r *Report) remote(s *subject) bool {
	if s.elsewhere {
		r.Notes = append(r.Notes, r.URL+" is on another machine, and this is what can be seen "+
			"from here: for its kernel, its limits and its process run plimsoll doctor there")
	}
	return s.elsewhere
}

// examine reads what several checks share.
func (s *subject) examine(r *Report) error {
	if s.pid != 0 {
		if err := s.process(r); err != nil {
			return err
		}
	} else {
		r.Notes = append(r.Notes, "no process is looked at: name one by --pid or --url")
	}
	s.sample()
	s.readNetwork()
	return nil
}

func (s *subject) process(r *Report) error {
	name, err := s.text(filepath.Join("proc", strconv.Itoa(s.pid), "comm"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no process %d on this machine", s.pid)
	}
	if err != nil {
		return fmt.Errorf("process %d cannot be looked at: %w", s.pid, err)
	}
	s.name = strings.TrimSpace(name)
	if err := s.readGo(); err != nil {
		r.Notes = append(r.Notes, "whether it is a Go program is not known: "+reason(err))
	}
	r.Process = &Process{PID: s.pid, Name: s.name}
	if s.built != nil {
		r.Process.Go = s.built.GoVersion
	}
	return nil
}
