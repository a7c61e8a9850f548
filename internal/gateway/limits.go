package gateway

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"plimsoll/internal/config"
)

// descriptorLimit is how many descriptors the process may open, and how many of them clients may
// use.
type descriptorLimit struct{ allowed, clients int }

// Descriptors kept back from clients: upstream connections, listeners, health checks. An eighth, and never
// fewer than minReserve. Files that stay open come out of the clients' share (clientsBeside).
const (
	reserveShare   = 8
	minReserve     = 64
	minDescriptors = 256
)

// descriptors says how many descriptors the process may open.
func descriptors(h *Host) (descriptorLimit, error) {
	if h != nil {
		return limitOf(h.Descriptors), nil
	}
	return raiseDescriptorLimit()
}

// raiseDescriptorLimit raises the soft limit to the hard one and returns the result.
func raiseDescriptorLimit() (descriptorLimit, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return descriptorLimit{}, fmt.Errorf("read the limit of descriptors: %w", err)
	}
	if r.Max < minDescriptors {
		return descriptorLimit{}, fmt.Errorf("the hard limit of descriptors is %d, which is too "+
			"low for a gateway: raise it to %d or more (ulimit -Hn, LimitNOFILE= of systemd)",
			r.Max, minDescriptors)
	}
	if r.Cur < r.Max {
		r.Cur = r.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
			return descriptorLimit{}, fmt.Errorf("raise the limit of descriptors to %d: %w", r.Max, err)
		}
	}
	return limitOf(int(min(r.Cur, 1<<30))), nil
}

func limitOf(allowed int) descriptorLimit {
	return descriptorLimit{allowed: allowed, clients: allowed - max(minReserve, allowed/reserveShare)}
}

// clientsBeside is how many descriptors clients may use if files files may stay open. Clients keep
// at least half of their share; enough reports that this minimum was not needed.
func (d descriptorLimit) clientsBeside(files int) (clients int, enough bool) {
	least := d.clients / 2
	return max(d.clients-files, least), d.clients-files >= least
}

// boundClients sets how many descriptors clients may use under cfg.
func (g *Gateway) boundClients(cfg *config.Config) {
	files := 0
	for i := range cfg.Routes {
		if f := cfg.Routes[i].Files; f != nil {
			files += f.OpenFiles
		}
	}
	clients, enough := g.limit.clientsBeside(files)
	g.shared.MaxClients.Store(int64(clients))
	if !enough {
		g.log.Warn("files may take more descriptors than clients can spare, and opening them may fail: "+
			"lower open_files, or raise the limit of descriptors (LimitNOFILE= of systemd)",
			"open_files", files, "allowed", g.limit.allowed, "clients", clients)
	}
}

// usage is how many descriptors are open and how many may be.
func (d *descriptorLimit) usage() (used, allowed uint64) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, uint64(d.allowed)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, uint64(d.allowed)
	}
	return uint64(len(names) - 1), uint64(d.allowed)
}

// ErrIncomplete says that a configuration is active although not all of it works.
var ErrIncomplete = errors.New("the configuration is active, but a listener does not accept on every loop")

var errNotServing = errors.New("the gateway is ending; it takes no new configuration")
