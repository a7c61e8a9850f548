package survey

// profiled offers half of the line and then the line, to take profiles. The line is known by then,
// and these steps do not change it. Without a line, the highest good rate takes its place.
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
