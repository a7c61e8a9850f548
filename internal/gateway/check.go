package gateway

import (
	"errors"
	"io"
	"log/slog"

	"plimsoll/internal/config"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// Check says everything that is wrong with a configuration, as far as that can be said without listening or connecting anywhere.
func Check(path string) (*config.Config, error) {
	cfg, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	g := &Gateway{log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	g.env = upstream.Env{Loops: 1, Now: reactor.Clock, Post: func(int, func()) {}}
	if g.registry, err = telemetry.New(telemetry.Options{Loops: 1, Reasons: reasonLabels(), Ends: endLabels}); err != nil {
		return nil, err
	}
	var errs []error
	for _, l := range cfg.Listeners {
		_, _, err := g.compileListener(l, nil)
		errs = append(errs, err)
	}
	all, _, err := g.buildServices(cfg, nil)
	if errs = append(errs, err); err == nil {
		_, err = g.buildSnapshot(cfg, all)
		errs = append(errs, err)
	}
	for _, u := range all {
		u.Close()
	}
	return cfg, errors.Join(errs...)
}
