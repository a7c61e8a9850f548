package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/profiler"
	"plimsoll/internal/lab/report"
	"plimsoll/internal/lab/stacks"
	"plimsoll/internal/lab/text"

	pprof "github.com/google/pprof/profile"
)

type profileCommand struct {
	File    string  `arg:"" help:"A CPU profile from py-spy, perf script, Node.js or others. - is standard input."`
	Before  string  `placeholder:"FILE" help:"Compare with this earlier profile, in any of these formats."`
	Output  string  `short:"o" placeholder:"FILE" help:"Write the profile to this file, in the pprof format."`
	Flame   string  `placeholder:"FILE" help:"Write the flame graph to this HTML file."`
	Hertz   float64 `placeholder:"N" help:"The samples per second, if the file does not say so (100; JDK: 50)."`
	Seconds float64 `placeholder:"N" help:"How many seconds the profile covers, if the file does not say so."`
	Top     int     `default:"15" placeholder:"N" help:"The number of functions to list (${default})."`
	JSON    bool    `help:"Print the summary as JSON."`
}

// Help is shown by plimsoll profile --help.
func (profileCommand) Help() string {
	return `Reads a CPU profile of a program in any language, and says where its time goes, by class
and by function with its file and line. With --before, it also says what has changed. It recognizes
these formats by their content:

    folded stacks      py-spy record -f raw, rbspy record -f collapsed, async-profiler -o collapsed
    perf script        the output of perf script, for a recording made with perf record -g
    speedscope         py-spy record -f speedscope, dotnet-trace, and others
    .cpuprofile        node --cpu-prof, and the developer tools of browsers
    .jfr               a flight recording (read with the JDK's jfr tool), or the output of jfr print --json
    pprof              from any language

To take profiles at the load line, see survey --profile-command, --perf and --inspect.

Exit codes: 0, the profile was read; 1, it is not a CPU profile, is damaged or exceeds a limit; 2, a
file cannot be read or written.

Examples:

    py-spy record -d 10 -p $(pidof -s gunicorn) -f raw -o out.folded && plimsoll profile out.folded
    plimsoll profile out.folded --json | jq -r '.profile.functions[].function'
    plimsoll profile after.cpuprofile --before before.cpuprofile --flame change.html
    perf record -F 99 -g -p $(pidof -s nginx) -- sleep 10 && perf script | plimsoll profile -
    plimsoll profile app.jfr -o app.pb.gz && go tool pprof -http : app.pb.gz`
}

// Run reads the profiles and says what is in them.
func (k *profileCommand) Run(ctx context.Context, c *console) error {
	if k.Top < 1 || k.Seconds < 0 {
		return withExit{exitUsage, errors.New("--top and --seconds must be above 0")}
	}
	if !stacks.ValidHertz(k.Hertz) {
		return withExit{exitUsage, fmt.Errorf("--hertz must be 1 to %v", stacks.MostHertz)}
	}
	for flag, file := range map[string]string{"--output": k.Output, "--flame": k.Flame} {
		if err := hasFolder(flag, file); err != nil {
			return withExit{exitUsage, err}
		}
	}
	p, raw, from, err := k.read(ctx, k.File)
	if err != nil {
		return err
	}
	var before *profile.Profile
	if k.Before != "" {
		if before, _, _, err = k.read(ctx, k.Before); err != nil {
			return err
		}
	}
	if k.Output != "" {
		if err := writeFile(k.Output, raw); err != nil {
			return err
		}
	}
	if k.Flame != "" {
		if err := k.flames(p, before); err != nil {
			return err
		}
	}
	where := profile.Summarize(p, before, profile.CPU, diagnose.Classes, k.Top)
	if k.JSON {
		d := document.NewProfile(k.File, string(from), k.Before, where)
		d.Pprof, d.Flame = k.Output, k.Flame
		return c.json(d)
	}
	said := fmt.Sprintf("%s: %s\n\n%s", format.Clean(k.File), from, text.Profile(where))
	if k.Output != "" {
		said += "\npprof   " + k.Output + "\n"
	}
	if k.Flame != "" {
		said += "\nflame   " + k.Flame + "\n"
	}
	return c.print([]byte(said))
}

// read is a file's profile as the lab reads it, and in pprof's format.
func (k *profileCommand) read(
	ctx context.Context, file string,
) (p *profile.Profile, raw []byte, from stacks.Format, err error) {
	data, err := input(ctx, func() ([]byte, error) { return content(file) })
	if err != nil {
		return nil, nil, "", err
	}
	o := stacks.Options{Hertz: k.Hertz, Seconds: k.Seconds}
	made, from, err := stacks.Read(data, o)
	if errors.Is(err, stacks.ErrRecording) && file != "-" {
		from = "a flight recording"
		made, err = profiler.Recording(ctx, file, o)
	}
	if err == nil {
		p, raw, err = packed(made)
	}
	if err != nil {
		err = withExit{exitUsage, fmt.Errorf("%s: %w", file, err)}
	}
	return p, raw, from, err
}

// packed is a profile in pprof's format, and as it is read again.
func packed(made *pprof.Profile) (*profile.Profile, []byte, error) {
	var out bytes.Buffer
	if err := made.Write(&out); err != nil {
		return nil, nil, err
	}
	p, err := profile.Parse(out.Bytes())
	return p, out.Bytes(), err
}

// content reads a file, "-" being the standard input, up to a byte more than a profile may have.
func content(file string) ([]byte, error) {
	from := os.Stdin
	if file != "-" {
		// A pipe is waited for, as it is what shells make of <(perf script).
		f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", file, disk.Cause(err))
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, stacks.Most+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", file, disk.Cause(err))
	}
	return data, nil
}

// flames writes the page with the flame graphs.
func (k *profileCommand) flames(p, before *profile.Profile) error {
	all := []diagnose.Flame{{
		Title: "Processor time", Root: p.Tree(profile.CPU), Unit: p.Unit(profile.CPU),
	}}
	if before != nil {
		all = append(all, diagnose.Flame{
			Title:      "Processor time, before and after",
			Root:       profile.Difference(before, p, profile.CPU),
			Difference: true,
			Unit:       p.Unit(profile.CPU),
		})
	}
	var page bytes.Buffer
	if err := report.WriteFlames(&page, filepath.Base(k.File), all); err != nil {
		return err
	}
	return writeFile(k.Flame, page.Bytes())
}
