package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/text"
	"plimsoll/internal/lab/wrkcheck"
)

// verifyDuration is how long each run of a comparison lasts when no time was given.
const verifyDuration = 10 * time.Second

// verify runs load --verify.
func (k *loadCommand) verify(ctx context.Context, c *console, target load.Target) error {
	duration := cmp.Or(given(k.Duration), verifyDuration)
	loops := harness.Loops(k.Loops, k.Connections, harness.Local(&target))
	switch {
	case k.Connections%loops != 0:
		return withExit{
			exitUsage,
			fmt.Errorf("%s gives each thread the same number of connections: "+
				"with --loops %d give --connections as a multiple of it", k.Verify, loops),
		}
	case duration%time.Second != 0 || duration < time.Second:
		return withExit{
			exitUsage,
			fmt.Errorf("%s runs for whole seconds: give --duration in whole seconds", k.Verify),
		}
	case k.Verify == "h2load": // it has no timeout
	case k.Timeout > wrkcheck.MostCorrected*time.Microsecond || k.Timeout%time.Second != 0:
		return withExit{
			exitUsage,
			errors.New("wrk has a timeout of whole seconds, and the comparison takes up to 10: " +
				"choose a --timeout of 1s to 10s"),
		}
	}
	_, request, err := k.prepare(ctx, target)
	if err != nil {
		return err
	}
	release, err := harness.Reserve(k.Connections, loops)
	if err != nil {
		return err
	}
	defer release()
	p := c.progress()
	defer p.clear()
	report, err := wrkcheck.Run(ctx, wrkcheck.Options{
		Target:      target,
		Headers:     k.Header,
		Request:     request,
		Connections: k.Connections,
		Streams:     k.streams(),
		Loops:       loops,
		Duration:    duration,
		Timeout:     k.Timeout,
		Seed:        k.Seed,
		Tell: func(round, rounds int, who string) {
			p.show(fmt.Sprintf("round %d of %d: %s, %v", round, rounds, who, duration))
		},
	})
	p.clear()
	if errors.Is(err, context.Canceled) {
		return withExit{exitUnexpected, errors.New("the comparison was stopped before it was done")}
	}
	if err != nil {
		return err
	}
	if k.JSON {
		err = c.json(document.NewVerify(report))
	} else {
		err = c.print([]byte(fmt.Sprintf("%s: GET in a closed loop, %v each time, "+
			"over %s, with %s\n\n%s", target.URL, duration,
			k.over(k.Connections), many(loops, "loop"), text.Verify(report))))
	}
	if err == nil && !report.OK() {
		err = withExit{exitUnexpected, silent{errors.New("no agreement")}}
	}
	return err
}
