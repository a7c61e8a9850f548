package reactor_test

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"plimsoll/internal/reactor"
)

// childVariable tells the test binary that it is that child.
const childVariable = "REACTOR_TEST_CHILD"

// runChild prints the address it echoes on, then does what each line of its standard input says and
// answers with a line.
func runChild() {
	loops, err := reactor.NewGroup(1, slog.New(slog.DiscardHandler))
	check(err)
	l := loops[0]
	to, err := reactor.ParseAddress("127.0.0.1:0")
	check(err)
	fd, err := reactor.BindListener(to, 1024)
	check(err)
	sa, err := syscall.Getsockname(fd)
	check(err)
	shed := 0
	_, err = l.Listen(fd, acceptor{
		accepted: func(l *reactor.Loop, s reactor.Socket) {
			c := new(conn).echo()
			check(c.Attach(l, s, c))
		},
		shed: func() { shed++ },
	})
	check(err)
	go l.Run()
	fmt.Printf("127.0.0.1:%d\n", sa.(*syscall.SockaddrInet4).Port)

	var idle reactor.Timer
	for {
		var command string
		if _, err := fmt.Scanln(&command); err != nil {
			return
		}
		answered := make(chan struct{})
		answer := func() {
			fmt.Printf("%d %d\n", shed, l.Stats().Turns)
			close(answered)
		}
		l.Post(func() {
			if command == "wait" {
				l.SetTimer(&idle, expiry(answer), l.Now()+int64(250*time.Millisecond))
				return
			}
			starve(command)
			answer()
		})
		<-answered
	}
}

// fillers hold the descriptors that "fill" took.
var fillers []int

// starve changes how many descriptors the process can have. Its hard limit stays, so that it can
// have more again.
func starve(command string) {
	limit := func(n uint64) {
		var r syscall.Rlimit
		check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r))
		r.Cur = min(n, r.Max)
		check(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r))
	}
	switch command {
	case "fill": // none is left but the listener's reserve
		limit(64)
		for {
			fd, err := syscall.Dup(0)
			if err != nil {
				break
			}
			fillers = append(fillers, fd)
		}
	case "forbid": // even one that is closed cannot be opened again
		limit(3)
	case "free":
		limit(1024)
		for _, fd := range fillers {
			syscall.Close(fd)
		}
		fillers = nil
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
