package main

import (
	"fmt"
	"sync"
)

// basket is all that a request needs for itself.
type basket struct {
	left  int64
	lines []line
	order []byte // what the payment service is sent
	text  []byte // what the client is told
}

type line struct {
	article int
	name    string
	price   float64
}

// The sizes of a basket: the order is padded to a size that a signed document would have.
const (
	linesOfBasket = 24
	orderBytes    = 32 << 10
	textBytes     = 8 << 10
)

func newBasket() *basket {
	return &basket{
		lines: make([]line, 0, linesOfBasket),
		order: make([]byte, 0, orderBytes),
		text:  make([]byte, 0, textBytes),
	}
}

// fill puts the article and what comes free with it in.
func (b *basket) fill(article int, left int64) {
	b.left, b.lines = left, b.lines[:0]
	for i := range linesOfBasket {
		b.lines = append(b.lines, line{article, names[(article+i)%len(names)], 19.99 + float64(i)})
	}
	b.order = fmt.Appendf(b.order[:0], "order of article %d", article)
}

var names = [...]string{"kettle", "lamp", "chair", "clock", "radio", "globe", "scale", "mirror"}

// baskets gives baskets out.
type baskets interface {
	get() *basket
	put(b *basket)
}

func newBaskets(changed bool) baskets {
	if changed {
		return &pooled{sync.Pool{New: func() any { return newBasket() }}}
	}
	return fresh{}
}

// fresh is the first day: a new one each time.
type fresh struct{}

func (fresh) get() *basket { return newBasket() }
func (fresh) put(*basket)  {}

// pooled uses them again.
type pooled struct{ pool sync.Pool }

func (p *pooled) get() *basket  { return p.pool.Get().(*basket) }
func (p *pooled) put(b *basket) { p.pool.Put(b) }
