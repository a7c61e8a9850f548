package doctor

import (
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
)

// sysctl is the command that sets a setting of the whole machine, now and permanently.
func sysctl(name, value string) string {
	return fmt.Sprintf("sysctl -w %s && echo \"%s = %s\" >> /etc/sysctl.d/90-service.conf",
		assignment(name, value), name, value)
}

func assignment(name, value string) string {
	if strings.Contains(value, " ") {
		value = "'" + value + "'"
	}
	return name + "=" + value
}

// sysctl is the same for a setting of the process's network namespace. A container's namespace
// differs from the machine's, and the files in /etc of the machine do not affect it. then says what
// else to do, or is "".
func (s *subject) sysctl(name, value, then string) string {
	command, remarks := sysctl(name, value), []string(nil)
	if s.apart {
		set := assignment(name, value)
		command = fmt.Sprintf("nsenter -t %d -n sysctl -w %s", s.pid, set)
		remarks = append(remarks, "until its network namespace ends; for good: --sysctl "+set+
			" of docker, or securityContext.sysctls of the pod")
	}
	if then != "" {
		remarks = append(remarks, then)
	}
	if len(remarks) > 0 {
		command += " # " + strings.Join(remarks, "; ")
	}
	return command
}

const (
	// smallBacklog is a backlog that a burst overflows if a service does not accept for a moment:
	// 10 ms of 25,000 new connections a second.
	smallBacklog = 256
	// wellBacklog is the largest useful backlog: in a longer queue, the last connections would wait
	// too long anyway. It is Linux's default since 5.4.
	wellBacklog = 4096
	// fewPorts is a range so small that with connections in TIME_WAIT (60 s), one destination gets
	// fewer than 170 new connections a second.
	fewPorts = 10_000
	// manyWaiting connections in TIME_WAIT are a sign that connections are not reused.
	manyWaiting = 3000
)

func readBacklogs(s *subject) ([]listener, error) {
	if s.listenErr != nil {
		return nil, s.listenErr
	}
	if s.settingsErr != nil {
		return nil, s.settingsErr
	}
	for _, l := range s.listeners {
		if l.limit == 0 {
			return nil, fmt.Errorf("of %v it is not known: %s", l.at, l.unknown)
		}
	}
	return s.listeners, nil
}

// judgeBacklogs judges the smallest: min(the program's argument, somaxconn at that time).
func judgeBacklogs(s *subject, all []listener) opinion {
	if len(all) == 0 {
		return opinion{
			value: "it does not listen",
			why:   "the process holds no TCP socket that listens",
		}
	}
	var said []string
	smallest := all[0]
	for _, l := range all {
		said = append(said, fmt.Sprintf("%v: %.0f of %.0f", l.at, l.queue, l.limit))
		if l.limit < smallest.limit {
			smallest = l
		}
	}
	o := opinion{
		value: strings.Join(said, ", "),
		why:   "a burst of that many connections may come while the process is busy with others",
	}
	most := s.setting("net.core.somaxconn")
	overflows := s.values[measure.HostTCPListenOverflows]
	switch {
	case smallest.queue > .8*smallest.limit:
		o.advise = true
		o.why = fmt.Sprintf("%.0f connections wait to be accepted on %v, and further ones than "+
			"%.0f are dropped: the process does not keep up, or the backlog is too "+
			"small for its bursts",
			smallest.queue, smallest.at, smallest.limit)
	case smallest.limit < smallBacklog:
		o.advise = true
		o.why = fmt.Sprintf("when %v is not accepted from for 10 ms, more than %.0f new "+
			"connections a second overflow it, and a client whose connection was dropped tries "+
			"again after a second",
			smallest.at, smallest.limit*100)
	case overflows > 0 && smallest.limit < wellBacklog:
		o.advise = true
		o.why = fmt.Sprintf("%.0f connections were dropped since boot, "+
			"in this network namespace, as a backlog was full", overflows)
	}
	if o.advise {
		o.recommended = strconv.Itoa(wellBacklog)
		if float64(most) <= smallest.limit {
			o.command = s.sysctl("net.core.somaxconn", o.recommended, "and start the process again")
		} else {
			o.command = fmt.Sprintf("# the program asks for less than net.core.somaxconn (%d): "+
				"nginx \"listen … backlog=%d\", Redis tcp-backlog, gunicorn --backlog, "+
				"Java server.tomcat.accept-count; Go asks for somaxconn",
				most, wellBacklog)
		}
	}
	return o
}

func judgeSomaxconn(s *subject, v []int) opinion {
	o := opinion{
		value: strconv.Itoa(v[0]),
		why:   "it bounds what programs ask for; more would only let connections wait longer",
	}
	if v[0] < wellBacklog {
		o.advise, o.recommended = true, strconv.Itoa(wellBacklog)
		o.why = fmt.Sprintf("no program's accept queue can be longer, whatever it asks for: "+
			"a burst of more than %d connections is dropped, and tries again after a second", v[0])
		o.command = s.sysctl("net.core.somaxconn", o.recommended,
			"and start the processes that listen again")
	}
	return o
}

