package probe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

// The pace of the census. It goes through all sockets of the machine, so it runs less often if that
// takes long, and aims to use at most a fiftieth of a processor. Steps last about ten seconds, and
// each should have a census.
const (
	censusEvery  = time.Second
	censusCostly = 5 * time.Millisecond // above this cost it runs less often
	censusRarely = 5 * time.Second
	censusShare  = 50
	censusRarest = time.Minute
)

const (
	// maxDestinations bounds the addresses to which the target has had connections.
	maxDestinations = 1024
	// maxCandidates bounds the sockets to check for belonging to the target.
	maxCandidates = 1 << 16
)

// census counts the sockets of the target's network namespace by their relation to the target, and
// reads the namespace's settings. It costs 2 ms of a processor without sockets, and 1.5 µs per
// socket (BenchmarkCensus). If the target has opened connections since, it also costs 1 to 2 µs per
// descriptor of the target.
type census struct {
	*network
	listen []netip.AddrPort
	local  bool // one of listen is this machine's, or is in the target's own namespace
	now    func() time.Time
	next   time.Time
	dump   func(take func(socket)) error
	// dumpDatagrams and dumpLocal are the same as dump, for UDP and for Unix sockets.
	dumpDatagrams func(take func(socket)) error
	dumpLocal     func(take func(localSocket)) error
	// files reports that sockets are read from /proc/net/tcp instead. refused is the reason, nil if
	// that is intended.
	files        bool
	refused      error
	listeners    bindings        // the target's; kept after they close
	owned        map[uint64]bool // sockets for which the owner is known: whether it is the target
	before       map[uint64]bool // owned in the census before
	looked       int             // of's lookup count when owned was built
	destinations map[netip.AddrPort]bool
	exchanged    exchanges
	paths        map[string]uint64 // the target's Unix sockets: path to listening inode
}

func newCensus(n *network, listen []netip.AddrPort) *census {
	c := &census{
		network:       n,
		now:           time.Now,
		dump:          diag,
		dumpDatagrams: diagDatagrams,
		dumpLocal:     diagLocal,
		destinations:  make(map[netip.AddrPort]bool),
		paths:         make(map[string]uint64),
	}
	// INET_DIAG could be another machine's than these files
	c.files = n.root != procfs.DefaultMountPoint
	for _, a := range listen {
		if a.Port() != 0 {
			c.listen = append(c.listen, plain(a))
			c.local = c.local || n.namespace != "" || LocalTarget(a.Addr())
		}
	}
	return c
}

func (*census) Name() string { return "sockets by use" }

// Read runs the census when it is due. Samples in between do not have its values.
func (c *census) Read(into map[string]float64) error {
	now := c.now()
	if now.Before(c.next) || c.gone() {
		return nil
	}
	// The cost is measured as thread time, so this must stay on one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	var within float64
	t := newTally(c)
	err := c.take(t, into, &within)
	err = errors.Join(err, c.report(t, into))
	c.next = now.Add(pause(time.Duration((threadTime() - before + within) * float64(time.Second))))
	return err
}

// pause returns how long to wait after a census of that cost.
func pause(cost time.Duration) time.Duration {
	if cost <= censusCostly {
		return censusEvery
	}
	return min(max(cost*censusShare, censusRarely), censusRarest)
}

// take reads the settings and goes through the sockets. within is the cost of that on another
// thread.
func (c *census) take(t *tally, into map[string]float64, within *float64) error {
	var unread, refused error
	entered := c.inside(func() error {
		before := threadTime()
		t.low, t.high, unread = settings(c.root, into)
		if !c.files {
			if refused = c.dump(t.take); refused == nil {
				c.takeOthers(t)
			}
		}
		if c.namespace != "" {
			*within = threadTime() - before
		}
		return nil
	})
	if refused = errors.Join(entered, refused); refused != nil && !c.files {
		c.files = true
		c.refused = fmt.Errorf("%w: they are read from net/tcp, without the backlog in force and "+
			"what was sent again", refused)
		t.restart(c) // restarting avoids counting sockets twice
	}
	err := errors.Join(unread, c.refused)
	if c.files {
		err = errors.Join(err, eachSocket(c.dir, t.take))
	}
	if c.namespace != "" && len(c.listen) > 0 {
		// Clients in this namespace that connect to the target have their sockets here.
		t.clients = 0
		if c.files || c.dump(t.client) != nil {
			t.clients = 0
			err = errors.Join(err, eachSocket(c.root, t.client))
		}
	}
	return err
}

