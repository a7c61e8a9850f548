package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/text"
)

// progress is one line at the bottom of a terminal that is drawn again and again. Where there is no
// terminal nothing is drawn, and only what is said stays.
type progress struct {
	mu      sync.Mutex
	out     io.Writer
	columns func() int // nil where there is no terminal
	drawn   bool
}

func (c *console) progress() *progress { return &progress{out: c.err, columns: c.columns} }

// terminal says whether anything is drawn.
func (p *progress) terminal() bool { return p.columns != nil }

// show draws a line over the last one, in one write, so that it does not flicker. It is cut to the
// terminal's width as that is now: a line that wraps could not be drawn over.
func (p *progress) show(line string) {
	if !p.terminal() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drawn = true
	fmt.Fprintf(p.out, "\r%s\x1b[K", text.Clip(line, p.columns()-1))
}

// say prints a line that stays.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		line = "\r\x1b[K" + line
		p.drawn = false
	}
	fmt.Fprintln(p.out, line)
}

// clear takes the drawn line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// usualColumns is the width of a terminal that does not say its own.
const usualColumns = 80

// width is how many columns a terminal has now.
func width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return usualColumns
	}
	return int(size.Col)
}
