package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/reactor"
)

// calls are the calls of reactor.Kernel that a script makes on its own side.
type calls interface {
	Socket(to reactor.Address) (int, error)
	Connect(fd int, to reactor.Address) error
	Listen(on reactor.Address, backlog int, shared bool) (int, error)
	LocalAddress(fd int) (reactor.Address, error)
	Recv(fd int, p []byte) (int, syscall.Errno)
	Peek(fd int) (int, syscall.Errno)
	Send(fd int, p []byte) (int, syscall.Errno)
	SocketError(fd int) syscall.Errno
	Unacknowledged(fd int) int
	Shutdown(fd, how int)
	ResetOnClose(fd int)
	Close(fd int)
}

// peer is the other end of a script's connection. Endpoint is one.
type peer interface {
	Read(most int) []byte
	Ended() (ended, reset bool)
	Write(p []byte) int
	CloseWrite()
	Close()
	Reset()
}

// world is a kernel that scripts run over: the model, or the machine's.
type world interface {
	calls
	accept(fd int) (int, syscall.Errno)
	dup(fd int) int
	// address is one that is free in this world.
	address() reactor.Address
	// serve makes an address at which peers are: "accepting", "full" (they never accept, and the
	// queue has no room), "dead" (nobody listens there any more) or "missing" (nobody ever did).
	serve(state string) reactor.Address
	// accepted is the connection that an accepting peer got last.
	accepted() peer
	// dial has a peer connect. outcome is "connected", "refused" or "waiting", and final once
	// settled.
	dial(to reactor.Address) (p peer, outcome func() string)
	// poller is the i-th of two.
	poller(i int) watcher
	// pass lets a little time pass.
	pass()
	// underWay says that something which that connection has sent is still to have an effect. read
	// says that the peer has read all of it.
	underWay(fd int, read bool) bool
	// patience is how long an outcome may take to come about.
	patience() time.Duration
}

// watcher is what a script uses of a reactor.Poller.
type watcher interface {
	Add(fd int, token uint64, level bool) error
	Remove(fd int)
	Poll(events []reactor.Event) int
}

// run is one script in one world. Its log has a line for each step: what the call returned, and
// what the pollers told once nothing changed any more.
type run struct {
	world
	conn       int // the connection's descriptor on the script's side
	listener   int
	extra      int // what dup made
	at         reactor.Address
	other      peer
	outcome    func() string
	sent, read int // bytes that the script has sent, and that the peer has read of them
	want       []string
	log        []string
}

// play runs a script's steps. want is the log to expect, nil when there is none to compare with: a
// real kernel's outcome may take a moment, and a wrong one is recorded only after that.
func (r *run) play(steps string, want []string) []string {
	r.conn, r.listener, r.extra, r.want = -1, -1, -1, want
	for step := range strings.SplitSeq(steps, "\n") {
		if step = strings.TrimSpace(step); step != "" {
			r.step(step)
		}
	}
	for _, fd := range []int{r.conn, r.listener, r.extra} {
		if fd >= 0 {
			r.Close(fd)
		}
	}
	if r.other != nil {
		r.other.Close()
	}
	return r.log
}

// step makes one call and lets it settle. Calls that found nothing are made again while another
// outcome is expected.
func (r *run) step(step string) {
	words := strings.Fields(step)
	wanted := ""
	if len(r.log) < len(r.want) {
		wanted = r.want[len(r.log)]
	}
	deadline := time.Now().Add(r.patience())
	expecting := func() bool { return wanted != "" && time.Now().Before(deadline) }
	result := r.do(words)
	for expecting() && mayRepeat(words, result) && !strings.HasPrefix(wanted, step+" = "+result) {
		r.pass()
		result = r.do(words)
	}
	events := map[string]string{}
	for {
		busy := r.conn >= 0 && r.underWay(r.conn, r.read == r.sent)
		r.pass()
		fresh := r.gather(events)
		line := render(step, result, events)
		if !fresh && (line == wanted && !busy || !expecting()) {
			r.log = append(r.log, line)
			return
		}
	}
}

// mayRepeat says whether a call took nothing, so that making it again is not another script.
func mayRepeat(words []string, result string) bool {
	return result == "EAGAIN" || result == "nothing" || result == "waiting" ||
		words[0] == "unacknowledged"
}

func render(step, result string, events map[string]string) string {
	line := step + " = " + result
	names := make([]string, 0, len(events))
	for name := range events {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		line += " | " + name + ": " + events[name]
	}
	return line
}

// gather polls both pollers and says whether they had anything new. A later event replaces an
// earlier one: how many times the same change is told is a matter of timing.
func (r *run) gather(events map[string]string) (fresh bool) {
	var list [8]reactor.Event
	for i, name := range []string{"", "second "} {
		for _, ev := range list[:r.poller(i).Poll(list[:])] {
			of := name + "connection"
			if ev.Token == listenerToken {
				of = name + "listener"
			}
			text := describe(ev)
			fresh = fresh || events[of] != text
			events[of] = text
		}
	}
	return fresh
}

