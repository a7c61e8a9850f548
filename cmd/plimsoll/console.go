package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"plimsoll/internal/config"
	"plimsoll/internal/lab/format"
)

// Exit codes, as the help says them.
const (
	exitUsage      = 1
	exitStart      = 2
	exitUnexpected = 3
)

// withExit is an error that says which exit code it means.
type withExit struct {
	code int
	error
}

func (e withExit) Unwrap() error { return e.error }

// silent is an error whose text has been printed already.
type silent struct{ error }

// console is where a command writes: results to out, everything else to err.
type console struct {
	out, err io.Writer
	// colour says whether err may be coloured: it is a terminal, and nobody asked for plain text.
	colour bool
	// columns is the width, as it is now, of the terminal that err is; it is nil where err is none
	// that can be drawn on.
	columns func() int
}

func newConsole(out, err *os.File) *console {
	info, statErr := err.Stat()
	terminal := statErr == nil && info.Mode()&os.ModeCharDevice != 0
	able := terminal && os.Getenv("TERM") != "dumb"
	c := &console{out: out, err: err, colour: able && os.Getenv("NO_COLOR") == ""}
	if able {
		c.columns = func() int { return width(err) }
	}
	return c
}

// fail prints an error, one line for each thing that is wrong, and returns the exit code it means;
// 0 when there is none. An error may quote a file or a target that wants to move the terminal's
// cursor.
func (c *console) fail(err error) int {
	if err == nil {
		return 0
	}
	code := exitStart
	if wrong, ok := errors.AsType[config.Errors](err); ok {
		code = exitUsage
		// Each line begins with file:line:column, as editors expect, so nothing is put before it.
		for _, e := range wrong {
			fmt.Fprintln(c.err, format.Clean(e.Error()))
		}
		return code
	}
	if coded, ok := errors.AsType[withExit](err); ok {
		code = coded.code
	}
	if _, printed := errors.AsType[silent](err); !printed {
		fmt.Fprintln(c.err, c.red("plimsoll:"),
			format.Clean(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return code
}

func (c *console) red(words string) string {
	if !c.colour {
		return words
	}
	return "\x1b[31m" + words + "\x1b[0m"
}

// print writes a result as it is.
func (c *console) print(words []byte) error {
	_, err := c.out.Write(words)
	return err
}

// json prints a value for a machine.
func (c *console) json(v any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // an SLO is full of <
	return e.Encode(v)
}
