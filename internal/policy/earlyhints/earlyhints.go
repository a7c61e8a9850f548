// Package earlyhints tells browsers what a page will need before its service is asked: it remembers
// the Link fields of pages, and gives them to the next client in a 103 (RFC 8297).
package earlyhints

import (
	"bytes"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Bounds of what one loop remembers for one route. A client that makes up paths can use all of it, and
// nothing beyond: what was not asked for lately makes room.
const (
	maxPages = 512
	maxBytes = 256 << 10

	// maxLinks and maxValue bound the links of one page. What goes beyond is left out: a browser
	// fetches only some at a time, and the 103 should not delay the page.
	maxLinks = 16
	maxValue = 2 << 10

	// maxKey bounds a page's host and path.
	maxKey = 1 << 10
)

// Options configure the policy.
type Options struct {
	Loops int // how many there are
}

// Policy remembers links by host and path, in a part for each loop.
//
// Only links go into a 103 that may be known to everybody: those of a response that a shared cache
// might store (RFC 9111, section 3), to a request without a query, which may say whose page it is. A
// request with credentials counts only where the response is public and does not vary by them.
type Policy struct {
	shared rules.Options // by which a shared cache judges what may be stored, but for cookies
	parts  []part
}

// part is what one loop remembers: pages that were asked for lately are in young. When that has half
// of what there may be, it becomes old, and what was in old is forgotten. So eviction costs nothing,
// and no list has to be kept in order.
type part struct {
	young, old map[string][]byte
	bytes      int // of young, keys included
	key, value []byte
	_          [64]byte // the next loop's part is on another cache line
}

// New makes the policy.
func New(o Options) (*Policy, error) {
	// Of a response to a request with a cookie isForAll asks more than a cache does.
	key, err := rules.NewKey(rules.KeyOptions{Fields: map[string]rules.Treatment{"cookie": rules.Plain}})
	if err != nil {
		return nil, err
	}
	return &Policy{shared: rules.Options{Key: key}, parts: make([]part, o.Loops)}, nil
}

// Inherit implements exchange.Heir: a reload forgets nothing.
func (p *Policy) Inherit(old any) {
	if q, ok := old.(*Policy); ok && len(q.parts) == len(p.parts) {
		p.parts = q.parts
	}
}

// OnRequest implements exchange.RequestPolicy: it gives a navigation what is remembered of its page.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	if isNavigation(x.Request) {
		w := &p.parts[x.Loop()]
		if w.pageOf(x.Request) {
			x.EarlyHints = w.find()
		}
	}
	return exchange.Continue
}

// OnResponse implements exchange.ResponsePolicy: it remembers the links of a page.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	r, w := x.Response, &p.parts[x.Loop()]
	if r.Status != 200 || string(x.Request.Method) != "GET" || len(x.Request.Query) > 0 || !isHTML(r) ||
		!w.pageOf(x.Request) {
		return exchange.Continue
	}
	w.value = appendLinks(w.value[:0], &r.Fields)
	known := w.find()
	switch {
	case bytes.Equal(known, w.value):
	case len(w.value) > 0 && p.isForAll(x):
		w.put(bytes.Clone(w.value))
	case known != nil:
		// The page has others now. Whose they are does not matter for that.
		w.forget()
	}
	return exchange.Continue
}

// isNavigation says whether a browser asks for a page. Those that do not say so accept HTML by name
// for pages alone.
func isNavigation(r *head.Request) bool {
	if string(r.Method) != "GET" {
		return false
	}
	if mode := r.Fields.Find(secFetchMode); mode != nil {
		return string(mode.Value) == "navigate"
	}
	return bytes.Contains(r.Fields.Value(head.Accept), textHTML)
}

var (
	secFetchMode = []byte("Sec-Fetch-Mode")
	textHTML     = []byte("text/html")
	linkName     = []byte("Link")
)

func isHTML(r *head.Response) bool {
	kind, _, _ := bytes.Cut(r.Fields.Value(head.ContentType), semicolon)
	return head.EqualFold(head.Trim(kind), textHTML)
}

// isForAll says whether what the response says may be told to others. That it is not fresh long
// enough to be stored does not matter: NotFresh is the last thing that is looked at.
func (p *Policy) isForAll(x *exchange.Exchange) bool {
	var r rules.Request
	r.Read(x.Request)
	_, why := p.shared.Judge(&r, x.Response, rules.Times{})
	if why != rules.MayStore && why != rules.NotFresh {
		return false
	}
	known := x.TLS != nil && x.TLS.Subject != "" // by its certificate
	if !known && !x.Request.Fields.HasAny(1<<head.Cookie|1<<head.Authorization) {
		return true
	}
	return lists(x.Response, head.CacheControl, "public") && !lists(x.Response, head.Vary, "cookie") &&
		!lists(x.Response, head.Vary, "authorization")
}

// lists says whether a field of the response that is a list has a member, which is in lower case.
func lists(r *head.Response, id head.ID, member string) bool {
	for i := range r.Fields.Len() {
		f := r.Fields.At(i)
		if f.ID != id {
			continue
		}
		for rest := f.Value; len(rest) > 0; {
			var this []byte
			this, rest, _ = bytes.Cut(rest, comma)
			if head.FoldsTo(head.Trim(this), member) {
				return true
			}
		}
	}
	return false
}

// pageOf sets key to that of a request's page, and says whether it has one. The host is part of it: a
// route may serve several.
func (w *part) pageOf(r *head.Request) bool {
	if len(r.Host)+len(r.Path) > maxKey {
		return false
	}
	w.key = append(append(w.key[:0], r.Host...), r.Path...)
	return true
}

// find is what is remembered of the page, or nil. It stays as it is for ever.
func (w *part) find() []byte {
	if value, ok := w.young[string(w.key)]; ok {
		return value
	}
	value, ok := w.old[string(w.key)]
	if ok {
		delete(w.old, string(w.key))
		w.put(value)
	}
	return value
}

// put remembers a value.
func (w *part) put(value []byte) {
	w.forget()
	need := len(w.key) + len(value)
	if w.young == nil || len(w.young) >= maxPages/2 || w.bytes+need > maxBytes/2 {
		w.old, w.young, w.bytes = w.young, map[string][]byte{}, 0
	}
	w.young[string(w.key)] = value
	w.bytes += need
}

// forget drops what is remembered of the page.
func (w *part) forget() {
	if value, ok := w.young[string(w.key)]; ok {
		w.bytes -= len(w.key) + len(value)
		delete(w.young, string(w.key))
	}
	delete(w.old, string(w.key))
}
