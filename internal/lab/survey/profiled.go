package survey

// profiled offers half of the line and the line for the sake of profiles. The line has been found
// by then, and stays what it is. Where there is none the highest good rate stands for it.
func (s *surveyor) profiled(line float64) error {
	if !s.o.Profiled {
		return nil
	}
	s.enter(halfway, "half of the line, to see what requests cost when there is room")
	if _, err := s.do(s.plan(niceRate(line/2), s.set.profiledLength, s.set.bracketSettle,
		"half of the line, for profiles")); err != nil {
		return err
	}
	s.enter(atLine, "the line itself, to see the bottleneck")
	_, err := s.do(s.plan(s.allowed(niceRate(line)), s.set.profiledLength, s.set.bracketSettle,
		"the line, for profiles"))
	return err
}
