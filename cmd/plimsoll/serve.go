package main

import (
	"context"
	"log/slog"
)

type serveCommand struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"The configuration file (YAML)."`
	Watch  bool   `help:"Reload when the configuration file changes."`
	JSON   bool   `help:"Write the log as JSON."`

	gateway gatewayRunner
}

// Help is shown by plimsoll serve --help.
func (serveCommand) Help() string {
	return `Runs the gateway until SIGTERM or SIGINT. Then the gateway stops accepting connections,
finishes the requests in flight within drain.timeout, and exits. SIGHUP reloads the configuration.
If the new one is invalid, its errors are logged and the old one stays active. SIGUSR2 starts the
binary file again, hands the listening sockets to the new process, and drains the old one.

Exit codes: 0, it was stopped; 1, the command line or the configuration is invalid; 2, it could not
start (a port is taken, a certificate cannot be read), or it failed because of a bug, which its last
lines describe.

Examples:

    plimsoll serve --config plimsoll.yaml
    plimsoll serve -c /etc/plimsoll/plimsoll.yaml --json
    kill -HUP $(pidof plimsoll)         # reload the configuration`
}

// Run serves until the context ends.
func (s *serveCommand) Run(ctx context.Context, c *console) error {
	return s.gateway(ctx, gatewayOptions{
		ConfigPath: s.Config,
		Watch:      s.Watch,
		Logger:     newLogger(c, s.JSON),
	})
}

// newLogger logs to standard error: standard output may be the access log's.
func newLogger(c *console, asJSON bool) *slog.Logger {
	if asJSON {
		return slog.New(slog.NewJSONHandler(c.err, nil))
	}
	return slog.New(slog.NewTextHandler(c.err, nil))
}
