package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/replay"
	"plimsoll/internal/lab/text"
)

// An error may quote a log, a run directory or a target's answer.
func TestAnErrorCannotMoveTheTerminalsCursor(t *testing.T) {
	var b bytes.Buffer
	c := &console{err: &b}
	c.fail(errors.New("there is \x1b]0;title\x07\x1b[2J\r\u009b31m where { should be\nand more"))
	if strings.ContainsAny(b.String(), "\x1b\x07\r\u009b") || strings.Count(b.String(), "\n") != 1 ||
		!strings.Contains(b.String(), "should be; and more") {
		t.Errorf("printed: %q", b.String())
	}
}

// A file's name may be anybody's too.
func TestALogsNameCannotMoveTheTerminalsCursor(t *testing.T) {
	var b bytes.Buffer
	k := &replayCommand{Log: "access\x1b[2J.log", Target: "http://127.0.0.1:8080"}
	if err := k.print(&console{out: &b}, 1, &replay.Stats{}, &text.Kept{}, &measure.Totals{}, ""); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "access·[2J.log at http://127.0.0.1:8080, over ") {
		t.Errorf("printed: %q", b.String())
	}
}
