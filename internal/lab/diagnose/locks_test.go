package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// A flight recording has the stacks of those that waited, where Go's profile has those of the holders.
func TestALockOfJavaIsKnownFromAFlightRecording(t *testing.T) {
	lines := append(slices.Clone(idleService), "at-line service 20ms", "over goodput 1010",
		"at-line profile mutex nanoseconds 40000000000 java.util.Collections$SynchronizedMap.get@"+
			"java/util/Collections.java < shop.Cache.rate@shop/Cache.java < shop.Main.handle@shop/Main.java")
	d := ofRuntime(t, measure.RuntimeJVM, "", lines...)
	f := d.found("lock-contention")
	if f == nil || !f.says("Requests wait for a lock, in shop.Cache.rate: 50.0 %") || names(d)[0] != f.Rule {
		t.Errorf("found %v: %+v", names(d), f)
	}
}

// A logger writes one line after the other. What is waited for there is the logging, whose cure saves
// what the lines cost, too; what is waited for elsewhere is not.
func TestThoseThatWaitForALoggersLockWaitBecauseOfTheLogging(t *testing.T) {
	const serve = "main.shop < main.handle < net/http.(*conn).serve"
	const lock = "runtime.gopark < runtime.semacquire1 < internal/sync.(*Mutex).lockSlow < " +
		"sync.(*Mutex).Lock < "
	const slog = "log/slog.(*commonHandler).handle < log/slog.(*Logger).Debug < "
	const zap = "go.uber.org/zap/zapcore.(*lockedWriteSyncer).Write < go.uber.org/zap.(*Logger).Debug < "
	for taker, want := range map[string][]string{
		slog: {"logging-hot", "lock-contention"},
		zap:  {"logging-hot", "lock-contention"},
		"":   {"lock-contention", "logging-hot"},
	} {
		d := diagnosed(t, slices.Concat(stuck, []string{
			"at-line profile cpu nanoseconds 3000000000 " + slog + serve,
			"at-line profile cpu nanoseconds 2000000000 " + serve,
			"at-line profile goroutine count 2 " + lock + taker + serve,
			"over profile goroutine count 59 " + lock + taker + serve,
			"over profile goroutine count 1 runtime.gopark < internal/poll.(*FD).Write < " + slog + serve,
		})...)
		if got := names(d); !slices.Equal(got, want) {
			t.Fatalf("found %v, not %v", got, want)
		}
		first, second := d.Findings[0], d.Findings[1]
		if first.Rank != Binding || first.Gain.Factor < 1.05 || !strings.Contains(first.Verify.Text, "compare") {
			t.Errorf("%+v", first)
		}
		if first.Rule == "logging-hot" && first.Gain.Factor < 1.3*second.Gain.Factor {
			t.Errorf("%.2f is gained without the logging, and %.2f without the lock",
				first.Gain.Factor, second.Gain.Factor)
		}
	}
}
