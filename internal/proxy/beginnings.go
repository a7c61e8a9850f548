package proxy

import "fmt"

// beginnings count the exchanges that each connection has begun in the present turn of the loop, and
// check that none has more than its share. Only with
// invariant.Sequential: a simulation has many turns in which connections have more to begin.
type beginnings struct {
	turn uint64
	by   map[*origin]int
}

// count counts an exchange that begins. A connection has its share when its bytes come, and once more
// when it was put off to the turn's end. The streams of HTTP/3 are quic-go's to share out.
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
