package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"plimsoll/internal/config"
)

// AdminAddress is one opened admin address, with what its access checks must know. Reloads update
// the token. If the address changes, it gets a new AdminAddress, so that no socket is ever served
// under the rules of another address.
type AdminAddress struct {
	address string
	bound   net.Addr
	token   atomic.Pointer[string]
}

// Address is the address as configured.
func (a *AdminAddress) Address() string { return a.address }

// Bound is the address with the port that the kernel has chosen for port 0.
func (a *AdminAddress) Bound() string { return a.bound.String() }

// Token is the token that callers must send; empty for none, which the config allows only on
// loopback.
func (a *AdminAddress) Token() string { return *a.token.Load() }

// Bounds on the requests of the admin address. adminListener has those on its connections.
const (
	adminHeadTime   = 2 * time.Second
	adminReadTime   = 30 * time.Second
	adminIdleTime   = time.Minute
	adminWriteTime  = 6 * time.Minute // extended by the length of profiles, bounded by the handler
	adminHeadBytes  = 64 << 10
	adminCloseTime  = time.Second
	adminRetireTime = 30 * time.Second
)

// adminServer is the admin address and its handler, which a reload may add or remove.
type adminServer struct {
	address  *AdminAddress
	listener net.Listener
	server   *http.Server
}

// openAdmin makes c the admin address; nil means none. An address that has not changed stays open.
func (g *Gateway) openAdmin(c *config.Admin) error {
	a := &g.admin
	if c == nil {
		a.retire()
		return nil
	}
	if a.address != nil && a.address.address == c.Address {
		a.address.token.Store(&c.Token)
		return nil
	}
	listener, err := g.inherited.admin(c.Address)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	a.retire()
	address := &AdminAddress{address: c.Address, bound: listener.Addr()}
	address.token.Store(&c.Token)
	a.address, a.listener = address, listener
	a.server = &http.Server{
		Handler:           g.adminHandler(address),
		ReadHeaderTimeout: cmp.Or(g.options.adminHeadTime, adminHeadTime), ReadTimeout: adminReadTime,
		WriteTimeout: adminWriteTime, IdleTimeout: adminIdleTime, MaxHeaderBytes: adminHeadBytes,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn), DisableGeneralOptionsHandler: true,
	}
	connections := newAdminListener(listener, &g.adminClosed)
	connections.attach(a.server)
	g.log.Info("admin address open", "address", address.Bound(), "token", c.Token != "")
	go a.server.Serve(connections)
	return nil
}

func (g *Gateway) adminHandler(address *AdminAddress) http.Handler {
	if g.options.Admin == nil {
		return http.NotFoundHandler()
	}
	return g.options.Admin(g, address)
}

// retire stops accepting and lets requests under way finish by themselves. The request that caused
// the reload may be among them.
func (a *adminServer) retire() {
	if a.server == nil {
		return
	}
	a.listener.Close()
	go shutDown(a.server, adminRetireTime)
	*a = adminServer{}
}

// close ends the server and its requests.
func (a *adminServer) close() {
	if a.server != nil {
		shutDown(a.server, adminCloseTime)
	}
	*a = adminServer{}
}

func shutDown(s *http.Server, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		s.Close()
	}
}
