// Package files serves the files of a directory. It is an action, the last step in its route's
// chain, so that access lists, limits and CORS apply to it too.
//
// A request is answered on its loop if that needs nothing from the disk. What is known about a path
// (an entry) is in a bounded cache that all loops read without a lock. For small files, the entry
// includes their content. Everything that may wait for a disk (finding a file, opening it, a
// directory, content that is not in memory) is done on a bounded number of goroutines, while the
// exchange is held or its source has no content. Entries are checked again after a time, or earlier
// if the kernel reports a change.
//
// No request reaches beyond the root: the kernel resolves each path below it and opens the file in
// one step (see root). A file that changes while it is sent never yields a body with the wrong
// length: if the file has become too short, the response is cut off.
//
// It must not know sockets or protocol versions: it gives an exchange.FileSource.
package files

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/head"
)

// Options of the policy.
type Options struct {
	Root     string   // the directory
	Index    string   // the file that answers for a directory; "" for none
	Fallback bool     // missing files are answered with the root's index
	Codings  []string // codings of precompressed siblings, preferred first
	// CacheControl is the field of that name; "" for none.
	CacheControl string
	Listing      bool // list directories without an index
	Symlinks     bool // follow symlinks that stay beneath the root
	Dotfiles     bool // serve names that begin with a dot

	Fresh      time.Duration // how long an entry is used before it is checked again
	OpenFiles  int           // the most files kept open
	Memory     int64         // the most bytes kept in memory
	MemoryFile int64         // the longest file whose content is kept in memory
	Readers    int           // how many goroutines access the disk at once
	Waiting    int           // the most requests that wait for them
	MaxWait    time.Duration // how long each may wait

	// Pattern is the route's pattern, whose end determines the path of a file.
	Pattern string
	Env     exchange.Env
}

// The policy's reasons.
var (
	noFile = exchange.DeclareReason(exchange.ReasonInfo{Label: "no_file", Fault: exchange.ClientFault,
		GRPC: grpc.NotFound, Text: "there is no such file"})
	unreadable = exchange.DeclareReason(exchange.ReasonInfo{Label: "file_unreadable",
		Fault: exchange.UpstreamFault, GRPC: grpc.Internal, Text: "the file cannot be read"})
	busy = exchange.DeclareReason(exchange.ReasonInfo{Label: "files_busy",
		Fault: exchange.ProtectionFault, GRPC: grpc.Unavailable, Text: "too many files are waited for"})
)

// Policy serves files.
type Policy struct {
	o            Options
	skip         int // segments of the pattern before a file's path
	store        *store
	parts        []part // by loop
	cacheControl head.Field
	index        []byte // the key of the root's index
}

// random is 64 random bits.
func (p *Policy) random() uint64 {
	if p.o.Env.Random != nil {
		return p.o.Env.Random()
	}
	return rand.Uint64()
}

// part is the policy's state for one loop.
type part struct {
	counts  counts
	scratch []byte // buffer of sources; valid until the next source is called
	free    *source
	held    map[*exchange.Exchange]*errand
	_       [64]byte // no other loop writes to this line
}

var (
	_ exchange.RequestPolicy = (*Policy)(nil)
	_ exchange.DonePolicy    = (*Policy)(nil)
	_ exchange.Heir          = (*Policy)(nil)
	_ exchange.Closer        = (*Policy)(nil)
)

// New opens the root. The error says why that failed.
func New(o Options) (*Policy, error) {
	if o.Env.Log == nil {
		o.Env.Log = slog.New(slog.DiscardHandler)
	}
	if err := exchange.CheckFieldValue(o.CacheControl); err != nil {
		return nil, fmt.Errorf("cache_control: %w", err)
	}
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	path := o.Pattern[strings.IndexByte(o.Pattern, '/')+1:]
	p := &Policy{o: o, skip: strings.Count(path, "/"), store: s, index: []byte(o.Index),
		parts: make([]part, o.Env.Loops)}
	for i := range p.parts {
		p.parts[i].held = map[*exchange.Exchange]*errand{}
	}
	if o.CacheControl != "" {
		p.cacheControl = exchange.StaticField("Cache-Control", o.CacheControl)
	}
	return p, nil
}

// Inherit implements exchange.Heir: entries of the same files are kept.
func (p *Policy) Inherit(old any) {
	if was, ok := old.(*Policy); ok && p.store.same(was.store) {
		p.store.leave()
		p.store = was.store
		p.store.owners.Add(1)
	}
}

