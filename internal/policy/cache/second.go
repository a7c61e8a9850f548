package cache

import (
	"bytes"
	"sync/atomic"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/cache/tier"
	"plimsoll/internal/reactor"
	"plimsoll/internal/redis"
)

// second is a fetch's use of the second tier: the fetch looks there before it goes to the upstream,
// and writes the upstream's response there. The look-up runs on its own goroutine while the fetch's
// exchange is held, for at most as long as the tier allows. An atomic word decides whether the
// goroutine or the loop's timeout came first. A nil second does nothing.
type second struct {
	f       *fetch
	tier    *tier.Tier
	call    *redis.Call
	word    atomic.Uint32 // asking, brought or left
	silent  bool          // no look-up: only the origin's answer is wanted
	refresh bool          // a stale response is already stored

	brings brings // owned by the goroutine until it has set brought, then by the loop

	// Owned by the loop:
	found    tier.Found // without a record
	answers  bool       // the second tier's response has ended the fetch
	written  tier.Response
	writable bool // the fetched response is to be written
}

// brings is the result of a look-up.
type brings struct {
	found   tier.Found
	entry   *store.Entry // held: what was found, as an entry of the memory; nil for nothing useful
	fresh   bool         // it answers; otherwise it must be revalidated
	ifError bool         // it may be served if that fails
}

const (
	asking uint32 = iota
	brought
	left // the fetch no longer waits
)

// newSecond returns nil if there is no second tier.
func newSecond(f *fetch) *second {
	t := f.p.o.Memory.Tier()
	if t == nil {
		return nil
	}
	return &second{f: f, tier: t}
}

// silence prevents the look-up.
func (s *second) silence() {
	if s != nil {
		s.silent = true
	}
}

// FetchBegin implements exchange.BeginningSink: it begins the look-up in the second tier.
func (f *fetch) FetchBegin(x *exchange.Exchange) exchange.PolicyVerdict {
	s := f.second
	if s == nil {
		return exchange.Continue
	}
	s.found.Mark = s.tier.Mark() // as of now: a later purge invalidates the response
	s.refresh = f.stale != nil
	if s.silent {
		return exchange.Continue
	}
	call, _ := s.tier.Admit()
	if call == nil {
		return exchange.Continue
	}
	f.p.o.Memory.hold() // a look-up may outlive its fetch
	q := s.query()
	if call.Trial() { // it tries a Redis that has failed, so no request waits for it
		go func() {
			s.tier.Ask(call, q)
			s.releaseMemory()
		}()
		return exchange.Continue
	}
	s.call = call
	most := s.tier.Timeout()
	if q.Locks {
		most += s.tier.Lock()
	}
	hold := x.HoldThen(x.Now()+int64(most), s.late)
	go s.look(hold, q)
	return exchange.Held
}

func (s *second) query() *tier.Query {
	f := s.f
	return &tier.Query{Key: f.primary, URI: f.uri, Fetch: f.fill.Key(), Variant: f.variant, Now: now,
		Locks: !s.refresh && s.tier.Lock() > 0}
}

// now is the time, for goroutines.
func now() rules.Instant {
	return rules.Instant{Mono: reactor.Clock(), Wall: reactor.Wall().UnixNano()}
}

func (s *second) releaseMemory() {
	s.f.p.Close() // releases the memory, and logs a failure
}

// look does the look-up and makes an entry from what it finds. It runs on a goroutine.
func (s *second) look(hold exchange.Hold, q *tier.Query) {
	defer s.releaseMemory()
	s.brings.found = s.tier.Look(s.call, q)
	if s.brings.found.Outcome == tier.Hit {
		s.make(&s.brings, q)
	}
	if !s.word.CompareAndSwap(asking, brought) {
		s.drop(&s.brings)
		return
	}
	hold.Resume(s.goOn)
}

// make makes an entry from what was found, if the rules can use it. This decision does not depend
// on a client: the rules are applied separately for each waiting request.
func (s *second) make(b *brings, q *tier.Query) {
	f, found, r := s.f, &b.found, &b.found.Record
	var request rules.Request
	request.Read(&f.request)
	request.Own()
	c := rules.Circumstances{Now: q.Now(), Purged: found.Soft}
	d := f.p.o.Rules.Decide(&request, &r.Meta, r.Block, &c)
	b.fresh = d.Action == rules.Serve || d.Action == rules.ServeAndRefresh && !s.refresh
	b.ifError = d.StaleIfError
	if !b.fresh && (s.refresh || d.Action != rules.Revalidate && d.Action != rules.ServeAndRefresh) {
		return
	}
	key := f.primary
	if found.Names != nil {
		names, ok := f.mergeVary(found.Names)
		if !ok {
			return
		}
		found.Names = names
		key = f.variant(names)
	}
	h := store.Head{Key: key, URI: f.uri, Block: r.Block, Meta: r.Meta, Tags: r.Tags, Cost: r.Cost}
	if e, err := f.fill.Make(&h, r.Body, found.Soft); err == nil {
		b.entry = e
	}
	found.Record = tier.Record{}
}

