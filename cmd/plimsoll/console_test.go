package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
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
