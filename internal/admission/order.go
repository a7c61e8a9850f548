package admission

import "fmt"

// Order checks that the order of classes is kept, by what was decided and nothing else: of requests
// that come in one look, between which the backlog is the same, none is admitted while one of a
// higher class is refused for the backlog. Within a class, and so among classes that count as one, who
// is refused on a ramp is drawn. It is for simulations. The zero value is ready.
type Order struct {
	seen int64
	plan *SheddingPlan
	// the highest class that was refused in this look, and the lowest that was admitted, as places in
	// the order of classes; none is -1
	refused, admitted int
}

// Note takes a decision down and panics when it inverts the order. alone says that the backlog is not
// why it may have been refused: it had waited for longer than that.
func (o *Order) Note(p *SheddingPlan, now int64, class uint8, refused, alone bool) {
	if now != o.seen || p != o.plan {
		*o = Order{seen: now, plan: p, refused: -1, admitted: -1}
	}
	place := p.place(class)
	switch {
	case !refused:
		o.admitted = max(o.admitted, place)
	case !alone && (o.refused < 0 || place < o.refused):
		o.refused = place
	}
	if o.refused >= 0 && o.admitted > o.refused {
		panic(fmt.Sprintf("admission: class %d is admitted where class %d is refused", o.admitted, o.refused))
	}
}

// place is the class as which a class counts: the next lower one that is used, or the lowest.
func (p *SheddingPlan) place(class uint8) int {
	at := int(min(class, Classes-1))
	for c := at; c < Classes; c++ {
		if p.used[c] {
			return c
		}
	}
	for c := at; c >= 0; c-- {
		if p.used[c] {
			return c
		}
	}
	return 0
}