// drop releases an unused result.
func (s *second) drop(b *brings) {
	if b.entry != nil {
		b.entry.Release()
	}
	s.tier.Unlock(b.found.Lock)
	*b = brings{}
}

// unlock releases the lock, so that other instances fetch the resource themselves.
func (s *second) unlock() {
	if s != nil {
		s.tier.Unlock(s.found.Lock)
		s.found.Lock = nil
	}
}

// late goes on without the second tier.
func (s *second) late(x *exchange.Exchange) exchange.PolicyVerdict {
	if !s.word.CompareAndSwap(asking, left) {
		return s.goOn(x) // the look-up has ended at this moment
	}
	s.call.Late()
	return exchange.Continue
}

// goOn goes on with what was found.
func (s *second) goOn(x *exchange.Exchange) exchange.PolicyVerdict {
	b := s.brings
	s.brings = brings{}
	f, e := s.f, b.entry
	if s.found = b.found; e == nil {
		return exchange.Continue
	}
	if names := s.found.Names; names != nil && f.p.o.Memory.SetVary(f.primary, f.uri, names) != nil {
		e.Release()
		return exchange.Continue
	}
	if b.fresh {
		s.answers = true
		f.fill.Take(e)
		x.Answer(200, Stored, nil)
		return exchange.Answered
	}
	// Other requests can find it too, in case the upstream fails.
	f.fill.Offer(e)
	f.stale, f.asks = e, true
	if f.owner != nil && !f.owner.closed {
		e.Hold()
		f.owner.stale, f.owner.ifError = e, b.ifError && f.p.mayStand(x, e)
	}
	f.p.o.Rules.Validate(&x.Request.Fields, &e.Meta, e.Block())
	return exchange.Continue
}

// answered reports whether the second tier's response has ended the fetch.
func (s *second) answered() bool { return s != nil && s.answers }

// varies records the names by which the response that is being stored varies.
func (s *second) varies(names []byte) {
	if s != nil {
		s.written.Primary, s.written.Vary = s.f.primary, names
	}
}

// head records that a response is being stored and must be written.
func (s *second) head(h *store.Head) {
	if s == nil {
		return
	}
	s.writable = true
	for _, tag := range h.Tags {
		s.written.Tags = append(s.written.Tags, bytes.Clone(tag))
	}
}

// renewed writes a revalidated response. It does not write one whose tags were not repeated,
// because it could not be purged by them.
func (s *second) renewed(h *store.Head, old *store.Entry) {
	if s == nil || len(h.Tags) == 0 && old.Tagged() {
		return
	}
	e := s.f.p.o.Memory.Peek(h.Key)
	if e == nil {
		return
	}
	if !bytes.Equal(h.Key, s.f.primary) {
		if marker := s.f.p.o.Memory.Peek(s.f.primary); marker != nil {
			s.varies(bytes.Clone(marker.Vary()))
			marker.Release()
		}
	}
	s.head(h)
	s.write(e)
}

// entry returns what the fetch has stored and must be written, held; nil for nothing. It must be
// called before the fill ends.
func (s *second) entry() *store.Entry {
	if s == nil || !s.writable || s.answers {
		return nil
	}
	return s.f.fill.Entry()
}

// write passes an entry, with the caller's reference, to the tier.
func (s *second) write(e *store.Entry) {
	r := &s.written
	r.Entry, r.Mark, r.Lock = e, s.found.Mark, s.found.Lock
	r.More = s.f.p.o.Rules.StaleUnderPressure
	s.writable, s.found.Lock = false, nil
	s.tier.Write(*r)
}

// end is called when the fetch is over. e is what it has stored; whole says that it is complete.
func (s *second) end(e *store.Entry, whole bool) {
	switch {
	case s == nil:
		return
	case e != nil && whole:
		s.write(e)
	case e != nil:
		e.Release()
	}
	if s.call != nil && !s.word.CompareAndSwap(asking, left) && s.word.Load() == brought {
		s.drop(&s.brings) // empty if it was taken
	}
	s.unlock()
}
