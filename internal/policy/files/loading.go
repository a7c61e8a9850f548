package files

import "sync"

// loading is what goroutines look for at present, so that each path is looked for once.
type loading struct {
	mu sync.Mutex
	m  map[string]*load
}

// load is a look for a path. Entry and err count once done is closed; the entry is held by the one
// who looks.
type load struct {
	done  chan struct{}
	entry *entry
	err   error
}

// begin says whether the caller is the first, who has to look.
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
