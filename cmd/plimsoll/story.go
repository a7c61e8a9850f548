package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"plimsoll/internal/demo"
	"plimsoll/internal/lab/format"
)

// demoObjectives is what the demo's survey holds the shop to.
const demoObjectives = "p99<50ms,errors<0.1%"

// story is the demo as a whole: a gateway in front of a shop is shown at work, its load line is
// found, and three times as much is offered. Each part is a command that anybody can type, and the
// gateway is a process of its own: what is surveyed must not share its memory, its scheduler and
// its processor time with the generator.
//
// While it is surveyed, no limit at the gateway hides that the shop waits for its database. For the
// overload the gateway gets one by a reload and not by a new start: in eight tries on a busy machine
// one that had just been started served 92 to 100 % of the purchases in time, and one that had
// reloaded after some load 99 to 100 %.
func (d *demoCommand) story(ctx context.Context, c *console) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file, to start it again: %w", err)
	}
	fmt.Fprintf(c.out,
		"A shop with two instances and a small database, and plimsoll in front of it.\n\n"+
			"First a few hundred requests, good and bad:\n\n")
	if err := d.part(ctx, c, self,
		append([]string{"demo", "--once"}, d.flags()...)...); err != nil {
		return err
	}
	stop, err := d.serveAside(ctx, c, self)
	if err != nil {
		return err
	}
	err = d.surveyShop(ctx, c, self)
	return errors.Join(err, stop())
}

func (d *demoCommand) flags() []string {
	return []string{"--http", d.HTTP, "--https", d.HTTPS, "--admin", d.Admin}
}

// part runs this program with other arguments to its end, on the same terminal. That it failed has
// been printed by then.
func (d *demoCommand) part(ctx context.Context, c *console, self string, args ...string) error {
	run := exec.CommandContext(ctx, self, args...)
	run.Stdout, run.Stderr = c.out, c.err
	// A terminal's Ctrl-C goes to a whole group of processes. In one of its own the part hears of
	// it once, from here: a second SIGINT would end a survey before it has written its report.
	run.SysProcAttr = aside()
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGINT) }
	run.WaitDelay = 30 * time.Second
	err := run.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
		return withExit{ended.ExitCode(), silent{err}}
	}
	return err
}

// serveAside starts shop and gateway, and returns when they serve. stop ends them. Ctrl-C does not
// reach them: the survey comes to its end first.
func (d *demoCommand) serveAside(
	ctx context.Context, c *console, self string,
) (stop func() error, err error) {
	serve := exec.Command(self, append([]string{"demo", "--stay"}, d.flags()...)...)
	serve.Stderr = c.err
	serve.SysProcAttr = aside()
	if err := serve.Start(); err != nil {
		return nil, fmt.Errorf("start the shop and the gateway: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	stop = func() error {
		// It fails only when the process has ended already, and then ended says how.
		_ = serve.Process.Signal(syscall.SIGTERM)
		return <-ended
	}
	ready, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		if ask(ready, http.MethodGet, "http://"+d.HTTP+"/health", nil) == nil {
			return stop, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("the shop and the gateway ended before they served: %w", err)
		case <-ready.Done():
			return nil, errors.Join(errors.New("the shop and the gateway did not serve within 10s"),
				stop())
		case <-pause.C:
		}
	}
}

// ask sends a request that is to be answered with 200, and reads the answer's JSON into a value;
// nil for none.
func ask(ctx context.Context, method, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: the answer is %s", method, url, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// surveyShop finds the load line of the shop behind the gateway, has the gateway protect the shop,
// and offers more.
func (d *demoCommand) surveyShop(ctx context.Context, c *console, self string) error {
	if err := os.MkdirAll(runsFolder, 0o755); err != nil {
		return fmt.Errorf("make a folder for the survey: %w", err)
	}
	scenario := filepath.Join(runsFolder, "demo.yaml")
	if err := writeFile(scenario, demo.Scenario); err != nil {
		return err
	}
	run := filepath.Join(runsFolder, "demo-"+time.Now().Format(stampForm))
	args := []string{
		"survey", "http://" + d.HTTP, "--quick", "--slo", demoObjectives, "--scenario", scenario,
		"--out", run,
	}
	fmt.Fprintf(c.out, "\nNow the question: how much load can it carry? This finds out in a "+
		"minute and a half:\n\n  plimsoll %s\n\n", format.Command(args...))
	if err := d.part(ctx, c, self, args...); err != nil {
		return err
	}
	if err := d.protect(ctx, c); err != nil {
		return err
	}
	if err := d.overload(ctx, c, run, overloadLength); err != nil {
		return err
	}
	fmt.Fprintf(c.out,
		"\nOpen the report in a browser. To play with the shop yourself: plimsoll demo --stay\n")
	return nil
}
