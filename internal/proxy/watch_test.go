package proxy_test

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A kernel that watches no more descriptors refuses one client after the other, and each could fill
// the log.
func TestClientsThatCannotBeWatchedAreToldOfInOneLine(t *testing.T) {
	b := newBed(t, answerer("ok"))
	b.blind = syscall.ENOSPC
	expect := func(connections int64) {
		t.Helper()
		said, line := int64(0), <-b.lines
		line.Attrs(func(a slog.Attr) bool {
			if a.Key == "connections" {
				said = a.Value.Int64()
			}
			return true
		})
		if said != connections || !strings.Contains(line.Message, "max_user_watches") {
			t.Errorf("the log says %q for %d connections, want %d", line.Message, said, connections)
		}
	}
	for range 30 {
		if s := b.client(silence); !s.closed {
			t.Fatal("the connection stays open")
		}
	}
	expect(1)
	b.now += int64(time.Minute)
	b.client(silence)
	expect(30) // those since the first line
}
