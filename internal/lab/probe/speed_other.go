//go:build !linux

package probe

// run does nothing: the processor time of a thread is not measured here.
func (s *Speed) run() {}