// Close implements exchange.Closer.
func (p *Policy) Close() { p.store.leave() }

var allowField = exchange.StaticField("Allow", "GET, HEAD")

// OnRequest answers.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	if m := x.Request.Method; string(m) != "GET" && string(m) != "HEAD" {
		x.Refuse(405, exchange.WrongMethod)
		x.Response.Fields.Append(allowField)
		return exchange.Answered
	}
	key, ok := p.key(x)
	if !ok {
		return x.Refuse(404, noFile)
	}
	return p.find(x, key, false)
}

// find answers with the file of a path, or starts looking for it. last marks the fallback for
// missing files.
func (p *Policy) find(x *exchange.Exchange, key []byte, last bool) exchange.PolicyVerdict {
	part := &p.parts[x.Loop()]
	e, state := p.store.lookup(key, x.Now())
	switch {
	case e == nil || state == expired:
		return p.wait(x, string(key), last)
	case state == due:
		p.store.refresh(e)
	}
	if e.whole {
		part.counts.memory.Add(1)
		return p.serve(x, e, last)
	}
	if !e.acquire() { // given up since the look-up
		return p.wait(x, string(key), last)
	}
	defer e.release()
	part.counts.open.Add(1)
	return p.serve(x, e, last)
}

// serve answers with an entry.
func (p *Policy) serve(x *exchange.Exchange, e *entry, last bool) exchange.PolicyVerdict {
	switch e.kind {
	case isFile:
		return p.answer(x, e, p.choose(x, e))
	case isListing:
		return p.answer(x, e, e.files[listingFor(x)])
	case isDirectory:
		return toSlash(x)
	case isForbidden:
		return x.Refuse(403, unreadable)
	case isMissing:
		if p.o.Fallback && !last {
			return p.find(x, p.index, true)
		}
	}
	return x.Refuse(404, noFile)
}

// errand is the disk work that a held exchange waits for. state decides who owns the entry: the
// loop or the goroutine that does the work.
type errand struct {
	state errandState
	entry *entry // held, once the errand is done; nil if err is not nil
	err   error
}

// wait holds the exchange until its entry is known.
func (p *Policy) wait(x *exchange.Exchange, key string, last bool) exchange.PolicyVerdict {
	part := &p.parts[x.Loop()]
	if !p.store.admit() {
		part.counts.refused.Add(1)
		x.Refuse(503, busy)
		x.RetryAfter(1)
		return exchange.Answered
	}
	part.counts.loads.Add(1)
	e := &errand{}
	part.held[x] = e
	hold := x.HoldUntil(x.Now()+int64(p.o.MaxWait), 503, busy)
	go p.store.errand(key, e, func() {
		hold.Resume(func(x *exchange.Exchange) exchange.PolicyVerdict { return p.arrived(x, e, last) })
	})
	return exchange.Held
}

// arrived continues with what a goroutine found.
func (p *Policy) arrived(x *exchange.Exchange, e *errand, last bool) exchange.PolicyVerdict {
	delete(p.parts[x.Loop()].held, x)
	if e.err != nil {
		if outOfDescriptors(e.err) {
			x.Refuse(503, busy)
			x.RetryAfter(1)
			return exchange.Answered
		}
		return x.Refuse(500, unreadable)
	}
	defer e.entry.release()
	return p.serve(x, e.entry, last)
}

// OnDone implements exchange.DonePolicy: the exchange no longer waits for its errand.
func (p *Policy) OnDone(x *exchange.Exchange, _ exchange.End) {
	part := &p.parts[x.Loop()]
	if len(part.held) == 0 {
		return
	}
	if e := part.held[x]; e != nil {
		delete(part.held, x)
		if !e.state.leave() && e.entry != nil {
			e.entry.release()
		}
	}
}

// toSlash redirects the client to the path with a slash at its end. The path is canonical: it
// begins with one slash and contains nothing that ends a header field.
func toSlash(x *exchange.Exchange) exchange.PolicyVerdict {
	path, query := x.Request.Path, x.Request.Query
	n := len(path) + 1
	if len(query) > 0 {
		n += 1 + len(query)
	}
	to := append(append(x.Alloc(n)[:0], path...), '/')
	if len(query) > 0 {
		to = append(append(to, '?'), query...)
	}
	x.Answer(301, exchange.RouteAnswer, nil)
	f := x.Response.Fields.Extend(head.Location)
	f.Name, f.Value = locationName, to
	return exchange.Answered
}

var locationName = []byte(head.Text[head.Location])
