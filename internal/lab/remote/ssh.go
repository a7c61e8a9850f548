package remote

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is this program's file. It is copied to machines that do not have it.
type program struct {
	path string
	size int64
	sum  string
}

// Sum is the hash of this program's file. A generator uses it to prove that it is a copy.
func Sum() (string, error) {
	p, err := thisProgram()
	return p.sum, err
}

func thisProgram() (program, error) {
	path, err := os.Executable()
	if err != nil {
		return program{}, fmt.Errorf("this program's file is not known: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return program{}, fmt.Errorf("this program's file cannot be read: %w", err)
	}
	defer f.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, f)
	if err != nil {
		return program{}, fmt.Errorf("this program's file cannot be read: %w", err)
	}
	return program{path, size, hex.EncodeToString(hash.Sum(nil))}, nil
}

// Lines printed by the script: the kind of machine, and whether it has the program. Lines before
// these come from the login and are ignored.
const (
	saysMachine = "plimsoll-generator-on"
	saysHas     = "plimsoll-generator-starts"
	saysNeeds   = "plimsoll-generator-needed"
	saysFailed  = "plimsoll-generator-failed"
)

// script runs on the generator's machine, in any POSIX shell. It reports the machine, takes the
// program if there is none with its hash, and becomes it. The program is stored in a folder of the
// user's that nobody else may read; a copy gets its name once it is complete. Copies older than a
// week are removed when a new one arrives. The script has no single quote and no line break,
// because it is passed in single quotes to the user's shell, whatever that is.
const script = `umask 077; echo ` + saysMachine + ` $(uname -s) $(uname -m); ` +
	`d=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll; ` +
	`mkdir -p "$d" && chmod 700 "$d" && [ -O "$d" ] || ` +
	`{ echo ` + saysFailed + ` the folder "$d" cannot be made, or is not yours; exit 1; }; ` +
	`f=$d/generator-SUM; if [ ! -x "$f" ]; then echo ` + saysNeeds + `; ` +
	`find "$d" -name "generator-*" -mtime +7 -exec rm -f {} +; ` +
	`head -c SIZE >"$f.$$" && [ $(wc -c <"$f.$$") -eq SIZE ] && chmod 700 "$f.$$" && ` +
	`mv "$f.$$" "$f" || { rm -f "$f.$$"; ` +
	`echo ` + saysFailed + ` the program cannot be stored in "$d": is the disk full?; exit 1; }; fi; ` +
	`echo ` + saysHas + `; exec "$f" generator`

// sshOptions are added to the user's configuration. ssh asks nothing at the terminal, where the
// progress line is; it notices a lost connection within about 15 s; and it forwards nothing.
var sshOptions = []string{
	"-T", "-a", "-x",
	"-o", "BatchMode=yes",
	"-o", "ConnectTimeout=15",
	"-o", "ServerAliveInterval=5",
	"-o", "ServerAliveCountMax=3",
	"-o", "ClearAllForwardings=yes",
	"-o", "ControlMaster=no",
	"-o", "Compression=no",
}

// dial starts a generator through ssh.
func (p program) dial(ctx context.Context, generator string) (Link, error) {
	a, err := parseAddress(generator)
	if err != nil {
		return nil, err
	}
	args := append([]string(nil), sshOptions...)
	if a.port != "" {
		args = append(args, "-p", a.port)
	}
	words := strings.NewReplacer("SUM", p.sum, "SIZE", fmt.Sprint(p.size)).Replace(script)
	args = append(args, "--", a.host, "exec sh -c '"+words+"'")
	l, err := startSSH(args)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, l.kill)
	defer stop()
	if err := p.install(l); err != nil {
		return nil, because(err, l.Close())
	}
	return l, nil
}

// install makes sure that the program is there and starts it.
func (p program) install(l *sshLink) error {
	known := false
	for {
		words, err := l.soonSaid()
		if err != nil {
			return err
		}
		switch words[0] {
		case saysMachine:
			if err := sameKind(words[1:]); err != nil {
				return err
			}
			known = true
		case saysNeeds:
			if !known {
				return errors.New("it requires the program and has not said what machine it is")
			}
			if err := p.sendTo(l); err != nil {
				return err
			}
		case saysFailed:
			return errors.New(clean(strings.Join(words[1:], " "), 300))
		case saysHas:
			return nil
		}
	}
}

func (p program) sendTo(l *sshLink) error {
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	late := time.AfterFunc(loginPatience, l.kill)
	defer late.Stop()
	if _, err := io.CopyN(patient{l, late}, f, p.size); err != nil {
		return fmt.Errorf("the program cannot be sent: %w", err)
	}
	return nil
}

