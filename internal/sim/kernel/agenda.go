package kernel

// agenda is the future, by time. Entries due at the same time run endpoint by endpoint, and for
// each endpoint in the order of entry. So goroutines that use different endpoints at once produce
// the same history, whatever their order.
//
// The entries are a binary heap. container/heap would allocate for each of them.
type agenda struct {
	entries []entry
	entered uint64
}

type entry struct {
	at    int64
	by    int // the endpoint's number; 0 for none
	order uint64
	do    func()
}

func (e *entry) before(f *entry) bool {
	switch {
	case e.at != f.at:
		return e.at < f.at
	case e.by != f.by:
		return e.by < f.by
	}
	return e.order < f.order
}

func (a *agenda) enter(at int64, by int, do func()) {
	a.entered++
	a.entries = append(a.entries, entry{at, by, a.entered, do})
	for i := len(a.entries) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a.entries[i].before(&a.entries[parent]) {
			return
		}
		a.entries[i], a.entries[parent] = a.entries[parent], a.entries[i]
		i = parent
	}
}

// peek is when the first entry is due; ok is false if there is no entry.
func (a *agenda) peek() (at int64, ok bool) {
	if len(a.entries) == 0 {
		return 0, false
	}
	return a.entries[0].at, true
}

// take removes the first entry.
func (a *agenda) take() func() {
	do := a.entries[0].do
	last := len(a.entries) - 1
	a.entries[0], a.entries[last] = a.entries[last], entry{}
	a.entries = a.entries[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return do
		}
		if right := child + 1; right < last && a.entries[right].before(&a.entries[child]) {
			child = right
		}
		if !a.entries[child].before(&a.entries[i]) {
			return do
		}
		a.entries[i], a.entries[child] = a.entries[child], a.entries[i]
		i = child
	}
}
