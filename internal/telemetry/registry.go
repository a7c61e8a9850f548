// Package telemetry counts what the data plane does, and reports it to Prometheus and to callers
// that ask for a Snapshot. It knows numbers, names and labels. It knows nothing of exchanges,
// sockets or configurations, and of loops only how many there are.
//
// Counting and reading are separate. Each loop counts into a Shard of its own, with plain
// additions. A reader asks each loop to copy what has changed into a buffer, in portions so small
// (some tens of microseconds) that the delay of requests is not visible. It adds up the loops'
// copies on its own goroutine.
package telemetry

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	// MaxNames is how many routes, and how many upstreams, have series of their own.
	MaxNames = 10_000
	// NoUpstream is the index of an exchange that used none.
	NoUpstream = -1
	// NoRoute is the index of exchanges that matched no route; its label is "none".
	NoRoute = 1

	// the index and, for routes, what all names beyond MaxNames share; its label is "other"
	other   = 0
	maxName = 256 // bytes of a label that came from a config
)

// Options are the shape of the counters. The label tables give the values of the small integers
// that loops count by; an empty label is an index that is not exported.
type Options struct {
	Loops             int      // number of shards, at least 1
	Version           string   // of the program
	Reasons           []string // of ExchangeStats.Reason, at most 64
	Ends              []string // of ExchangeStats.End, at most 8
	HandshakeFailures []string // of Counters.HandshakeFailures, at most 16
	// bytes of the buffers in each class of Counters.BuffersOut, at most 16
	BufferSizes []string

	// Called at each scrape from its goroutine; nil leaves the series out.
	// lines: taken by the file, dropped at a full ring, refused by the file
	AccessLog   func() (written, dropped, lost uint64)
	Descriptors func() (used, allowed uint64)

	Logger *slog.Logger // for errors of scrapes; nil for none
}

// Registry knows the series there are and the shards they are counted in. Its methods may be called
// from any goroutine.
type Registry struct {
	options  Options
	revision string
	shards   []*Shard

	mu        sync.Mutex // guards what follows
	routes    names
	classes   map[int]classSet // of routes, by index
	upstreams names
	extra     []extraGroup
	added     map[string]bool // names of series in extra
	config    configState

	collecting queue // held during a collection; guards what follows
	copies     []*loopCopy
	scrapes    uint64
	missed     uint64
}

// queue is a lock that is waited for as for a channel. A collection waits for loops while it holds
// it, and time passes meanwhile; in the simulation none would while a goroutine waits for a mutex.
type queue chan struct{}

func (q queue) Lock()   { q <- struct{}{} }
func (q queue) Unlock() { <-q }

// configState is what is told of configs.
type configState struct {
	version           string
	loaded            time.Time
	reloads, failures uint64
}

// classSet has a bit for each SLA class.
type classSet uint16

func (s classSet) has(class int) bool { return s>>class&1 != 0 }

// names gives every name a small index that it keeps for ever, so that counters go on over reloads.
type names struct {
	index  map[string]int
	list   []string
	shared uint64 // names turned away
}

func newNames(reserved ...string) names {
	n := names{index: make(map[string]int)}
	for _, name := range reserved {
		n.add(name)
	}
	return n
}

func (n *names) add(name string) int {
	name = strings.ToValidUTF8(name[:min(len(name), maxName)], "\ufffd")
	if i, ok := n.index[name]; ok {
		return i
	}
	if len(n.list) >= MaxNames {
		n.shared++
		return other
	}
	n.index[name] = len(n.list)
	n.list = append(n.list, name)
	return len(n.list) - 1
}

// New makes a registry and its shards.
func New(o Options) (*Registry, error) {
	if o.Loops < 1 {
		return nil, fmt.Errorf("telemetry: %d loops: at least one must be counted", o.Loops)
	}
	for _, table := range []struct {
		name   string
		labels []string
		most   int
	}{
		{"reasons", o.Reasons, maxReasons},
		{"ends", o.Ends, maxEnds},
		{"handshake failures", o.HandshakeFailures, maxFailures},
		{"buffer sizes", o.BufferSizes, maxBufferSizes},
	} {
		if len(table.labels) > table.most {
			return nil, fmt.Errorf("telemetry: %d %s, at most %d fit: "+
				"raise the constant in shard.go", len(table.labels), table.name, table.most)
		}
	}
	r := &Registry{
		options:    o,
		revision:   revision(),
		routes:     newNames("other", "none"),
		classes:    map[int]classSet{},
		added:      map[string]bool{},
		upstreams:  newNames("other"),
		collecting: make(queue, 1),
	}
	for range o.Loops {
		s := new(Shard)
		s.Grow(r.Sizes())
		r.shards = append(r.shards, s)
		r.copies = append(r.copies, new(loopCopy))
	}
	return r, nil
}

// revision is the commit that the program was built from, as far as the build noted it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// Shard is the shard of a loop, counted from 0. It belongs to that loop from the loop's start on.
func (r *Registry) Shard(loop int) *Shard { return r.shards[loop] }

// Route is the index of a route's series. The same name has the same index for ever. Of more than
// MaxNames names the later ones share one series, "other". Names are cut at 256 bytes.
func (r *Registry) Route(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes.add(name)
}

// RouteLabel is the label of a route's series, by its index. own is false for the series that all
// names beyond MaxNames share.
func (r *Registry) RouteLabel(index int) (label string, own bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes.list[index], index != other
}

// RouteClass says that a route is in an SLA class from now on. Its counters for that class are
// shown before they count anything, so that their first count is seen as an increase.
func (r *Registry) RouteClass(route int, class uint8) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.classes[route] |= 1 << (class % Classes)
}

// Upstream is the index of an upstream's series, as Route is of a route's.
func (r *Registry) Upstream(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.upstreams.add(name)
}

// Sizes are the numbers of routes' and upstreams' indices given out so far, for Shard.Grow.
func (r *Registry) Sizes() (routes, upstreams int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.routes.list), len(r.upstreams.list)
}

// ConfigLoaded says that a config is in force: at the start and after every reload that succeeded.
// Version is what plimsoll_config_info shows, such as a short hash.
func (r *Registry) ConfigLoaded(version string, at time.Time, reload bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config.version, r.config.loaded = strings.ToValidUTF8(version, "\ufffd"), at
	if reload {
		r.config.reloads++
	}
}

// ReloadFailed counts a reload whose config was refused.
func (r *Registry) ReloadFailed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config.failures++
}
