package replay

import (
	"fmt"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// player begins the requests that a feed's schedule has returned. It belongs to the feed's loop.
type player struct{ feed *feed }

// Begin takes the next request. It allocates a session only if more requests are under way than
// ever before.
func (p *player) Begin() load.Session {
	f := p.feed
	b, e := f.session()
	var s *session
	if n := len(f.sessions); n > 0 {
		s = f.sessions[n-1]
		f.sessions = f.sessions[:n-1]
	} else {
		s = &session{feed: f}
	}
	s.batch, s.at, s.length, s.logged, s.name = b, e.at, e.length, int(e.status), int(e.name)
	return s
}

// session is one request of the log.
type session struct {
	feed       *feed
	batch      *batch // nil after the request's bytes were copied
	at, length uint32
	logged     int // logged status
	name       int
}

// Request appends the log's request.
func (s *session) Request(dst []byte) ([]byte, load.Request) {
	dst = append(dst, s.batch.bytes[s.at:s.at+s.length]...)
	s.feed.release(s.batch)
	s.batch = nil
	return dst, load.Request{Name: s.name, Head: s.name == headMethod}
}

// Answer compares the status with the log's. A status below 400 is good. So is one below 500 that
// the log has too: a page that was missing then may be missing now. A server error is never good,
// even if the log has it.
func (s *session) Answer(a *load.Answer) load.AnswerVerdict {
	switch {
	case a.Status < 400, a.Status < 500 && a.Status == s.logged:
		return load.AnswerVerdict{}
	case a.Status < len(unexpected):
		return load.AnswerVerdict{Kind: measure.BadStatus, Why: unexpected[a.Status]}
	}
	return load.AnswerVerdict{Kind: measure.BadStatus, Why: "a status of 600 or above"}
}

// unexpected are the texts about statuses, made once.
var unexpected = func() (texts [600]string) {
	for status := 400; status < 500; status++ {
		texts[status] = fmt.Sprintf("status %d, and the log has another", status)
	}
	for status := 500; status < 600; status++ {
		texts[status] = fmt.Sprintf("status %d", status)
	}
	return texts
}()

// End returns the session to its feed.
func (s *session) End() {
	if s.batch != nil {
		s.feed.release(s.batch)
		s.batch = nil
	}
	s.feed.sessions = append(s.feed.sessions, s)
}
