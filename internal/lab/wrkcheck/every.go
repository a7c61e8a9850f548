package wrkcheck

import (
	"sync"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// every is a script that sends one request repeatedly and takes every answer as a good one, because
// wrk counts the time of every answer whatever its status. It counts statuses above 399 separately.
type every struct {
	request []byte
	mu      sync.Mutex // guards players, which the loops append
	players []*everyPlayer
}

func newEvery(request []byte) *every { return &every{request: request} }

// Names has the only kind of request.
func (e *every) Names() []string { return []string{"request"} }

// Requests is one per arrival.
func (e *every) Requests() float64 { return 1 }

// Player makes one loop's player.
func (e *every) Player(int, int, uint64) load.Player {
	p := &everyPlayer{request: e.request}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.players = append(e.players, p)
	return p
}

// bad is the number of answers with a status above 399. Call it after the run.
func (e *every) bad() (n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.players {
		n += p.badStatus
	}
	return n
}

// everyPlayer is also its own session, because sessions have no state.
type everyPlayer struct {
	request   []byte
	badStatus uint64
}

func (p *everyPlayer) Begin() load.Session { return p }

func (p *everyPlayer) Request(dst []byte) ([]byte, load.Request) {
	return append(dst, p.request...), load.Request{}
}

func (p *everyPlayer) Answer(a *load.Answer) load.AnswerVerdict {
	if a.Status > 399 {
		p.badStatus++
	}
	return load.AnswerVerdict{Kind: measure.OK}
}

func (p *everyPlayer) End() {}