func judgeSynBacklog(s *subject, v []int) opinion {
	o := opinion{
		value: strconv.Itoa(v[0]),
		why: "with net.ipv4.tcp_syncookies=1 nothing is refused beyond it: " +
			"cookies are sent instead",
	}
	if text, there := s.settings["net.ipv4.tcp_syncookies"]; !there || text != "0" {
		return o
	}
	o.why = "SYN cookies are off, and the queue holds enough half-open connections"
	if v[0] < wellBacklog {
		o.advise = true
		o.recommended = "net.ipv4.tcp_syncookies=1"
		o.command = s.sysctl("net.ipv4.tcp_syncookies", "1", "")
		o.why = fmt.Sprintf("SYN cookies are off: with %d connections half open, "+
			"further ones are dropped, and anybody can open that many", v[0])
	}
	return o
}

// ports describes the local ports of outgoing connections.
type ports struct {
	low, high int
	reuse     int // net.ipv4.tcp_tw_reuse
	// waiting is the number of ports held by connections in TIME_WAIT; local of them lead to this
	// machine itself.
	waiting, local int
	// used is the number of ports that the busiest destination holds and that cannot be reused at
	// once.
	used int
	to   netip.AddrPort
}

// mostDestinations is the largest number of destinations whose ports are counted.
const mostDestinations = 1 << 16

func readPorts(s *subject) (p ports, err error) {
	bounds, err := numbers("net.ipv4.ip_local_port_range", 2)(s)
	if err != nil {
		return p, err
	}
	reuse, err := numbers("net.ipv4.tcp_tw_reuse", 1)(s)
	if err != nil {
		return p, err
	}
	p.low, p.high, p.reuse = bounds[0], bounds[1], reuse[0]
	listening := make(map[uint16]bool)
	for _, l := range s.listeners {
		listening[l.at.Port()] = true
	}
	by := make(map[netip.AddrPort]int)
	err = probe.Connected(s.proc, s.pid, func(local, remote netip.AddrPort, waits bool) {
		if port := int(local.Port()); port < p.low || port > p.high || listening[local.Port()] {
			return
		}
		near := remote.Addr().Unmap().IsLoopback()
		if waits {
			p.waiting++
			if near {
				p.local++
			}
		}
		if waits && (p.reuse == 1 || p.reuse == 2 && near) || len(by) >= mostDestinations {
			return
		}
		by[remote]++
		if by[remote] > p.used {
			p.used, p.to = by[remote], remote
		}
	})
	return p, err
}

func judgePorts(s *subject, p ports) opinion {
	size := max(0, p.high-p.low+1)
	o := opinion{
		value: fmt.Sprintf("%d-%d", p.low, p.high),
		why: fmt.Sprintf("%d connections at once to any one address and port: "+
			"enough where connections are used again", size),
	}
	reserved := s.settings["net.ipv4.ip_local_reserved_ports"]
	var exposed []string
	for _, l := range s.listeners {
		if port := int(l.at.Port()); port >= p.low && port <= p.high && !listed(reserved, port) {
			exposed = append(exposed, strconv.Itoa(port))
		}
	}
	slices.Sort(exposed)
	exposed = slices.Compact(exposed)
	switch {
	case p.used > size/2:
		o.advise = true
		o.recommended = "10240-65535"
		o.command = s.sysctl("net.ipv4.ip_local_port_range", "10240 65535", "")
		o.why = fmt.Sprintf("%d of %d ports are taken by connections to %v: when they run out, "+
			"further ones to it fail. Better still, use connections again", p.used, size, p.to)
	case size < fewPorts:
		o.advise = true
		o.recommended = "32768-60999"
		o.command = s.sysctl("net.ipv4.ip_local_port_range", "32768 60999", "")
		o.why = fmt.Sprintf("each closed connection holds its port for 60 s, so %d ports are %d "+
			"new connections a second to one address", size, size/60)
	case len(exposed) > 0:
		o.advise, o.recommended = true, "reserve "+strings.Join(exposed, ",")
		o.command = s.sysctl("net.ipv4.ip_local_reserved_ports",
			strings.Trim(reserved+","+strings.Join(exposed, ","), ","), "")
		o.why = fmt.Sprintf("the process listens on a port of this range (%s): "+
			"while it is stopped, any connection that is opened may be given it, "+
			"and the process then cannot start again", strings.Join(exposed, ", "))
	}
	return o
}

// listed reports whether a list such as "8080,9000-9100" contains a port.
func listed(list string, port int) bool {
	for part := range strings.SplitSeq(list, ",") {
		from, to, is := strings.Cut(strings.TrimSpace(part), "-")
		low, err1 := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if !is {
			high, err2 = low, err1
		}
		if err1 == nil && err2 == nil && port >= low && port <= high {
			return true
		}
	}
	return false
}

