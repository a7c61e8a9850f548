package gateway

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// Host is what a gateway uses of its machine and its process, apart from the sockets of the data
// plane. A simulation provides a Host, together with a reactor.Kernel; a real gateway has none.
type Host struct {
	// Seed makes every random choice repeatable.
	Seed uint64
	// Random returns uniform 64-bit numbers for policies.
	Random func() uint64
	// Descriptors is how many the process may have open.
	Descriptors int
	// HeldBodies is how many bytes of request bodies a loop may hold; 0 for the usual bound.
	HeldBodies int
	// Probe is one health check of a target.
	Probe func(ctx context.Context, target upstream.Address, path string) error
	// Lookup asks for a host's addresses and how long they hold, for an upstream.
	Lookup func(ctx context.Context, upstream, host string) ([]netip.Addr, time.Duration, error)
	// ListenAdmin opens the admin address.
	ListenAdmin func(address string) (net.Listener, error)
	// Stdout is what an access log to standard output writes to.
	Stdout io.Writer
	// Sockets are the listening sockets that the process before this one handed over, by address.
	Sockets map[string][]int
	// Ready is called when the gateway serves, with the addresses whose sockets it took.
	Ready func(took []string)
	// Succeed starts a new process that gets copies of the sockets, by address. It returns when
	// that process is ready, with the addresses that it passed to Ready.
	Succeed func(ctx context.Context, sockets map[string][]int) (took []string, err error)
}

// simulateUpgrade is startSuccessor without a program's file.
func (g *Gateway) simulateUpgrade(ctx context.Context) (*successor, error) {
	sockets := map[string][]int{}
	for address, l := range g.listeners {
		sockets[address] = l.sockets()
	}
	took, err := g.options.Host.Succeed(ctx, sockets)
	if err != nil {
		return nil, err
	}
	s := &successor{took: map[string]bool{}}
	for _, address := range took {
		s.took[address] = true
	}
	return s, nil
}

// simulated reports whether the gateway runs in a simulation. Then it must not change what belongs
// to the whole process: the number of processors, the garbage collector, limits, signals, and the
// watching of files.
func (g *Gateway) simulated() bool { return g.options.Host != nil }

// environment is what upstreams need from the gateway.
func (g *Gateway) environment(loops []*reactor.Loop) upstream.Env {
	e := upstream.Env{
		Loops: len(loops), Now: reactor.Clock, Log: g.log, Resolver: g.options.resolver,
		Post: func(i int, f func()) { loops[i].Post(f) },
	}
	if h := g.options.Host; h != nil {
		e.Seed, e.Probe, e.Lookup = h.Seed, h.Probe, h.Lookup
	}
	return e
}

// heldBodies is how many bytes of requests' bodies a loop may hold; 0 for the usual bound.
func (h *Host) heldBodies() int {
	if h != nil {
		return h.HeldBodies
	}
	return 0
}

// seed is a random number, or the Host's Seed.
func (h *Host) seed() uint64 {
	if h != nil {
		return h.Seed
	}
	return rand.Uint64()
}

// random is the source of random numbers for policies; nil for their own.
func (g *Gateway) random() func() uint64 {
	if g.simulated() {
		return g.options.Host.Random
	}
	return nil
}
