package gateway

import (
	"io"
	"log/slog"

	"plimsoll/internal/config"
	"plimsoll/internal/policy/compress"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// Check reports everything that is wrong with a configuration and can be found without listening or
// connecting anywhere. Its error is config.Errors.
func Check(path string) (*config.Config, error) {
	cfg, err := loadConfig(path)
	if err != nil {
		return nil, err
	}
	g := &Gateway{kinds: policies, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	g.encoders = compress.NewEncoders(1)
	g.env = upstream.Env{Loops: 1, Now: reactor.Clock, Post: func(int, func()) {}}
	if g.registry, err = telemetry.New(telemetry.Options{Loops: 1, Reasons: reasonLabels(),
		Ends: endLabels}); err != nil {
		return nil, err
	}
	c, errs := g.compile(cfg)
	for _, u := range c.upstreams {
		u.Close()
	}
	closePolicies(c.policies)
	c.newStores.release(nil)
	if errs != nil {
		return nil, errs
	}
	return cfg, nil
}