// judgeReuse counts the ports in TIME_WAIT that the setting keeps from being reused.
func judgeReuse(s *subject, p ports) opinion {
	o := opinion{
		value: fmt.Sprintf("%d, %d ports in TIME_WAIT", p.reuse, p.waiting),
		why:   "few ports are held by it, so it makes no difference",
	}
	held, where := p.waiting, ""
	if p.reuse == 2 {
		held, where = p.waiting-p.local, " to other machines"
	}
	switch {
	case p.reuse == 1:
		o.why = "ports in TIME_WAIT are used again for new connections after a second"
	case held > manyWaiting:
		o.advise, o.recommended, o.command = true, "1", s.sysctl("net.ipv4.tcp_tw_reuse", "1", "")
		o.why = fmt.Sprintf("%d connections%s that were closed here hold their ports for 60 s. "+
			"The cause is that connections are not kept: keep-alive, and a client pool that is "+
			"large enough, do away with it", held, where)
	case p.waiting > manyWaiting:
		o.why = fmt.Sprintf("%d of them are to this machine itself, where ports are used "+
			"again after a second", p.local)
	}
	return o
}

// judgeBuffers judges the largest size to which TCP itself grows a connection's buffer.
func judgeBuffers(name string, usual int) func(s *subject, v []int) opinion {
	return func(s *subject, v []int) opinion {
		most := v[2]
		// At a round trip of 50 ms, 20 windows fit in a second; the window is half of the buffer.
		through := float64(most) / 2 * 20
		o := opinion{
			value: fmt.Sprintf("%d %d %d", v[0], v[1], v[2]),
			why: fmt.Sprintf("grows by itself up to %s: %s a second on one connection at 50 "+
				"ms of round trip", format.Bytes(float64(most)), format.Bytes(through)),
		}
		if most < 1<<20 {
			o.advise, o.recommended = true, fmt.Sprintf("%d %d %d", v[0], v[1], usual)
			o.why = fmt.Sprintf("one connection at 50 ms of round trip gets no more "+
				"than %s a second", format.Bytes(through))
			o.command = s.sysctl(name, o.recommended, "")
		}
		return o
	}
}

// quicBuffer is the size that QUIC implementations ask for: all connections share one socket.
const quicBuffer = 7_500_000

// judgeMost judges the largest buffer that a program may ask for. TCP does not need to ask. All
// namespaces share this setting, and it can only be set in the machine's own, wherever it was read.
func judgeMost(name string) func(s *subject, v []int) opinion {
	return func(s *subject, v []int) opinion {
		o := opinion{
			value: strconv.Itoa(v[0]),
			why:   "only what programs ask for themselves; TCP's buffers grow without it",
		}
		if v[0] < quicBuffer && s.holdsUDP() {
			o.advise = true
			o.recommended = strconv.Itoa(quicBuffer)
			o.command = sysctl(name, strconv.Itoa(quicBuffer))
			o.why = fmt.Sprintf("the process has a UDP socket, as HTTP/3 has, "+
				"which all connections share: %s overflow in a burst, "+
				"and what is lost is sent again", format.Bytes(float64(v[0])))
		}
		return o
	}
}

// holdsUDP reports whether the process listens on UDP: it holds a socket that is not connected.
func (s *subject) holdsUDP() bool {
	if s.pid == 0 {
		return false
	}
	wild := make(map[string]bool)
	for _, name := range []string{"net/udp", "net/udp6"} {
		text, err := s.ofPID(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) > 9 && strings.Trim(fields[2], "0:") == "" {
				wild["socket:["+fields[9]+"]"] = true
			}
		}
	}
	for _, link := range s.descriptors() {
		if wild[link] {
			return true
		}
	}
	return false
}

// conntrack is the kernel's table of connections for the packet filter.
type conntrack struct {
	count, most int
	absent      bool
}

func readConntrack(s *subject) (conntrack, error) {
	if s.settingsErr != nil {
		return conntrack{}, s.settingsErr
	}
	if _, there := s.settings["net.netfilter.nf_conntrack_max"]; !there {
		return conntrack{absent: true}, nil
	}
	c := conntrack{
		count: s.setting("net.netfilter.nf_conntrack_count"),
		most:  s.setting("net.netfilter.nf_conntrack_max"),
	}
	if c.most == 0 {
		return c, fs.ErrNotExist
	}
	return c, nil
}

func judgeConntrack(s *subject, c conntrack) opinion {
	if c.absent {
		return opinion{
			value: "none",
			why:   "the kernel does not follow connections, so that no table can fill",
		}
	}
	share := float64(c.count) / float64(c.most)
	o := opinion{
		value: fmt.Sprintf("%d of %d", c.count, c.most),
		why:   "the table has room; when it is full, packets of new connections are dropped",
	}
	if share > .75 {
		// All namespaces share the maximum, and it can only be set in the machine's own.
		twice := strconv.Itoa(2 * c.most)
		o.advise = true
		o.recommended = twice
		o.command = sysctl("net.netfilter.nf_conntrack_max", twice)
		o.why = fmt.Sprintf("the table is %.0f %% full: when it is, packets of new connections "+
			"are dropped without a word to anybody (an entry takes some 300 bytes of the "+
			"kernel's memory)", share*100)
	}
	return o
}
