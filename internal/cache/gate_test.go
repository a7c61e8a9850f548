package cache_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/head"
)

// request and response are messages as a test writes them: "Name: value" lines.
type request struct {
	method, path, query string
	fields              []string
	body                bool
}

type response struct {
	status int
	fields []string
	body   string
	failed bool // there was none: the origin could not be reached
}

func (r *response) get(name string) string {
	for _, line := range r.fields {
		if n, v, _ := strings.Cut(line, ": "); strings.EqualFold(n, name) {
			return v
		}
	}
	return ""
}

func (r *response) has(name string) bool {
	for _, line := range r.fields {
		if n, _, _ := strings.Cut(line, ":"); strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// gate is the contract of the package in a few lines: one request at a time, a clock that is set,
// and an origin that is a function.
type gate struct {
	testing.TB
	options rules.Options
	store   *store.Store
	now     rules.Instant
	origin  func(*request) *response
	asked   []*request // what the origin was asked
	later   []func()   // refreshes in the background
	trouble bool       // the service is behind
}

// began is when the clocks of tests begin.
var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newGate(t testing.TB, o rules.Options) *gate {
	t.Helper()
	s, err := store.New(store.Options{Bytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &gate{TB: t, options: o, store: s, now: rules.Instant{Mono: 1e15, Wall: began.UnixNano()}}
}

func (g *gate) pass(d time.Duration) {
	g.now.Mono += int64(d)
	g.now.Wall += int64(d)
}

// date is the wall clock's time d from now as an HTTP-date.
func (g *gate) date(d time.Duration) string {
	return time.Unix(0, g.now.Wall).Add(d).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
}

func list(into *head.List, lines []string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		into.Add([]byte(name), bytes.Trim([]byte(value), " \t"))
	}
}

func lines(l *head.List) []string {
	var out []string
	for i := range l.Len() {
		out = append(out, string(l.At(i).Name)+": "+string(l.At(i).Value))
	}
	return out
}

func (q *request) head() *head.Request {
	h := &head.Request{Method: []byte(q.method), Scheme: []byte("https"), Host: []byte("example.com"),
		Path: []byte(q.path)}
	if q.query != "" {
		h.Query = []byte(q.query)
	}
	if q.body {
		h.Length = head.Unknown
	}
	list(&h.Fields, q.fields)
	return h
}

func (p *response) head() *head.Response {
	h := &head.Response{Status: p.status, Length: int64(len(p.body))}
	list(&h.Fields, p.fields)
	return h
}

// ask has the origin answer.
func (g *gate) ask(q *request) *response {
	g.asked = append(g.asked, q)
	return g.origin(q)
}

// do plays a request through the cache.
func (g *gate) do(q *request) *response {
	g.Helper()
	if q.method == "" {
		q.method = "GET"
	}
	h := q.head()
	var r rules.Request
	r.Read(h)
	uri := g.options.Key.AppendURI(nil, "", h, h.Path)
	key := g.options.Key.AppendFields(bytes.Clone(uri), h)
	found, varies := g.find(&key, h)
	c := rules.Circumstances{Now: g.now, Varies: varies, Pressure: g.trouble}
	var d rules.Decision
	if found == nil {
		d = g.options.Decide(&r, nil, nil, &c)
	} else {
		defer found.Release()
		c.Purged = found.Soft()
		d = g.options.Decide(&r, &found.Meta, found.Block(), &c)
	}
	x := &exchange{gate: g, q: q, r: &r, uri: uri, key: key, found: found, d: d}
	switch d.Action {
	case rules.Refuse:
		return &response{status: 504}
	case rules.Pass:
		return x.pass()
	case rules.Serve:
		return x.serve(found, true)
	case rules.ServeAndRefresh:
		p := x.serve(found, true)
		if found.Refresh() {
			g.later = append(g.later, func() {
				x.found = g.store.Lookup(key)
				if x.found != nil {
					defer x.found.Release()
				}
				x.r.Own()
				x.fetch()
			})
		}
		return p
	}
	return x.fetch()
}

// settle runs what was to run in the background.
func (g *gate) settle() {
	later := g.later
	g.later = nil
	for _, f := range later {
		f()
	}
}

// find looks a key up, and the variant's where it is one.
func (g *gate) find(key *[]byte, h *head.Request) (e *store.Entry, varies bool) {
	e = g.store.Lookup(*key)
	if e == nil || e.Vary() == nil {
		return e, false
	}
	*key = g.options.Key.AppendVariant(*key, e.Vary(), h)
	e.Release()
	return g.store.Lookup(*key), true
}

type exchange struct {
	*gate
	q        *request
	r        *rules.Request
	uri, key []byte
	found    *store.Entry
	d        rules.Decision
}

func (x *exchange) pass() *response {
	p := x.ask(x.q)
	if !p.failed && rules.Invalidates(x.r, p.status) {
		x.store.PurgeURI(x.uri, false)
		h := x.q.head()
		for _, l := range rules.Locations(h, &p.head().Fields) {
			at := *h
			at.Query = nil
			if l.HasQuery {
				at.Query = []byte(l.Query)
			}
			x.store.PurgeURI(x.options.Key.AppendURI(nil, "", &at, []byte(l.Path)), false)
		}
	}
	out := *p
	status := rules.AppendStatus(nil, "test", &rules.Report{Why: x.d.Why, Status: p.status})
	out.fields = append(out.fields[:len(out.fields):len(out.fields)], "Cache-Status: "+string(status))
	return &out
}

// serve answers from an entry.
func (x *exchange) serve(e *store.Entry, hit bool) *response {
	var fields head.List
	rules.Fields(&fields, e.Block())
	reply := x.r.Reply(&e.Meta, e.Block(), e.Length(), x.now.Wall)
	p := &response{status: reply.Status}
	for i := range fields.Len() {
		if f := fields.At(i); reply.Status != 304 || rules.InNotModified(f.Name,
			e.Meta.ETag(e.Block()) != nil) {
			p.fields = append(p.fields, string(f.Name)+": "+string(f.Value))
		}
	}
	if reply.Status == 206 || reply.Status == 416 {
		p.fields = append(p.fields, "Content-Range: "+string(rules.AppendContentRange(nil, &reply,
			e.Length())))
	}
	report := rules.Report{Hit: hit, Why: x.d.Why, HasTTL: true, TTL: e.Meta.TTL(x.now.Mono)}
	p.fields = append(p.fields, "Age: "+string(rules.AppendAge(nil, e.Meta.Age(x.now.Mono))),
		"Cache-Status: "+string(rules.AppendStatus(nil, "test", &report)),
		"Content-Length: "+strconv.FormatInt(reply.Length, 10))
	p.body = string(bytes.Join(e.Slices(nil, reply.From, reply.To), nil))
	return p
}

// fetch asks the origin as the cache does, and takes its answer in.
func (x *exchange) fetch() *response {
	var fields head.List
	var stored *rules.Stored
	var block []byte
	if x.found != nil {
		stored, block = &x.found.Meta, x.found.Block()
	}
	x.options.Forward(&fields, make([]byte, 0, 100), x.r, stored, block)
	q := &request{method: "GET", path: x.q.path, fields: lines(&fields)}
	if x.q.query != "" {
		q.query = string(x.options.Key.AppendQuery(nil, []byte(x.q.query)))
	}
	f, filler := x.store.Begin(x.key, x.uri)
	if !filler {
		x.Fatal("two fetches at a time")
	}
	at := rules.Times{Sent: x.now}
	p := x.ask(q)
	at.Received = x.now
	if x.found != nil && (p.failed || rules.Failing(p.status)) && x.d.StaleIfError {
		f.Fail(0)
		x.d.Why = rules.Failed
		return x.serve(x.found, true)
	}
	if p.failed {
		f.Fail(0)
		return p
	}
	if p.status == 304 && x.found != nil {
		return x.validated(f, p, at)
	}
	return x.fill(f, p, at)
}

func (x *exchange) validated(f *store.Fill, p *response, at rules.Times) *response {
	meta, block, why := x.options.Freshen(nil, x.r, &x.found.Meta, x.found.Block(), p.head(), at)
	if why == rules.Mismatch {
		f.Refuse()
		x.found = nil
		return x.fetch()
	}
	if why != rules.MayStore {
		f.Refuse()
		x.store.Remove(x.found.Key())
		return x.serve(x.found, false)
	}
	if err := f.Renew(x.found, &store.Head{Key: x.found.Key(), URI: x.uri, Block: block,
		Meta: meta}); err != nil {
		x.Fatal(err)
	}
	e := x.store.Lookup(x.found.Key())
	if e == nil {
		x.Fatal("what was renewed is gone")
	}
	defer e.Release()
	return x.serve(e, false)
}

func (x *exchange) fill(f *store.Fill, p *response, at rules.Times) *response {
	h := p.head()
	meta, why := x.options.Judge(x.r, h, at)
	var block []byte
	ok := why == rules.MayStore
	if ok {
		block, ok = x.options.AppendBlock(nil, &meta, &h.Fields)
	}
	if !ok {
		f.Refuse()
		out := *p
		status := rules.AppendStatus(nil, "test", &rules.Report{Why: x.d.Why, NotStored: why})
		out.fields = append(out.fields[:len(out.fields):len(out.fields)], "Cache-Status: "+string(status))
		return &out
	}
	key := x.key
	if vary := x.options.Vary(nil, &h.Fields); len(vary) > 0 {
		key = x.variant(vary)
	}
	if err := f.Head(&store.Head{Key: key, URI: x.uri, Block: block, Meta: meta}); err != nil {
		x.Fatal(err)
	}
	if _, err := f.Append([]byte(p.body)); err != nil {
		x.Fatal(err)
	}
	if err := f.Finish(); err != nil {
		x.Fatal(err)
	}
	out := *p
	status := rules.AppendStatus(nil, "test", &rules.Report{Why: x.d.Why, Stored: true})
	out.fields = append(out.fields[:len(out.fields):len(out.fields)], "Cache-Status: "+string(status))
	return x.ranged(&out, meta, block)
}

// ranged evaluates the client's own preconditions on what was fetched without them.
func (x *exchange) ranged(p *response, meta rules.Stored, block []byte) *response {
	reply := x.r.Reply(&meta, block, int64(len(p.body)), x.now.Wall)
	if reply.Status != p.status {
		p.status = reply.Status
		p.body = p.body[reply.From:reply.To]
	}
	return p
}

// variant stores the marker for what a response varies by, and gives the key of this variant.
func (x *exchange) variant(vary []byte) []byte {
	h := x.q.head()
	primary := x.options.Key.AppendFields(bytes.Clone(x.uri), h)
	if old := x.store.Lookup(primary); old != nil {
		vary, _ = rules.MergeVary(nil, old.Vary(), vary)
		old.Release()
	}
	if err := x.store.SetVary(primary, x.uri, vary); err != nil {
		x.Fatal(err)
	}
	return x.options.Key.AppendVariant(primary, vary, h)
}

func say(format string, args ...any) string { return fmt.Sprintf(format, args...) }
