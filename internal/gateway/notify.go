package gateway

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// notify tells systemd about a change of state (sd_notify(3)), if systemd has asked for it. There
// is no answer, and a failure to notify is not a reason to stop.
func notify(lines ...string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	conn.Write([]byte(strings.Join(lines, "\n")))
}

// monotonicUsec is the line that a reload's notification must carry: the machine's own monotonic
// clock.
func monotonicUsec() string {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return ""
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", ts.Nano()/1000)
}
