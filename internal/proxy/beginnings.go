package proxy

import "fmt"

// beginnings counts the exchanges that each connection has begun in the present turn of the loop,
// and checks that none has begun more than its share. Only with invariant.Sequential: a simulation
// has many turns in which connections have more to begin.
type beginnings struct {
	turn uint64
	by   map[*origin]int
}

// count counts an exchange that begins. A connection gets its share when its bytes come, and once
// more if it was put off to the end of the turn. Over HTTP/3 quic-go shares out the streams.
func (b *beginnings) count(f *flow) {
	most := 2
	switch f.version {
	case http20:
		most = 2 * headsPerTurn
	case http30:
		return
	}
	if turn := f.w.loop.Stats().Turns; turn != b.turn || b.by == nil {
		b.turn, b.by = turn, map[*origin]int{}
	}
	if b.by[f.origin]++; b.by[f.origin] > most {
		panic(fmt.Sprintf("proxy: a connection begins %d exchanges in one turn, %d are fair to others",
			b.by[f.origin], most))
	}
}
