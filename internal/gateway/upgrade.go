package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"plimsoll/internal/reactor"
)

// An upgrade starts the program's file again, with the same arguments, and hands it the listening
// sockets. The new process accepts on the same sockets as this one, so no connection in an accept
// queue is lost. When the new process reports that it is ready, this one drains. If the new one
// ends before that, or does not report for upgradeLimit, this one goes on as before.
//
// The ready message is a byte 1, followed by tookWord and the addresses whose sockets the new
// process took, one per line; then the pipe is closed. Older versions send only the byte, and so
// does a process whose message would be longer than readyLimit. Only this process has the sockets
// of other addresses, so it accepts what waits in their queues before it closes them. If the
// message does not list addresses, it does so for all; shared sockets lose nothing by that.

const (
	upgradeSignal = syscall.SIGUSR2
	upgradeLimit  = 30 * time.Second

	socketsVariable = "PLIMSOLL_SOCKETS" // "address=fd,fd;address=fd", which the new process inherits
	readyVariable   = "PLIMSOLL_READY"   // the descriptor to write the ready message to
	adminPrefix     = "admin:"
	tookWord        = "took"
	readyLimit      = 4096 // bytes of the ready message, which every pipe takes at once
)

// successor is a process that has taken over.
type successor struct {
	took map[string]bool // the addresses whose sockets it has; empty if it did not list them
}

// has reports whether the successor is known to serve the accept queues of an address. A nil
// successor serves none.
func (s *successor) has(address string) bool { return s != nil && s.took[address] }

// readSuccessor reads the ready message. It returns an error if the other process ended without
// one.
func readSuccessor(r io.Reader) (*successor, error) {
	message, err := io.ReadAll(io.LimitReader(r, readyLimit))
	if err != nil {
		return nil, err
	}
	if len(message) == 0 {
		return nil, io.EOF
	}
	s := &successor{took: map[string]bool{}}
	lines := strings.Split(string(message[1:]), "\n")
	if len(lines) < 2 || lines[0] != tookWord {
		return s, nil
	}
	// What follows the last line's end is not an address.
	for _, address := range lines[1 : len(lines)-1] {
		s.took[address] = true
	}
	return s, nil
}

// Upgrade starts the program's file again and hands it the listening sockets; when the new process
// serves, this one drains. It returns at once.
func (g *Gateway) Upgrade() {
	select {
	case g.upgrades <- struct{}{}:
	default:
	}
}

// upgrade starts the new process and waits until it is ready. It then sets the state to draining
// before it releases the lock: a reload that waits for the lock would otherwise change a gateway
// that has been replaced.
func (g *Gateway) upgrade(ctx context.Context) (*successor, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	succeed := g.startSuccessor
	if g.simulated() {
		succeed = g.simulateUpgrade
	}
	next, err := succeed(ctx)
	if err == nil {
		g.state.Store(Draining)
	}
	return next, err
}

// lost is the state that a new process begins without, because it is in the old process's memory.
// docs/operations.md explains the consequences.
const lost = "counters, rate limits that are not shared, concurrency limits that were found, " +
	"breaker states, " +
	"the load line's estimate, SLO windows, the cache in memory, targets' health, changes over the admin API"

// startSuccessor starts the program's file with the listening sockets. The caller holds the lock.
func (g *Gateway) startSuccessor(ctx context.Context) (*successor, error) {
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer readEnd.Close()
	files, sockets, err := g.handover()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		writeEnd.Close()
		return nil, err
	}
	cmd := exec.Command(g.program, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = append(files, writeEnd)
	cmd.Env = append(withoutHandover(os.Environ()), socketsVariable+"="+sockets,
		fmt.Sprintf("%s=%d", readyVariable, firstExtra+len(files)))
	err = cmd.Start()
	writeEnd.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", g.program, err)
	}
	g.log.Info("the new process was started", "pid", cmd.Process.Pid, "program", g.program,
		"begins_without", lost)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var next *successor
	ready := make(chan error, 1)
	go func() {
		var err error
		next, err = readSuccessor(readEnd)
		ready <- err
	}()
	timer := time.NewTimer(upgradeLimit)
	defer timer.Stop()
	select {
	case err := <-ready:
		if err == nil {
			// systemd may accept this only from the process that it knows.
			notify(fmt.Sprintf("MAINPID=%d", cmd.Process.Pid))
			return next, nil
		}
		cmd.Process.Kill() // in case it is still alive but has not reported that it is ready
		return nil, fmt.Errorf("the new process ended before it was ready (%v); its own messages "+
			"say why", cmp.Or(<-ended, errEndedWell))
	case <-timer.C:
		cmd.Process.Kill()
		return nil, fmt.Errorf("the new process was not ready within %s and was stopped", upgradeLimit)
	case <-ctx.Done():
		cmd.Process.Kill()
		return nil, ctx.Err()
	}
}

var errEndedWell = errors.New("exit status 0")

