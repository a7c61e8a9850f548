package cache

import (
	"io"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// maxLone is how many bytes of a body wait for the client before the fetch stops reading.
const maxLone = 64 << 10

// lone is a response for a single client, on its way from the fetch to that client. Both are on the
// same loop. Loop only.
type lone struct {
	why    rules.Reason // why it is not stored
	status int
	length int64
	fields head.List

	trailers *head.List // nil for none

	body   []byte // not yet returned by Next
	at     int    // index in body of the next byte
	full   bool
	ended  bool
	broken bool
	gone   bool // the client has gone

	client exchange.Waker
	feeder exchange.Waker
}

// newLone makes a lone from the head of a fetch's response.
func newLone(x *exchange.Exchange, client exchange.Waker, why rules.Reason) *lone {
	l := &lone{why: why, status: x.Response.Status, length: x.Response.Length,
		fields: ownFields(&x.Response.Fields), client: client, feeder: x.Waker()}
	if l.length != head.Unknown {
		l.fields.RemoveID(head.Trailer) // no trailers follow such a body
	}
	return l
}

// answer makes l the answer of the client's exchange.
func (l *lone) answer(x *exchange.Exchange) {
	x.AnswerFrom(l.status, exchange.NoReason, l.length, l)
	for i := range l.fields.Len() {
		x.Response.Fields.Append(*l.fields.At(i))
	}
}

// append appends content to the body.
func (l *lone) append(content []byte) (full bool, err error) {
	if l.gone {
		return false, errNobody
	}
	// What Next returned has been sent or copied, because this is another turn. Without this, the
	// whole response would be kept for a client that always leaves a few bytes.
	if l.at > 0 && l.at >= len(l.body)-l.at {
		l.body, l.at = l.body[:copy(l.body, l.body[l.at:])], 0
	}
	l.body = append(l.body, content...)
	l.full = len(l.body)-l.at >= maxLone
	l.client.Wake()
	return l.full, nil
}

// Trailers implements exchange.TrailingSource.
func (l *lone) Trailers() *head.List { return l.trailers }

// end ends the body.
func (l *lone) end(whole bool) {
	l.ended, l.broken = true, !whole
	l.client.Wake()
}

// Next implements exchange.Source.
func (l *lone) Next(most int) ([]byte, error) {
	if l.at == len(l.body) {
		l.body, l.at = l.body[:0], 0
	}
	if l.full && len(l.body)-l.at < maxLone {
		l.full = false
		l.feeder.Wake()
	}
	data := l.body[l.at:min(len(l.body), l.at+most)]
	l.at += len(data)
	switch {
	case len(data) > 0 && l.at == len(l.body) && l.ended && !l.broken:
		return data, io.EOF
	case len(data) > 0:
		return data, nil
	case l.broken:
		return nil, errFetch
	case l.ended:
		return nil, io.EOF
	}
	return nil, exchange.ErrWait
}

// Close implements exchange.Source.
func (l *lone) Close() {
	l.gone, l.body, l.at = true, nil, 0
	if l.full {
		l.full = false
		l.feeder.Wake() // so that the fetch notices that the client has gone
	}
}
