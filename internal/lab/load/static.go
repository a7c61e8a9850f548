package load

import "plimsoll/internal/lab/measure"

// static is a script of one prepared request.
type static struct {
	names   []string
	request []byte
	head    bool
}

// Static is the script that repeats one prepared request, head and body as Prepare makes them. head
// reports that its method is HEAD. An answer below 400 is OK. name is its name in the results. The
// script keeps request, which must not be changed.
func Static(name string, request []byte, head bool) Script {
	return &static{[]string{name}, request, head}
}

// Names implements Script.
func (s *static) Names() []string { return s.names }

// Requests implements Script.
func (s *static) Requests() float64 { return 1 }

// Player implements Script. The script has no state, so it is its own player and session on all
// loops.
func (s *static) Player(int, int, uint64) Player { return s }

// Begin implements Player.
func (s *static) Begin() Session { return s }

// Request implements Session.
func (s *static) Request(dst []byte) ([]byte, Request) {
	return append(dst, s.request...), Request{Head: s.head}
}

// Answer implements Session.
func (s *static) Answer(a *Answer) AnswerVerdict {
	if a.Status >= 400 {
		return AnswerVerdict{Kind: measure.BadStatus}
	}
	return AnswerVerdict{}
}

// End implements Session.
func (s *static) End() {}
