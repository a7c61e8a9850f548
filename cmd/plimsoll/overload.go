package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/demo"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// The demo's overload: so many times the load line, from visitors who wait a second. They come on
// connections of their own, as many as can be waiting at once and some to spare.
const (
	overloadTimes       = 3
	overloadLength      = 8 * time.Second
	overloadTimeout     = time.Second
	overloadConnections = 2000
)

// protect has the gateway limit how many requests the shop works on at once, as an operator would:
// in its configuration's file, and by a reload.
func (d *demoCommand) protect(ctx context.Context, c *console) error {
	fmt.Fprintf(c.out, "\nAnd when more comes than it can carry? One more line of configuration "+
		"protects the shop;\nthe gateway reloads:\n\n  %s\n", demo.Adaptive)
	api := "http://" + d.Admin + "/api/v1/"
	var active struct {
		File string `json:"file"`
	}
	if err := ask(ctx, http.MethodGet, api+"config", &active); err != nil {
		return fmt.Errorf("find the gateway's configuration: %w", err)
	}
	if err := demo.Protect(active.File); err != nil {
		return err
	}
	return ask(ctx, http.MethodPost, api+"reload", nil)
}

// overload offers more than the load line that a run found, and prints how much of each SLA class
// was served.
func (d *demoCommand) overload(ctx context.Context, c *console, run string, length time.Duration) error {
	found, err := record.Open(run)
	if err != nil {
		return fmt.Errorf("read the load line that was found: %w", err)
	}
	if found.Result == nil || !found.Result.Line.Found {
		return withExit{exitUnexpected, fmt.Errorf("%s has no load line to offer more than", run)}
	}
	mix := filepath.Join(runsFolder, "demo-overload.yaml")
	if err := writeFile(mix, demo.Overload); err != nil {
		return err
	}
	offered := &loadCommand{
		URL:         "http://" + d.HTTP,
		Connections: overloadConnections,
		Duration:    &length,
		Rate:        fmt.Sprintf("%.0f", overloadTimes*found.Result.Line.Interval.Estimate),
		Scenario:    mix,
		Timeout:     overloadTimeout,
		Seed:        1,
	}
	fmt.Fprintf(c.out, "\nThen this offers %d× the load line. Purchases are P0, the most important "+
		"SLA class:\n\n  plimsoll %s\n\n", overloadTimes,
		format.Command("load", offered.URL, "--scenario", mix,
			"--rate", offered.Rate, "-c", fmt.Sprint(offered.Connections),
			"-d", length.String(), "--timeout", offered.Timeout.String()))
	target, err := offered.resolve(ctx, offered.URL)
	if err != nil {
		return err
	}
	p, err := offered.plan(ctx, c, target)
	if err != nil {
		return err
	}
	totals, early, err := p.offer.run(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "offered %d× the load line (%s): %s\n", overloadTimes,
		format.Rate(p.asked.Mean()), servedByClass(totals))
	if why := totals.Generator.Invalid; why != "" {
		fmt.Fprintf(c.out, "(not to be relied on: %s)\n", why)
	}
	if early != "" {
		return exitOfLoad(totals, early)
	}
	return nil
}

// servedByClass says of each SLA class which share was served: answered as wanted, within what its
// class promises. Requests of the mix are named as their classes are.
func servedByClass(t *measure.Totals) string {
	promises := &config.Config{}
	var shares []string
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.Ended.Total() == 0 {
			shares = append(shares, r.Name+" none came")
			continue
		}
		late := r.Response.Over(promises.SLA(r.Name).Latency.Nanoseconds())
		good := float64(r.Ended[measure.OK]) - late
		share := format.Percent(good / float64(r.Ended.Total()))
		if i == 0 {
			share += " served"
		}
		shares = append(shares, r.Name+" "+share)
	}
	return strings.Join(shares, ", ")
}
