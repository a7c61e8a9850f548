package profiler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAJVMThatRefusesIsAskedOnce(t *testing.T) {
	asked := 0
	j := &JVM{dump: func(context.Context) ([]byte, error) { asked++; return nil, errors.New("no") }}
	for range 2 {
		if _, err := j.Take(t.Context(), time.Minute); err == nil {
			t.Error("it did not refuse")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestOnlyAThreadDumpIsTakenForOne(t *testing.T) {
	const dump = "2026-11-29 13:00:00\nFull thread dump OpenJDK 64-Bit Server VM\n\n\"main\" #1\n"
	if text, err := answered([]byte("0\n" + dump)); err != nil || string(text) != dump {
		t.Errorf("%q, %v", text, err)
	}
	for _, bad := range []string{"", "0\n", "0\nhello\n", "101\n" + dump, dump,
		"0\n" + dump + strings.Repeat("x", mostDump)} {
		if text, err := answered([]byte(bad)); err == nil {
			t.Errorf("%.40q is taken for %.40q", bad, text)
		}
	}
}

func TestADumpThatIsNotReadyInTimeIsLeftOut(t *testing.T) {
	j := &JVM{dump: func(ctx context.Context) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	for range 2 { // it is asked again, as it has not refused
		if seen, err := j.Take(t.Context(), 2*dumpInterval); err != nil || seen.Waits != nil {
			t.Errorf("%v, %v", seen, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := j.Take(ended, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("a survey that has ended: %v", err)
	}
}