// report sets the values.
func (c *census) report(t *tally, into map[string]float64) error {
	if t.high > 0 {
		most, remote := 0, 0
		for at, n := range t.used {
			if most = max(most, n); !at.remote.Addr().IsLoopback() {
				remote = max(remote, n)
			}
		}
		into[measure.HostTCPPortsUsed] = float64(most)
		into[measure.HostTCPPortsUsedRemote] = float64(remote)
	}
	err := c.reportListener(t, into)
	if c.of != nil && c.of.lost == nil {
		err = errors.Join(err, c.reportOutgoing(t, into))
	}
	return err
}

func (c *census) reportListener(t *tally, into map[string]float64) error {
	if len(c.listen) == 0 {
		return nil
	}
	into[measure.ListenerClientTimeWait] = float64(t.clients)
	if len(t.listeners) > 0 {
		c.listeners = t.listeners
		into[measure.ListenerQueue] = float64(t.fullest.queue)
		if t.fullest.limit > 0 {
			into[measure.ListenerQueueLimit] = float64(t.fullest.limit)
		}
	}
	if len(c.listeners) == 0 && !c.local {
		return errors.New("the target's listener: it is on another machine, " +
			"or in a network namespace of its own (name its process with --pid)")
	}
	if len(c.listeners) == 0 {
		return fmt.Errorf("the target's listener: nothing listens on %s in the network "+
			"namespace that is read", addresses(c.listen))
	}
	for name, states := range map[string][]int{
		measure.ListenerEstablished: {established},
		measure.ListenerSYNReceived: {synReceived},
		measure.ListenerFinWait:     {finWait1, finWait2, closing},
		measure.ListenerTimeWait:    {timeWait},
		measure.ListenerCloseWait:   {closeWait},
	} {
		n := 0
		for _, state := range states {
			n += t.served[state]
		}
		into[name] = float64(n)
	}
	if !c.files {
		into[measure.ListenerRetransmits] = t.retransmits
	}
	return nil
}

func addresses(list []netip.AddrPort) string {
	const shown = 4
	var words []string
	for _, a := range list[:min(len(list), shown)] {
		words = append(words, a.String())
	}
	return strings.Join(words, ", ")
}