// patient is a writer that restarts its timeout with each write.
type patient struct {
	io.Writer
	late *time.Timer
}

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	p.late.Reset(loginPatience)
	return p.Writer.Write(b)
}

// sameKind returns an error unless this program runs on a machine with these names, from uname -s
// and -m.
func sameKind(names []string) error {
	systems := map[string]string{"Linux": "linux", "Darwin": "darwin"}
	processors := map[string]string{
		"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64",
	}
	if len(names) == 2 && systems[names[0]] == runtime.GOOS && processors[names[1]] == runtime.GOARCH {
		return nil
	}
	return fmt.Errorf("its machine is %s, and this plimsoll is made for %s/%s, so a copy of it does "+
		"not run there: use machines of one kind, or start from one of theirs",
		clean(strings.Join(names, " "), 100), runtime.GOOS, runtime.GOARCH)
}

// sshLink is a Link to a generator through an ssh process.
type sshLink struct {
	command *exec.Cmd
	in      io.WriteCloser
	pipe    io.Closer // the pipe that out reads
	out     *bufio.Reader
	heard   int  // bytes of lines before the protocol starts
	errors  tail // standard error of ssh and of the other side
	once    sync.Once
	ended   chan struct{}
	why     error
}

func startSSH(args []string) (*sshLink, error) {
	path, err := exec.LookPath("ssh")
	if err != nil {
		return nil, errors.New("there is no ssh on this machine: install OpenSSH's client")
	}
	l := &sshLink{command: exec.Command(path, args...), ended: make(chan struct{})}
	l.command.Stderr = &l.errors
	// Its children may keep its standard error open. They are not waited for.
	l.command.WaitDelay = closePatience
	// A terminal's Ctrl-C must not reach ssh: the results so far still have to arrive.
	l.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if l.in, err = l.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.pipe, l.out = out, bufio.NewReader(out)
	if err := l.command.Start(); err != nil {
		return nil, fmt.Errorf("ssh cannot be started: %w", err)
	}
	return l, nil
}

// soonSaid is said with a time limit for the login.
func (l *sshLink) soonSaid() ([]string, error) {
	late := time.AfterFunc(loginPatience, l.kill)
	words, err := l.said()
	if !late.Stop() && err != nil {
		err = fmt.Errorf("its login has said nothing for %v: check that the command "+
			"true, given to ssh for it, ends", loginPatience)
	}
	return words, err
}

// mostLines is the most bytes that a login may print before the script's lines.
const mostLines = 64 << 10

// said returns the words of the script's next line; there is at least one.
func (l *sshLink) said() ([]string, error) {
	for l.heard < mostLines {
		line, err := l.out.ReadSlice('\n')
		l.heard += len(line)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, errors.New("ssh has ended before the generator was started")
		}
		words := strings.Fields(string(line))
		if len(words) > 0 && strings.HasPrefix(words[0], "plimsoll-generator-") {
			return words, nil
		}
	}
	return nil, errors.New("its login prints without an end: let it be silent without a terminal")
}

// Read implements Link.
func (l *sshLink) Read(b []byte) (int, error) { return l.out.Read(b) }

// Write implements Link.
func (l *sshLink) Write(b []byte) (int, error) { return l.in.Write(b) }

// closePatience is how long a generator may take to end after the end of its input. loginPatience
// is how long a login may take to run a command, and to accept a piece of the program. They are
// variables for tests.
var (
	closePatience = 5 * time.Second
	loginPatience = time.Minute
)

// Close implements Link.
func (l *sshLink) Close() error {
	l.once.Do(func() {
		defer close(l.ended)
		l.in.Close()
		late := time.AfterFunc(closePatience, l.kill)
		defer late.Stop()
		err := l.command.Wait()
		if said := l.errors.text(); err != nil && said != "" {
			l.why = fmt.Errorf("ssh: %s", said)
		} else if err != nil {
			l.why = fmt.Errorf("ssh: %w", err)
		}
	})
	<-l.ended
	return l.why
}

// kill ends ssh at once, with all its children. Without the connection, the generator ends too.
func (l *sshLink) kill() {
	select {
	case <-l.ended: // its process id may have been reused
	default:
		_ = syscall.Kill(-l.command.Process.Pid, syscall.SIGKILL)
	}
	_ = l.pipe.Close() // a process that has left its group may hold the other end
}

// tail keeps the end of what is written to it, for an error.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// mostTail is the size of that end, in bytes.
const mostTail = 600

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-mostTail):]
	return len(b), nil
}

// text returns it in one line.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.FieldsFunc(string(t.last), func(r rune) bool { return r == '\n' || r == '\r' })
	return clean(strings.Join(lines, "; "), mostTail)
}
