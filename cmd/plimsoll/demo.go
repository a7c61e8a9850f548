package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"plimsoll/internal/demo"
)

// demoStock is how many pieces of each thing the demo's shop has: few, so that a person can sell
// one out.
const demoStock = 50

// The shop's load line: four requests at a time, each with the database for 2 ms on average at one
// instance and 3 ms at the other, are about 1,600 a second, which is little enough for any machine
// to offer twice as much.
const (
	demoConnections = 4
	demoService     = 2 * time.Millisecond
)

type demoCommand struct {
	Once  bool   `xor:"how" help:"Only send a few hundred requests, print the results, and stop."`
	Stay  bool   `xor:"how" help:"Only serve until Ctrl-C, and print what to try."`
	HTTP  string `name:"http" default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Listen here for http (${default})."`
	HTTPS string `name:"https" default:"127.0.0.1:8443" placeholder:"ADDRESS" help:"Listen here for https (${default})."`
	Admin string `default:"127.0.0.1:9900" placeholder:"ADDRESS" help:"Listen here for metrics and the admin API (${default})."`
	JSON  bool   `help:"Write the log as JSON."`

	gateway gatewayRunner
}

// Help is shown by plimsoll demo --help.
func (demoCommand) Help() string {
	return `Starts a flash-sale shop (two instances, one of them slower, and a database with few
connections) and the gateway in front of it, with a temporary certificate. First, valid and invalid
requests over http and https show how the gateway handles them. Then a survey finds the load line
(the highest rate that still meets the objectives) and writes a report to plimsoll-runs. Finally,
one more line of configuration (concurrency: adaptive) is added and the gateway reloads. The demo
then sends three times that rate, and says how much of each SLA class was served. It takes about two
minutes.

With --once it sends the requests, prints a table of the results, and stops. With --stay it prints
what to try and serves until Ctrl-C.

Exit codes: 0, it was stopped, or everything was as expected; 2, it could not start (a port is
taken); 3, some answers were not as expected, or no load line was found.

Examples:

    plimsoll demo
    plimsoll demo --once
    plimsoll demo --stay --http 127.0.0.1:9080 --https 127.0.0.1:9443 --admin 127.0.0.1:9980`
}

// Run tells the whole story, or only the part that was asked for.
func (d *demoCommand) Run(ctx context.Context, c *console) error {
	if err := portsFree([]listens{
		{"--http", d.HTTP},
		{"--https", d.HTTPS},
		{"--admin", d.Admin},
	}); err != nil {
		return err
	}
	if !d.Once && !d.Stay {
		return d.story(ctx, c)
	}
	return d.serve(ctx, c)
}

// serve starts the shop and the gateway, and stays until the context ends or, with --once, the
// visit is over.
func (d *demoCommand) serve(ctx context.Context, c *console) (err error) {
	stock := demo.NewStock(demoStock)
	stock.Connect(demoConnections)
	shop, err := demo.Open(stock,
		demo.Options{Name: "a", ServiceTime: demoService, Exponential: true, Seed: 1},
		demo.Options{
			Name:        "b",
			ServiceTime: demoService,
			Exponential: true,
			Seed:        2,
			SlowFactor:  1.5,
		})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	dir, err := os.MkdirTemp("", "plimsoll-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo's files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files, err := demo.WriteFiles(dir, demo.Addresses{
		HTTP:  d.HTTP,
		HTTPS: d.HTTPS,
		Admin: d.Admin,
		Shop:  [2]string(shop.Targets()),
	}, time.Now())
	if err != nil {
		return err
	}
	return d.behind(ctx, c, files)
}

// behind runs the gateway in front of the shop until the context ends or what is done with it is
// over, and returns when the gateway has ended.
func (d *demoCommand) behind(ctx context.Context, c *console, files demo.Files) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- d.gateway(ctx, gatewayOptions{
			ConfigPath: files.Config,
			Logger:     newLogger(c, d.JSON),
			Ready:      func() { close(ready) },
		})
	}()
	select {
	case err := <-ended:
		return err
	case <-ready:
	}
	if d.Once {
		err := d.visit(ctx, c, files)
		cancel()
		return errors.Join(err, <-ended)
	}
	d.invite(c, files)
	err := <-ended
	fmt.Fprintln(c.out, "stopped")
	return err
}

func (d *demoCommand) visit(ctx context.Context, c *console, files demo.Files) error {
	rows, err := demo.Visitor{
		HTTP:        d.HTTP,
		HTTPS:       d.HTTPS,
		Certificate: files.Certificate,
		Stock:       demoStock,
	}.Visit(ctx)
	if err != nil {
		return err
	}
	wrong, err := demo.WriteTable(c.out, rows)
	if err == nil && wrong > 0 {
		err = withExit{
			exitUnexpected,
			fmt.Errorf("%d of %d kinds of request were not answered as expected", wrong, len(rows)),
		}
	}
	return err
}

func (d *demoCommand) invite(c *console, files demo.Files) {
	fmt.Fprintf(c.out, `
A shop with two instances, one slower, and plimsoll in front of it:
  http    http://%[1]s
  https   https://%[2]s  (certificate: %[4]s)
  admin   http://%[3]s
  config  %[5]s

Try:
  curl -s http://%[1]s/api/v1/items
  curl -si http://%[1]s/api/v1/items/3
  curl -s -X POST --cacert %[4]s https://%[2]s/api/v1/items/3/buy
  curl -s http://%[3]s/metrics | grep plimsoll_
  sed -i 's/# %[6]s/%[6]s/' %[5]s && curl -s -X POST http://%[3]s/api/v1/reload

Ctrl-C stops it.
`, d.HTTP, d.HTTPS, d.Admin, files.CertificatePath, files.Config, demo.Adaptive)
}

type listens struct{ flag, address string }

// portsFree opens each address for a moment. The gateway's own listeners share their ports
// (SO_REUSEPORT), so that without this two demos of one user would take turns with each other's
// requests.
func portsFree(all []listens) error {
	for _, l := range all {
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			return fmt.Errorf("%w: stop what uses that address, or choose another one with %s",
				err, l.flag)
		}
		if err := listener.Close(); err != nil {
			return err
		}
	}
	return nil
}