// reportOutgoing counts the connections that the target has opened. Sockets in TIME-WAIT belong to
// no process. They count if their remote address is one that the target has been connected to.
func (c *census) reportOutgoing(t *tally, into map[string]float64) error {
	err := c.whose(t.candidates)
	whole := err == nil && len(t.candidates) < maxCandidates
	var open, closeWaits float64
	to, waiting := make(map[string]int), make(map[string]int)
	c.exchanged.begin()
	for _, s := range t.candidates {
		if !c.owned[s.inode] {
			continue
		}
		was, there := c.before[s.inode] // not known to be the target's before
		c.exchanged.add(&s, there && !was)
		switch s.state {
		case established:
			open++
			to[s.to()]++
			if s.told {
				waiting[s.to()] += count(s.waits)
			}
		case closeWait:
			closeWaits++
		}
		switch {
		case s.datagram:
		case s.path == "" && len(c.destinations) < maxDestinations:
			c.destinations[s.remote] = true
		case s.path != "" && len(c.paths) < maxPaths && t.paths[s.path] != 0:
			c.paths[s.path] = t.paths[s.path]
		}
	}
	c.exchanged.end(whole && !c.files, whole && t.local)
	var here, there float64
	for to := range c.destinations {
		here += float64(t.towards[to])
		there += float64(t.from[to])
	}
	if err != nil && c.owned == nil {
		return err
	}
	into[measure.TargetOutgoingEstablished], into[measure.TargetOutgoingCloseWait] = open, closeWaits
	into[measure.TargetOutgoingTimeWait], into[measure.TargetOutgoingTimeWaitThere] = here, there
	for _, at := range busiest(to) {
		into[measure.OutgoingTo+at] = float64(to[at])
		if n, told := waiting[at]; told {
			into[measure.OutgoingWaiting+at] = float64(n)
			into[measure.OutgoingExchanges+at] = c.exchanged.by[at]
			into[measure.OutgoingReceived+at] = c.exchanged.received[at]
			into[measure.OutgoingAhead+at] = c.exchanged.ahead[at]
		}
		if n, is := c.exchanged.fresh[at]; is {
			into[measure.OutgoingFresh+at] = n
		}
	}
	return err
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// mostTold bounds the addresses whose connections are reported individually.
const mostTold = 8

// busiest returns the addresses with the most connections, in descending order.
func busiest(to map[string]int) []string {
	all := slices.SortedFunc(maps.Keys(to), func(a, b string) int {
		return cmp.Or(cmp.Compare(to[b], to[a]), strings.Compare(a, b))
	})
	return all[:min(len(all), mostTold)]
}

var errDenied = errors.New("the target's connections to others: its descriptors may not be " +
	"looked into: run as the same user, or as root")

// whose finds out which sockets are the target's. It keeps the answers while the target's processes
// stay the same, because each check costs a call per descriptor of the target.
func (c *census) whose(candidates []candidate) (err error) {
	c.before = c.owned
	if c.looked != c.of.looked {
		c.looked, c.owned = c.of.looked, nil
	}
	owned := make(map[uint64]bool, len(candidates))
	ask := false
	for _, s := range candidates {
		is, known := c.owned[s.inode]
		owned[s.inode] = is
		ask = ask || !known
	}
	c.owned = owned
	if !ask {
		return nil
	}
	left := maxDescriptors
	for _, m := range c.of.members {
		failed := eachHeld(
			filepath.Join(c.of.root, strconv.Itoa(m.pid), "fd"),
			left+1,
			func(inode uint64) bool {
				if _, asked := owned[inode]; asked {
					owned[inode] = true
				}
				left--
				return left > 0
			},
		)
		if errors.Is(failed, fs.ErrPermission) {
			c.owned = nil
			return errDenied
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) { // it has ended
			c.owned = nil
			return fmt.Errorf("the target's connections to others: %w", failed)
		}
		if left <= 0 {
			return fmt.Errorf("the target's connections to others: it has more than %d sockets, "+
				"and only that many are looked into", maxDescriptors)
		}
	}
	return nil
}

// tally holds the counts of one census.
type tally struct {
	listen      []netip.AddrPort
	foreign     bool     // listen are as seen from another network namespace
	low, high   uint16   // the range of local ports; 0 if unknown
	listeners   bindings // the target's
	kept        bindings // the target's, when last seen
	bound       bindings // everyone's
	fullest     socket
	served      [16]int // connections to the target's listeners, by state
	retransmits float64
	clients     int // client ends, in TIME-WAIT, of connections to the target
	used        map[flow]int
	// Sockets in TIME-WAIT: outgoing ones by remote address, accepted ones by local address.
	towards, from map[netip.AddrPort]int
	candidates    []candidate
	paths         map[string]uint64 // Unix sockets with a listener
	local         bool              // all Unix sockets were counted
}

// bindings are addresses with a listener. In another network namespace there may be tens of
// thousands on the target's port, and each socket is compared with them, so the lookup must not be
// a search.
type bindings map[netip.AddrPort]bool

// anywhere returns the key of a listener on all addresses.
func anywhere(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.Addr{}, port) }

func (b bindings) add(local netip.AddrPort) {
	if local.Addr().IsUnspecified() {
		local = anywhere(local.Port())
	}
	b[local] = true
}

