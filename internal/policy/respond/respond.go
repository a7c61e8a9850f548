// Package respond answers by itself: a status, fields and a body that the configuration gives. It
// is an action, the last in its route's chain, so that access lists, request ids and CORS hold for
// it too.
//
// It must not know files: what came from one is a body like any other. That a HEAD or a 304 carries
// no body is the data plane's to see to.
package respond

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options are the answer.
type Options struct {
	Status  int               // 200 to 599. Default: 200
	Headers map[string]string // sent in alphabetical order
	Body    []byte            // kept, and not to be changed. With one and no Content-Type it is text/plain in UTF-8
}

// Policy answers.
type Policy struct {
	status int
	fields []head.Field
	body   []byte
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New checks the answer.
func New(o Options) (*Policy, error) {
	p := &Policy{status: o.Status, body: o.Body}
	if p.status == 0 {
		p.status = http.StatusOK
	}
	if p.status < 200 || p.status > 599 {
		return nil, fmt.Errorf("an answer with status %d; give 200 to 599", p.status)
	}
	switch p.status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		if len(p.body) > 0 {
			return nil, fmt.Errorf("an answer with status %d has no body; leave it out", p.status)
		}
	}
	typed := len(p.body) == 0
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		value := o.Headers[name]
		if err := exchange.CheckFieldName(name); err != nil {
			return nil, err
		}
		if err := exchange.CheckFieldValue(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if strings.EqualFold(name, "Host") {
			//lint:ignore ST1005 Host is a name
			return nil, fmt.Errorf("Host is a field of requests; leave it out")
		}
		f := exchange.StaticField(name, value)
		typed = typed || f.ID == head.ContentType
		p.fields = append(p.fields, f)
	}
	if !typed {
		p.fields = append(p.fields, exchange.StaticField("Content-Type", "text/plain; charset=utf-8"))
	}
	return p, nil
}

// OnRequest answers.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	x.Answer(p.status, exchange.RouteAnswer, p.body)
	for i := range p.fields {
		x.Response.Fields.Append(p.fields[i])
	}
	return exchange.Answered
}
