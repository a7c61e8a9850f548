package concurrency

// aimd is the law of the mode AIMD.
type aimd struct {
	*Law
	gathered Window
	decision string
}

func (a *aimd) observe(w Window) {}
func (a *aimd) state() State     { return State{Decision: a.decision} }
