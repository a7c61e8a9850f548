// Package earlyhints tells browsers what a page will need before its service is asked: it remembers
// the Link fields of pages, and gives them to the next client in a 103 (RFC 8297).
package earlyhints

import (
	"bytes"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Bounds of what one loop remembers for one route. A client that invents paths can fill it, but no
// more: pages that have not been requested recently are dropped.
const (
	maxPages = 512
	maxBytes = 256 << 10

	// maxLinks and maxValue bound the links of one page. Further links are left out: a browser
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
// A 103 contains only links that all clients may see: those of a response that a shared cache might
// store (RFC 9111, section 3) to a request without a query, because a query may identify a user.
// The response to a request with credentials counts only if it is public and does not vary by them.
type Policy struct {
	shared rules.Options // a shared cache's rules for what may be stored, except for cookies
	parts  []part
}

// part is what one loop remembers. Recently requested pages are in young. When young has reached
// half of the limit, it becomes old, and the previous old is dropped. So eviction costs nothing,
// and no ordered list is needed.
type part struct {
	young, old map[string][]byte
	bytes      int // of young, including keys
	key, value []byte
	_          [64]byte // the next loop's part is on another cache line
}

// New makes the policy.
func New(o Options) (*Policy, error) {
	// For a response to a request with a cookie, isForAll requires more than a cache does.
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

// OnRequest implements exchange.RequestPolicy: it sets the hints for a navigation to a remembered
// page.
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
		// The page has changed. It does not matter for which client.
		w.forget()
	}
	return exchange.Continue
}

// isNavigation reports whether a browser requests a page. Browsers that do not say so explicitly
// accept HTML by name only for pages.
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

// isForAll reports whether the response's links may be sent to other clients. It does not matter if
// the response is not fresh long enough to be stored: NotFresh is the last reason that is checked.
func (p *Policy) isForAll(x *exchange.Exchange) bool {
	var r rules.Request
	r.Read(x.Request)
	_, why := p.shared.Judge(&r, x.Response, rules.Times{})
	if why != rules.MayStore && why != rules.NotFresh {
		return false
	}
	known := x.TLS != nil && x.TLS.Subject != "" // the client is known by its certificate
	if !known && !x.Request.Fields.HasAny(1<<head.Cookie|1<<head.Authorization) {
		return true
	}
	return lists(x.Response, head.CacheControl, "public") && !lists(x.Response, head.Vary, "cookie") &&
		!lists(x.Response, head.Vary, "authorization")
}

// lists reports whether a list field of the response has a member. member is in lower case.
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

// pageOf sets key to the key of a request's page, and reports whether there is one. The host is
// part of the key, because a route may serve several hosts.
func (w *part) pageOf(r *head.Request) bool {
	if len(r.Host)+len(r.Path) > maxKey {
		return false
	}
	w.key = append(append(w.key[:0], r.Host...), r.Path...)
	return true
}

// find returns what is remembered of the page, or nil. The bytes never change.
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
