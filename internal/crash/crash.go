// Package crash limits what is lost when a panic ends the process. A panic is a defect and always
// ends it: nothing here recovers. But data that the process has not yet written down is written
// first, for at most Limit, and the last lines say what happened and where to report it. The
// package must know nothing of what is written: a package that has something to save registers it.
package crash

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Limit is how long a panic waits for everything that OnPanic registered.
const Limit = time.Second

var (
	mu     sync.Mutex
	savers = map[*func()]bool{}
	first  sync.Mutex // taken by the first panic and never given back
)

// OnPanic registers a function that a panic under a Guard calls before the process ends, on a
// goroutine of its own. Every other goroutine may be at work meanwhile, and one may be calling
// forget, which takes the function back and may be called more than once. Any goroutine.
func OnPanic(save func()) (forget func()) {
	key := &save
	mu.Lock()
	defer mu.Unlock()
	savers[key] = true
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(savers, key)
	}
}

// Guard is deferred at the beginning of a goroutine, before anything that it relies on. where says
// which goroutine it is: "on loop 1". When the goroutine panics, Guard saves what is registered,
// writes one line to standard error, and lets the panic go on: the Go runtime writes the stack,
// with the place of the panic in it, and ends the process with code 2. Further panics wait
// meanwhile.
func Guard(where string) {
	value := recover()
	if value == nil {
		return
	}
	first.Lock()
	save(Limit)
	fmt.Fprintln(os.Stderr, message(where, value))
	panic(value)
}

// message is the one line.
func message(where string, value any) string {
	text := strings.Join(strings.Fields(fmt.Sprint(value)), " ")
	return fmt.Sprintf("plimsoll: internal error %s: %s: this is a defect; please report it with "+
		"the lines below "+
		"to the project's issue tracker", where, text)
}

// save runs everything that is registered at once and waits until all have returned, or for limit.
func save(limit time.Duration) {
	mu.Lock()
	all := make([]func(), 0, len(savers))
	for f := range savers {
		all = append(all, *f)
	}
	mu.Unlock()
	var running sync.WaitGroup
	for _, f := range all {
		running.Go(func() {
			defer func() {
				// the first panic's report is worth more than this one's
				if again := recover(); again != nil {
					fmt.Fprintf(os.Stderr, "plimsoll: another panic, while saving: %v\n", again)
				}
			}()
			f()
		})
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
