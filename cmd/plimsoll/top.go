package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/top"
)

type topCommand struct {
	Admin    string        `default:"127.0.0.1:9900" placeholder:"HOST:PORT" help:"The gateway's admin address (${default})."`
	Token    string        `env:"PLIMSOLL_ADMIN_TOKEN" placeholder:"TOKEN" help:"${token}"`
	Interval time.Duration `default:"1s" placeholder:"TIME" help:"${interval}"`
	Once     bool          `help:"Print one snapshot and exit."`
	JSON     bool          `help:"With --once, print it as JSON."`
}

// Help is shown by plimsoll top --help.
func (topCommand) Help() string {
	return `Shows what a running gateway is doing: rate, percentiles, concurrency, headroom,
breakers and limits of each upstream and route, over the last interval. It queries the gateway's
admin API and changes nothing.

Keys: q quits, s sorts, p pauses, the arrows scroll, ? explains the columns.

Exit codes: 0, it was shown; 1, the command line is wrong; 2, the admin API cannot be reached,
refuses the token, or does not belong to a gateway; 3, --once was stopped before it was done.

Examples:

    plimsoll top
    plimsoll top --admin 10.0.0.7:9900 --interval 5s
    plimsoll top --once
    plimsoll top --once --json | jq '.upstreams[] | {name, in_flight, headroom_share}'`
}

// Run shows the gateway.
func (k *topCommand) Run(ctx context.Context, c *console) error {
	out, isFile := c.out.(*os.File)
	terminal := isFile && isTerminal(out)
	switch {
	case k.Interval < top.ShortestInterval || k.Interval > top.LongestInterval:
		return withExit{exitUsage, fmt.Errorf("--interval %s: it must be %s to %s",
			k.Interval, top.ShortestInterval, top.LongestInterval)}
	case k.JSON && !k.Once:
		return withExit{exitUsage, errors.New("--json needs --once: give both")}
	case !k.Once && !terminal:
		return withExit{exitUsage, errors.New("the output is not a terminal: give --once, " +
			"or --once --json for a program")}
	}
	client, err := top.NewClient(k.Admin, k.Token)
	if err != nil {
		return withExit{exitUsage, err}
	}
	defer client.Close()
	watcher := top.NewWatcher(client, k.Interval)
	if !k.Once {
		return top.Run(ctx, watcher, top.Options{In: os.Stdin, Out: out, Colour: colourful(out)})
	}
	figures, err := watcher.Next(ctx)
	if errors.Is(err, context.Canceled) {
		return withExit{exitUnexpected, errors.New("it was stopped before it was done")}
	}
	if err != nil {
		return err
	}
	if k.JSON {
		return c.json(top.NewDocument(figures))
	}
	columns := usualColumns
	if terminal {
		columns = width(out)
	}
	return c.print([]byte(top.Text(figures, columns, colourful(c.out))))
}

// isTerminal says that a file can be drawn on. /dev/null, which is a device too, has no size.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil && os.Getenv("TERM") != "dumb"
}
