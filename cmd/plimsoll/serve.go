package main

import (
	"context"
	"log/slog"
)

type serveCommand struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"The configuration, a YAML file."`
	Watch  bool   `help:"Reload when the configuration's file changes."`
	JSON   bool   `help:"Log lines as JSON."`

	gateway gatewayRunner
}

// Help is shown by plimsoll serve --help.
func (serveCommand) Help() string {
	return `Runs the gateway until SIGTERM or SIGINT; then it stops accepting, finishes the requests
under way within drain.timeout, and ends. SIGHUP reloads the configuration: if that is invalid, its
errors are logged and the old one stays active. SIGUSR2 hands the listening sockets to a new process
of the same binary file, and drains.

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