// do is one step. It returns the class of what the call returned.
func (r *run) do(words []string) string {
	if words[0] == "peer" {
		return r.doPeer(words[1:])
	}
	switch verb, argument := words[0], strings.Join(words[1:], " "); verb {
	case "connected": // a connection that the script has dialled
		r.at = r.serve("accepting")
		r.dialOut()
		r.watch(0)
	case "accepted": // one that a peer has dialled
		r.listen(8)
		r.other, r.outcome = r.dial(r.at)
		r.pass()
		r.conn = r.take()
		r.watch(0)
	case "connect":
		r.at = r.serve(argument)
		return r.dialOut()
	case "socket":
		return result(r.socket())
	case "listen":
		r.listen(number(argument))
	case "accept":
		fd := r.take()
		if fd < 0 {
			return errnoName(syscall.Errno(-fd))
		}
		r.conn = fd
	case "watch":
		return result(r.watch(number(argument)))
	case "unwatch":
		r.poller(number(argument)).Remove(r.conn)
	case "unlisten":
		r.poller(0).Remove(r.listener)
	case "dup":
		r.extra = r.dup(r.listener)
	case "close":
		r.closeOne(argument)
	case "poll":
	default:
		return r.doConnection(verb, argument)
	}
	return "ok"
}

// doConnection is a call on the script's end of the connection.
func (r *run) doConnection(verb, argument string) string {
	switch verb {
	case "send":
		n, errno := r.Send(r.conn, make([]byte, number(argument)))
		r.sent += max(n, 0)
		return count(n, errno)
	case "fill":
		return r.fill()
	case "recv":
		n, errno := r.Recv(r.conn, make([]byte, number(argument)))
		return count(n, errno)
	case "peek":
		n, errno := r.Peek(r.conn)
		return count(n, errno)
	case "error":
		return errnoName(r.SocketError(r.conn))
	case "unacknowledged":
		if r.Unacknowledged(r.conn) > 0 {
			return "some"
		}
		return "none"
	case "shutdown":
		r.Shutdown(r.conn, map[string]int{"read": 0, "write": 1, "both": 2}[argument])
	case "linger":
		r.ResetOnClose(r.conn)
	default:
		panic("no such step: " + verb)
	}
	return "ok"
}

func (r *run) doPeer(words []string) string {
	switch words[0] {
	case "dials":
		r.other, r.outcome = r.dial(r.at)
	case "outcome":
		return r.outcome()
	case "writes":
		return strconv.Itoa(r.other.Write(make([]byte, number(words[1]))))
	case "fills":
		for r.other.Write(make([]byte, 1<<16)) > 0 {
			r.pass()
		}
	case "reads":
		return r.peerReads(number(words[1]))
	case "drains":
		return r.drain()
	case "ends":
		r.other.CloseWrite()
	case "closes":
		r.other.Close()
	case "resets":
		r.other.Reset()
	default:
		panic("no such step: peer " + words[0])
	}
	return "ok"
}

func (r *run) peerReads(most int) string {
	if n := len(r.other.Read(most)); n > 0 {
		r.read += n
		return strconv.Itoa(n)
	}
	switch ended, reset := r.other.Ended(); {
	case reset:
		return "reset"
	case ended:
		return "end"
	}
	return "nothing"
}

// fill sends until the socket takes no more, though the peer's kernel has taken what it can.
func (r *run) fill() string {
	const enough = 40 // moments, in which an acknowledgement that was put off has come
	for idle := 0; idle < enough; {
		n, errno := r.Send(r.conn, make([]byte, 1<<16))
		switch {
		case errno == 0:
			r.sent += n
			idle = 0
		case errno == syscall.EAGAIN:
			idle++
			r.pass()
		default:
			return errnoName(errno)
		}
	}
	return "EAGAIN"
}

// drain has the peer read until it has all that the script has sent.
func (r *run) drain() string {
	for deadline := time.Now().Add(r.patience()); r.read < r.sent && time.Now().Before(deadline); {
		n := len(r.other.Read(1 << 20))
		r.read += n
		if n == 0 {
			r.pass()
		}
	}
	if r.read != r.sent {
		return fmt.Sprintf("%d of %d bytes", r.read, r.sent)
	}
	return "whole"
}

func (r *run) socket() (err error) {
	r.at = r.serve("accepting")
	r.conn, err = r.Socket(r.at)
	return err
}

func (r *run) dialOut() string {
	r.conn, _ = r.Socket(r.at)
	if err := r.Connect(r.conn, r.at); err != nil {
		return result(err)
	}
	r.pass()
	r.other = r.accepted()
	return "ok"
}

func (r *run) listen(backlog int) {
	r.listener, _ = r.Listen(r.address(), backlog, true)
	r.at, _ = r.LocalAddress(r.listener)
	if err := r.poller(0).Add(r.listener, listenerToken, true); err != nil {
		panic(err)
	}
}

// take accepts. It returns the error as a negative number.
func (r *run) take() int {
	fd, errno := r.accept(r.listener)
	if errno != 0 {
		return -int(errno)
	}
	return fd
}

func (r *run) watch(i int) error { return r.poller(i).Add(r.conn, connectionToken, false) }

func (r *run) closeOne(which string) {
	fd := map[string]*int{"connection": &r.conn, "listener": &r.listener, "dup": &r.extra}[which]
	r.Close(*fd)
	*fd = -1
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("no number: " + s)
	}
	return n
}

func count(n int, errno syscall.Errno) string {
	if errno != 0 {
		return errnoName(errno)
	}
	return strconv.Itoa(n)
}

func errnoName(errno syscall.Errno) string {
	if errno == 0 {
		return "none"
	}
	return unix.ErrnoName(errno)
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	if errno, is := err.(syscall.Errno); is {
		return errnoName(errno)
	}
	return err.Error()
}