// programPath is the path from which this process was started, with symbolic links unresolved, so
// that a link that is moved to a new version leads to that version. It must be called at the start,
// because the working directory may change.
func programPath() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return os.Executable()
	}
	return filepath.Abs(path)
}

// firstExtra is the number that the first of a command's ExtraFiles has in the new process.
const firstExtra = 3

// handover returns the listening sockets as files for a new process, and the text that describes
// them.
func (g *Gateway) handover() (files []*os.File, sockets string, err error) {
	var parts []string
	for address, l := range g.listeners {
		var numbers []string
		for _, fd := range l.sockets() {
			copied, err := syscall.Dup(fd)
			if err != nil {
				return files, "", fmt.Errorf("hand over %s: %w", address, err)
			}
			syscall.CloseOnExec(copied)
			numbers = append(numbers, strconv.Itoa(firstExtra+len(files)))
			files = append(files, os.NewFile(uintptr(copied), address))
		}
		parts = append(parts, address+"="+strings.Join(numbers, ","))
		if l.quic != nil {
			more, part, err := g.handoverHTTP3(l, firstExtra+len(files))
			if err != nil {
				return files, "", fmt.Errorf("hand over %s: %w", address, err)
			}
			files, parts = append(files, more...), append(parts, part)
		}
	}
	if ln, ok := g.admin.listener.(*net.TCPListener); ok {
		f, err := ln.File()
		if err != nil {
			return files, "", fmt.Errorf("hand over the admin address: %w", err)
		}
		parts = append(parts, fmt.Sprintf("%s%s=%d", adminPrefix, g.admin.address.address,
			firstExtra+len(files)))
		files = append(files, f)
	}
	return files, strings.Join(parts, ";"), nil
}

func withoutHandover(env []string) (kept []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, socketsVariable+"=") && !strings.HasPrefix(e, readyVariable+"=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// inherited are the sockets that the previous process handed over, by address.
type inherited struct {
	fds  map[string][]int
	took []string // the addresses whose sockets were taken
	pipe *os.File
	any  bool // the previous process handed over some
	host *Host
}

// inherit reads what the previous process handed over. It removes the variables from the
// environment, so that no child process sees them.
func inherit(h *Host) *inherited {
	in := &inherited{fds: map[string][]int{}, host: h}
	if h != nil {
		in.fds, in.any = h.Sockets, len(h.Sockets) > 0
		return in
	}
	for _, part := range strings.Split(os.Getenv(socketsVariable), ";") {
		address, numbers, ok := strings.Cut(part, "=")
		if !ok {
			continue
		}
		for _, n := range strings.Split(numbers, ",") {
			if fd, err := strconv.Atoi(n); err == nil && fd >= firstExtra {
				syscall.CloseOnExec(fd)
				in.fds[address] = append(in.fds[address], fd)
				in.any = true
			}
		}
	}
	if fd, err := strconv.Atoi(os.Getenv(readyVariable)); err == nil && fd >= firstExtra {
		syscall.CloseOnExec(fd)
		in.pipe = os.NewFile(uintptr(fd), "ready")
	}
	os.Unsetenv(socketsVariable)
	os.Unsetenv(readyVariable)
	return in
}

// take returns the sockets of an address, for their listener, and marks them as taken.
func (in *inherited) take(address string) []int {
	fds := in.fds[address]
	if len(fds) > 0 {
		in.took = append(in.took, address)
		delete(in.fds, address)
	}
	return fds
}

// admin opens the admin address, or takes it over.
func (in *inherited) admin(address string) (net.Listener, error) {
	if fds := in.take(adminPrefix + address); len(fds) == 1 {
		f := os.NewFile(uintptr(fds[0]), address)
		defer f.Close()
		return net.FileListener(f)
	}
	if in.host != nil {
		return in.host.ListenAdmin(address)
	}
	ln, err := net.Listen(adminNetwork(address), address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: the port is taken by another program: %w", address,
			syscall.EADDRINUSE)
	}
	return ln, err
}

// adminNetwork restricts 0.0.0.0 to IPv4, as for listeners: "tcp" would also listen on IPv6, which
// a firewall may not filter.
func adminNetwork(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// closeRest closes the sockets of addresses that the configuration no longer has. The previous
// process still has them, and serves their queues.
func (in *inherited) closeRest() {
	for _, fds := range in.fds {
		for _, fd := range fds {
			reactor.Socket{FD: fd}.Close()
		}
	}
	in.fds = nil
}

// ready tells the previous process that it may drain, and which sockets' queues it need not empty.
func (in *inherited) ready() {
	if in.host != nil {
		in.host.Ready(in.took)
	}
	if in.pipe != nil {
		message := "\x01" + strings.Join(append([]string{tookWord}, in.took...), "\n") + "\n"
		if len(message) > readyLimit {
			message = message[:1]
		}
		io.WriteString(in.pipe, message)
		in.pipe.Close()
		in.pipe = nil
	}
}
