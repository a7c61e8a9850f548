package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"plimsoll/internal/lab/doctor"
	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/text"
)

type doctorCommand struct {
	PID  *int   `name:"pid" xor:"what" placeholder:"N" help:"Check this process too."`
	URL  string `name:"url" xor:"what" placeholder:"URL" help:"Request this URL three times, and check the process that listens there if it is on this machine."`
	JSON bool   `help:"Print the findings as JSON."`
}

// Help is shown by plimsoll doctor --help.
func (doctorCommand) Help() string {
	return `Checks the current settings of this machine and of one process: file descriptor limits,
connection queues, ports, buffers, connection tracking, swap, huge pages, cgroup limits, GOMAXPROCS,
NUMA, the clock, and how fast a core encrypts. It prints each value. If a value would limit a
service under load, it also prints a better one, the reason, and the exact command to set it. It
changes nothing. The encryption test keeps one core busy for about a second.

The kernel's network settings are those of the process's network namespace. If --url names another
machine, doctor reports what can be seen from here: TLS, the certificate and keep-alive.

Exit codes: 0, it ran, whatever it advises; 1, the command line is wrong; 2, there is no such
process, or nothing answers at the URL; 3, it was stopped.

Examples:

    plimsoll doctor
    plimsoll doctor --pid $(pidof shop)
    plimsoll doctor --url http://127.0.0.1:8080/
    plimsoll doctor --pid 4711 --json | jq '.findings[] | select(.verdict == "advise")'`
}

// Run looks, and says what it saw.
func (k *doctorCommand) Run(ctx context.Context, c *console) error {
	o := doctor.Options{URL: k.URL}
	if k.PID != nil {
		// 0 would be none, and the user who typed it wanted one.
		if o.PID = *k.PID; o.PID < 1 {
			return withExit{exitUsage, errors.New("--pid must be at least 1")}
		}
	}
	report, err := doctor.Examine(ctx, o)
	if errors.Is(err, context.Canceled) {
		return withExit{exitUnexpected, errors.New("it was stopped before it was done")}
	}
	if errors.Is(err, doctor.ErrURL) {
		return withExit{exitUsage, fmt.Errorf("--url: %w", err)}
	}
	if err != nil {
		return err
	}
	if k.JSON {
		return c.json(document.NewDoctor(report))
	}
	return c.print([]byte(checkUp(report, colourful(c.out))))
}

// colourful says whether a result may be coloured: it goes to a terminal, and nobody asked for
// plain text.
func colourful(out io.Writer) bool {
	f, is := out.(*os.File)
	return is && os.Getenv("NO_COLOR") == "" && isTerminal(f)
}

// checkUp is a report for a person: a table, and the advice below it.
func checkUp(r *doctor.Report, colour bool) string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %s, %d cores, %s\n",
		format.Clean(m.Host), format.Clean(m.OS+" "+m.Kernel), m.Cores,
		format.Bytes(float64(m.MemoryBytes)))
	if p := r.Process; p != nil {
		with := ""
		if p.Go != "" {
			with = ", built with " + p.Go
		}
		fmt.Fprintf(&b, "process %d (%s%s)\n", p.PID, format.Clean(p.Name), format.Clean(with))
	}
	table := text.Table{Left: []int{1, 2, 3}}
	advised := 0
	for _, f := range r.Findings {
		why := f.Why
		if f.Verdict == doctor.Advise {
			why = "→ " + f.Recommended
			advised++
		}
		// The verdict goes last into colour, as the codes would count as columns.
		table.Row(f.Name, string(f.Verdict), text.Clip(f.Value, valueColumns),
			text.Clip(why, whyColumns))
	}
	b.WriteString("\n" + painted(table.String(), colour))
	if advised > 0 {
		b.WriteString("\nAdvice:\n")
	}
	for _, f := range r.Findings {
		if f.Verdict != doctor.Advise {
			continue
		}
		fmt.Fprintf(&b, "\n  %s: %s, better %s\n    %s\n",
			f.Name, format.Clean(f.Value), format.Clean(f.Recommended), format.Clean(f.Why))
		switch remark, is := strings.CutPrefix(f.Command, "# "); {
		case is:
			fmt.Fprintf(&b, "    %s\n", format.Clean(remark))
		case f.Command != "":
			fmt.Fprintf(&b, "    $ %s\n", format.Clean(f.Command))
		}
	}
	if advised == 0 {
		b.WriteString("\nNo advice.\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", format.Clean(n))
	}
	return b.String()
}

const valueColumns, whyColumns = 48, 96

// painted colours the verdicts in a table.
func painted(table string, colour bool) string {
	if !colour {
		return table
	}
	return strings.NewReplacer(
		"   "+string(doctor.Good)+"  ", "   \x1b[32m"+string(doctor.Good)+"\x1b[0m  ",
		"   "+string(doctor.Advise)+"  ", "   \x1b[33m"+string(doctor.Advise)+"\x1b[0m  ",
		"   "+string(doctor.Unreadable)+"  ", "   \x1b[35m"+string(doctor.Unreadable)+"\x1b[0m  ",
	).Replace(table)
}
