package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// exits is the script command "exits CODE PROGRAM ARG...", which runs a program, expects that exit
// code and leaves what was printed in the files out and err. CODE may be several, as 0|3: an open
// loop on a busy machine may rightly be INVALID.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(ts.ReadFile("stdout")), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), []byte(ts.ReadFile("stderr")), 0o600))
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if !slices.Contains(strings.Split(args[0], "|"), strconv.Itoa(code)) {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}
