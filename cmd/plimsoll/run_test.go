package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"plimsoll/internal/config"
)

func failing(err error) gatewayRunner {
	return func(context.Context, gatewayOptions) error { return err }
}

// untilToldTo is a gateway that is ready at once and runs until its context ends, which it brings
// about itself by signal.
func untilToldTo(signal syscall.Signal) gatewayRunner {
	return func(ctx context.Context, o gatewayOptions) error {
		if o.Ready != nil {
			o.Ready()
		}
		if err := syscall.Kill(os.Getpid(), signal); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
}

func TestServeGivesTheGatewayItsConfiguration(t *testing.T) {
	var got string
	code, _, errs := command(func(_ context.Context, o gatewayOptions) error {
		got = o.ConfigPath
		o.Logger.Info("hello")
		return nil
	}, "serve", "-c", "some.yaml", "--json")
	if code != 0 || got != "some.yaml" || !strings.Contains(errs, `"msg":"hello"`) {
		t.Errorf("exit %d, configuration %q, log %q", code, got, errs)
	}
}

func TestServeEndsWithoutAnErrorWhenItIsToldTo(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if code, _, errs := command(untilToldTo(signal), "serve", "-c", "some.yaml"); code != 0 || errs != "" {
			t.Errorf("%v: exit %d, %q; want 0 and nothing", signal, code, errs)
		}
	}
}

func TestTheGatewaysErrorsBecomeExitCodes(t *testing.T) {
	wrong := config.Errors{{File: "a.yaml", Line: 1, Column: 2, Problem: "one"},
		{File: "a.yaml", Line: 3, Column: 4, Problem: "two"}}
	if code, _, errs := command(failing(wrong), "serve", "-c", "a.yaml"); code != 1 ||
		errs != "a.yaml:1:2: one\na.yaml:3:4: two\n" {
		t.Errorf("a wrong configuration: exit %d, %q", code, errs)
	}
	taken := errors.New("127.0.0.1:80 is taken")
	if code, _, errs := command(failing(taken), "serve", "-c", "a.yaml"); code != 2 ||
		errs != "plimsoll: 127.0.0.1:80 is taken\n" {
		t.Errorf("a port that is taken: exit %d, %q", code, errs)
	}
}

// reader presses Ctrl-C once it has read a text, and not before: a gateway that is told to end as
// soon as it is ready may be gone before the demo has seen that it was.
type reader struct {
	bytes.Buffer
	until   string
	pressed bool
}

func (r *reader) Write(b []byte) (int, error) {
	n, _ := r.Buffer.Write(b)
	if r.pressed || !bytes.Contains(r.Bytes(), []byte(r.until)) {
		return n, nil
	}
	r.pressed = true
	return n, syscall.Kill(os.Getpid(), syscall.SIGINT)
}

func TestTheDemoInvitesAndStopsCleanly(t *testing.T) {
	var configuration string
	gateway := func(ctx context.Context, o gatewayOptions) error {
		configuration = o.ConfigPath
		if _, err := config.Load(o.ConfigPath); err != nil {
			return err
		}
		o.Ready()
		<-ctx.Done()
		return nil
	}
	ports := freePorts(t)
	r, errs := &reader{until: "Ctrl-C stops it.\n"}, &bytes.Buffer{}
	code := run(append([]string{"demo", "--stay"}, ports...), &console{out: r, err: errs}, gateway)
	if code != 0 || errs.Len() > 0 {
		t.Errorf("exit %d, %q; want 0 and nothing", code, errs)
	}
	out := r.String()
	if !strings.Contains(out, "curl -s http://"+ports[1]+"/api/v1/items\n") ||
		!strings.HasSuffix(out, "stopped\n") {
		t.Errorf("printed:\n%s", out)
	}
	if _, err := os.Stat(configuration); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the demo's files are still there: %v", err)
	}
}

func TestTheDemoOnceFailsWhenAnswersAreNotAsExpected(t *testing.T) {
	deaf := func(ctx context.Context, o gatewayOptions) error {
		o.Ready()
		<-ctx.Done()
		return nil
	}
	code, out, errs := command(deaf, append([]string{"demo", "--once"}, freePorts(t)...)...)
	if code != 3 || !strings.Contains(errs, "were not answered as expected") || !strings.Contains(out, "WRONG") {
		t.Errorf("exit %d, %q; want 3\n%s", code, errs, out)
	}
}

func TestTheDemoSaysWhyTheGatewayDidNotStart(t *testing.T) {
	code, _, errs := command(failing(errors.New("no room on deck")),
		append([]string{"demo", "--stay"}, freePorts(t)...)...)
	if code != 2 || errs != "plimsoll: no room on deck\n" {
		t.Errorf("exit %d, %q; want 2 and the reason", code, errs)
	}
}

func TestOnlyTerminalsGetColours(t *testing.T) {
	for coloured, want := range map[bool]string{true: "\x1b[31mplimsoll:\x1b[0m no\n", false: "plimsoll: no\n"} {
		var b bytes.Buffer
		(&console{err: &b, colour: coloured}).fail(errors.New("no"))
		if b.String() != want {
			t.Errorf("coloured %v: %q, want %q", coloured, b.String(), want)
		}
	}
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if newConsole(file, file).colour {
		t.Error("a file is taken for a terminal")
	}
}

func TestHelpPrintsAndRunsNothing(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--help"}, {"serve", "-h"}, {"serve", "-c", "some.yaml", "--help"},
	} {
		code, out, errs := command(failing(errors.New("it ran")), args...)
		if code != 0 || errs != "" || out == "" {
			t.Errorf("%q: exit %d, %d bytes of help, %q", args, code, len(out), errs)
		}
	}
}
