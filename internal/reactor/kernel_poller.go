package reactor

// modelPoller adapts a Kernel's Poller to what a loop expects of its poller.
type modelPoller struct {
	Poller
	events [maxEvents]Event
}

func newModelPoller(l *Loop) (*modelPoller, error) {
	p, err := model.NewPoller(l)
	if err != nil {
		return nil, err
	}
	return &modelPoller{Poller: p}, nil
}

func (p *modelPoller) poll() int { return p.Poll(p.events[:]) }

func (p *modelPoller) event(i int) (token uint64, ev readiness) {
	e := &p.events[i]
	if e.Readable {
		ev |= readable
	}
	if e.Writable {
		ev |= writable
	}
	if e.PeerEnded {
		ev |= peerEnded
	}
	if e.Broken {
		ev |= broken
	}
	return e.Token, ev
}
