package replay

import "io"

// OpenReader is Open of what a test holds in memory or writes into a pipe.
func OpenReader(r io.Reader, o Options) (*Log, error) {
	if err := o.check("log"); err != nil {
		return nil, err
	}
	l := &Log{name: "log", o: o}
	return l, l.open(r)
}

// ParseStamp is parseStamp.
func ParseStamp(text string) (at, unit int64, ok bool) {
	s, ok := parseStamp([]byte(text))
	return s.at, s.unit, ok
}

// JSONValue is what jsonLines finds under a name.
func JSONValue(line []byte, name string) (value []byte, found bool, err error) {
	j, err := newJSONLines(map[string]string{"host": name}, nil)
	if err != nil {
		return nil, false, err
	}
	j.wants = j.wants[:1]
	for i := range j.wants {
		j.wants[i] = want{path: name, is: vHost}
	}
	j.into = nil
	var r record
	r.reset()
	if err := j.parse(line, &r); err != nil {
		return nil, false, err
	}
	return r.values[vHost], r.values[vHost] != nil, nil
}

// Done is closed when the reading has ended.
func (s *Source) Done() <-chan struct{} { return s.done }
