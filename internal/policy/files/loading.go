package files

import "sync"

// loading holds the searches that goroutines are doing, so that each path has one search at a time.
type loading struct {
	mu sync.Mutex
	m  map[string]*load
}

// load is a search for a path. entry and err are valid once done is closed; the searcher holds the
// entry.
type load struct {
	done  chan struct{}
	entry *entry
	err   error
}

// begin reports whether the caller is the first, which must do the search.
func (l *loading) begin(key string) (of *load, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of = l.m[key]; of != nil {
		return of, false
	}
	of = &load{done: make(chan struct{})}
	l.m[key] = of
	return of, true
}

func (l *loading) end(key string, of *load) {
	l.mu.Lock()
	delete(l.m, key)
	l.mu.Unlock()
	close(of.done)
}