// covers reports whether one of the listeners accepted a connection with this local address.
func (b bindings) covers(local netip.AddrPort) bool { return b[local] || b[anywhere(local.Port())] }

// flow identifies the use of a local port, which must be unique: a local address and a remote
// address and port.
type flow struct {
	local  netip.Addr
	remote netip.AddrPort
}

// candidate is an outgoing connection that may be the target's.
type candidate struct {
	inode  uint64
	state  int
	remote netip.AddrPort
	path   string // of a Unix socket, instead of remote
	// datagram marks a UDP socket. told reports that INET_DIAG gave its times, and waits that it
	// waits for an answer.
	datagram, told, waits bool
	data                  data
}

// to returns the address of the other end.
func (c *candidate) to() string {
	if c.path != "" {
		return c.path
	}
	return c.remote.String()
}

func newTally(c *census) *tally {
	t := new(tally)
	t.restart(c)
	return t
}

// restart drops all counts.
func (t *tally) restart(c *census) {
	*t = tally{
		listen:    c.listen,
		foreign:   c.namespace != "",
		low:       t.low,
		high:      t.high,
		listeners: make(bindings),
		kept:      c.listeners,
		bound:     make(bindings),
		used:      make(map[flow]int),
		towards:   make(map[netip.AddrPort]int),
		from:      make(map[netip.AddrPort]int),
		paths:     make(map[string]uint64),
	}
}

// plain returns an address without IPv6 mapping and zone.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// take counts a socket. Listening sockets come before the connections that they accept.
func (t *tally) take(s socket) {
	s.local, s.remote = plain(s.local), plain(s.remote)
	switch {
	case s.state == listening:
		t.listener(s)
	case t.serves(s.local):
		t.served[s.state&15]++
		t.retransmits += float64(s.retransmits)
		if s.state == timeWait {
			t.from[s.local]++
		}
	case t.bound.covers(s.local):
		if s.state == timeWait {
			t.from[s.local]++
		}
	default:
		t.outgoing(s)
	}
}

func (t *tally) listener(s socket) {
	wild := s.local.Addr().IsUnspecified()
	t.bound.add(s.local)
	if !slices.ContainsFunc(t.listen, func(a netip.AddrPort) bool {
		return a.Port() == s.local.Port() &&
			(wild || t.foreign || a.Addr().IsUnspecified() || a == s.local)
	}) {
		return
	}
	// If several share a port, the one closest to its limit is the first to reject clients.
	f := &t.fullest
	if len(t.listeners) == 0 ||
		uint64(s.queue)*uint64(max(f.limit, 1)) > uint64(f.queue)*uint64(max(s.limit, 1)) {
		*f = s
	}
	t.listeners.add(s.local)
}

// serves reports whether a listener of the target accepts on an address, or did when last seen.
func (t *tally) serves(local netip.AddrPort) bool {
	return t.listeners.covers(local) || t.kept.covers(local)
}

// aims reports whether a remote address is one of the target's.
func (t *tally) aims(remote netip.AddrPort) bool {
	return slices.ContainsFunc(t.listen, func(a netip.AddrPort) bool {
		return a == remote || a.Port() == remote.Port() && a.Addr().IsUnspecified()
	})
}

func (t *tally) outgoing(s socket) {
	if port := s.local.Port(); t.low <= port && port <= t.high {
		t.used[flow{s.local.Addr(), s.remote}]++
	}
	if t.aims(s.remote) {
		t.client(s)
		return
	}
	if s.state == timeWait {
		t.towards[s.remote]++
	} else if s.inode != 0 && len(t.candidates) < maxCandidates {
		t.candidates = append(t.candidates, candidate{
			inode: s.inode, state: s.state, remote: s.remote, told: s.told, waits: s.waits,
			data: s.data,
		})
	}
}

// client counts the sockets that a client of the target has left in TIME-WAIT.
func (t *tally) client(s socket) {
	if s.state == timeWait && t.aims(plain(s.remote)) {
		t.clients++
	}
}
