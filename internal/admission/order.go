package admission

import "fmt"

// Order checks, from the decisions alone, that the order of classes is kept. Within one look the
// backlog is the same for all requests, so no request may be admitted if one of a higher class is
// refused because of the backlog. Within a class, and so among classes that count as one, it is
// random which requests are refused on a ramp. Order is for simulations. The zero value is ready.
type Order struct {
	seen int64
	plan *SheddingPlan
	// the highest class that was refused in this look and the lowest that was admitted, as returned
	// by place; -1 for none
	refused, admitted int
}

// Note records a decision and panics if it inverts the order. alone says that the request had
// waited for longer than the backlog, so that the backlog may not be why it was refused.
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

// place is the class that a class counts as: itself if used, else the next lower used class, or the
// lowest used class.
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
