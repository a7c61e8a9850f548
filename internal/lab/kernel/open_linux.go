package kernel

import (
	"errors"
	"fmt"
)

// maxThreads bounds the threads whose events are counted: each needs a descriptor per kind of
// event.
const maxThreads = 256

// Open opens all sources that this machine and this user's rights allow, for the process with this
// number and its descendants. missing says, for humans, what cannot be read and what to do about
// it. The sources count from now on. They hold descriptors and kernel programs until shut is
// called, which must be done exactly once, after the last Read.
func Open(pid int) (sources []Source, missing []string, shut func() error) {
	type source interface {
		Source
		Close() error
	}
	var opened []source
	shut = func() error {
		var failed error
		for _, o := range opened {
			failed = errors.Join(failed, o.Close())
		}
		return failed
	}
	t, err := newTarget(pid)
	if err != nil {
		return nil, []string{fmt.Sprintf("kernel events: %v", err)}, shut
	}
	add := func(s source, err error) {
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", s.Name(), err))
			return
		}
		sources, opened = append(sources, s), append(opened, s)
	}
	e, without, err := newEvents(t, maxThreads)
	missing = append(missing, without...)
	add(e, err)
	o, err := newOffCPU(t)
	add(o, err)
	r, err := newRetransmits(t)
	add(r, err)
	return sources, missing, shut
}
