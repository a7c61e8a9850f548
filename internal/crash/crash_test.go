package crash_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"plimsoll/internal/crash"
)

// variable makes the test's own binary one that panics in the way it names.
const variable = "CRASH_TEST"

var ways = map[string]func(){
	"saved": func() {
		crash.OnPanic(func() { fmt.Fprintln(os.Stderr, "saved one") })
		crash.OnPanic(func() { fmt.Fprintln(os.Stderr, "saved two") })
		crash.OnPanic(func() { fmt.Fprintln(os.Stderr, "saved what was forgotten") })()
		fail()
	},
	"stuck": func() {
		crash.OnPanic(func() { select {} })
		fail()
	},
	"panics again": func() {
		crash.OnPanic(func() { panic("it broke") })
		fail()
	},
	"error": func() {
		var m map[string]int
		m["x"] = 1 //lint:ignore SA5000 a runtime error is what this case needs
	},
	"two": func() {
		crash.OnPanic(func() { fmt.Fprintln(os.Stderr, "saved one") })
		other := make(chan bool)
		go func() {
			defer crash.Guard("on another goroutine")
			other <- true
			fail()
		}()
		<-other
		fail()
	},
	"none": func() {},
}

func fail() { panic("a\nvalue") }

func TestMain(m *testing.M) {
	if way := ways[os.Getenv(variable)]; way != nil {
		done := make(chan bool)
		go func() {
			defer crash.Guard("on a goroutine")
			way()
			close(done)
		}()
		<-done
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// end runs a way and returns what it wrote to standard error, and its exit code.
func end(t *testing.T, way string) (said string, code int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), variable+"="+way)
	var out strings.Builder
	cmd.Stderr = &out
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

const report = "plimsoll: internal error on a goroutine: a value: this is a defect; please report it with the lines below " +
	"to the project's issue tracker\n"

func TestAPanicSavesSaysAndEndsTheProcess(t *testing.T) {
	said, code := end(t, "saved")
	line := strings.Index(said, report)
	if code != 2 || line < 0 {
		t.Fatalf("code %d, said %s", code, said)
	}
	for _, want := range []string{"saved one\n", "saved two\n"} {
		if at := strings.Index(said, want); at < 0 || at > line {
			t.Errorf("no %q before the last words: %s", want, said)
		}
	}
	if strings.Contains(said, "forgotten") {
		t.Errorf("what was forgotten is saved: %s", said)
	}
	if !strings.Contains(said[line:], "crash_test.fail") {
		t.Errorf("the stack does not show where the panic came from: %s", said)
	}
}

func TestAPanicWaitsForNothingWithoutEnd(t *testing.T) {
	if said, code := end(t, "stuck"); code != 2 || !strings.Contains(said, report) {
		t.Errorf("code %d, said %s", code, said)
	}
}

func TestAPanicWhileSavingEndsTheProcessToo(t *testing.T) {
	if said, code := end(t, "panics again"); code != 2 || !strings.Contains(said, report) ||
		!strings.Contains(said, "while saving: it broke") {
		t.Errorf("code %d, said %s", code, said)
	}
}

func TestErrorsOfTheRuntimeAreReported(t *testing.T) {
	const want = "internal error on a goroutine: assignment to entry in nil map: this is a defect"
	if said, code := end(t, "error"); code != 2 || !strings.Contains(said, want) {
		t.Errorf("code %d, said %s", code, said)
	}
}

func TestOnlyTheFirstOfTwoPanicsIsReported(t *testing.T) {
	said, code := end(t, "two")
	if n := strings.Count(said, "plimsoll: internal error"); code != 2 || n != 1 || strings.Count(said, "saved one") != 1 {
		t.Errorf("code %d, %d reports: %s", code, n, said)
	}
}

func TestAGoroutineThatEndsWellIsLeftAlone(t *testing.T) {
	if said, code := end(t, "none"); code != 0 || said != "" {
		t.Errorf("code %d, said %s", code, said)
	}
}
