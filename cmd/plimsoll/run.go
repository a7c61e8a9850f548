package main

import (
	"context"
	"log/slog"
	"net/http"

	"plimsoll/internal/admin"
	"plimsoll/internal/gateway"
)

// gatewayOptions are what the commands that run a gateway have to say about it.
type gatewayOptions struct {
	// ConfigPath is the configuration's file, read again at each reload.
	ConfigPath string
	// Watch reloads when that file changes.
	Watch  bool
	Logger *slog.Logger
	// Ready is called once, when every listener accepts. It may be nil.
	Ready func()
}

// gatewayRunner starts a gateway and returns when it has ended: nil after ctx ended and what was
// under way has drained, config.Errors when the configuration is wrong, any other error when it
// could not start or go on.
type gatewayRunner func(ctx context.Context, o gatewayOptions) error

// runGateway is the gatewayRunner of the real program.
func runGateway(ctx context.Context, o gatewayOptions) error {
	return gateway.Run(ctx, gateway.Options{
		ConfigPath: o.ConfigPath,
		Watch:      o.Watch,
		Logger:     o.Logger,
		Version:    buildVersion(),
		Ready:      o.Ready,
		Admin: func(g *gateway.Gateway, d *gateway.AdminAddress) http.Handler {
			return admin.New(g, d)
		},
	})
}
