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

// second is a fetch's business with the second tier: before it goes to the upstream it looks there,
// and what the upstream brings is written there. The look-up runs on a goroutine of its own while
// the fetch's exchange is held, and no longer than the tier allows: who is late then, the goroutine
// or the loop, is settled by one word. A nil second does nothing.
type second struct {
	f       *fetch
	tier    *tier.Tier
	call    *redis.Call
	word    atomic.Uint32 // asking, brought or left
	silent  bool          // it is not looked into: only the origin's answer is wanted
	refresh bool          // something is stored already, and stale

	brings brings // the goroutine's until it has set brought, then the loop's

	// The loop's.
	found    tier.Found // without a record
	answers  bool       // it has ended the fetch
	written  tier.Response
	writable bool // what the fetch brings is to be written
}

// brings is what a look-up brings.
type brings struct {
	found   tier.Found
	entry   *store.Entry // held: what was found, as the memory has it; nil for nothing of use
	fresh   bool         // it answers; else it is to be revalidated
	ifError bool         // and may be served when that fails
}

const (
	asking uint32 = iota
	brought
	left // nobody waits any more
)

// newSecond is nil where there is no second tier.
func newSecond(f *fetch) *second {
	t := f.p.o.Memory.Tier()
	if t == nil {
		return nil
	}
	return &second{f: f, tier: t}
}

// silence keeps the fetch from looking there.
func (s *second) silence() {
	if s != nil {
		s.silent = true
	}
}

// FetchBegin implements exchange.BeginningSink: it looks in the second tier.
func (f *fetch) FetchBegin(x *exchange.Exchange) exchange.PolicyVerdict {
	s := f.second
	if s == nil {
		return exchange.Continue
	}
	s.found.Mark = s.tier.Mark() // of now: what is purged from here on outdates what comes
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
	if call.Trial() { // it tries a Redis that has failed, and nobody waits for that
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
	s.f.p.Close() // lets go of the memory, and says so where that fails
}

// look looks up and makes an entry of what is found, on a goroutine.
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

// make makes an entry of what was found, where the rules have a use for it. The client whose
// request began the fetch, and the others that wait, are asked apart: this is for anybody.
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

// drop lets go of what nobody has come for.
func (s *second) drop(b *brings) {
	if b.entry != nil {
		b.entry.Release()
	}
	s.tier.Unlock(b.found.Lock)
	*b = brings{}
}

// unlock lets others fetch what is not stored.
func (s *second) unlock() {
	if s != nil {
		s.tier.Unlock(s.found.Lock)
		s.found.Lock = nil
	}
}

// late goes on without the second tier.
func (s *second) late(x *exchange.Exchange) exchange.PolicyVerdict {
	if !s.word.CompareAndSwap(asking, left) {
		return s.goOn(x) // it was there just then
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
	// Others find it, too, should the upstream fail.
	f.fill.Offer(e)
	f.stale, f.asks = e, true
	if f.owner != nil && !f.owner.closed {
		e.Hold()
		f.owner.stale, f.owner.ifError = e, b.ifError && f.p.mayStand(x, e)
	}
	f.p.o.Rules.Validate(&x.Request.Fields, &e.Meta, e.Block())
	return exchange.Continue
}

// answered says whether the second tier's response has ended the fetch.
func (s *second) answered() bool { return s != nil && s.answers }

// varies notes by what the response varies that is being stored.
func (s *second) varies(names []byte) {
	if s != nil {
		s.written.Primary, s.written.Vary = s.f.primary, names
	}
}

// head notes that a response is being stored that is to be written.
func (s *second) head(h *store.Head) {
	if s == nil {
		return
	}
	s.writable = true
	for _, tag := range h.Tags {
		s.written.Tags = append(s.written.Tags, bytes.Clone(tag))
	}
}

// renewed writes what was revalidated. One whose tags were not said again is not written: nobody could
// purge it by them.
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

// entry is what the fetch has stored and is to be written, held; nil for nothing. It is asked for
// before the fill ends.
func (s *second) entry() *store.Entry {
	if s == nil || !s.writable || s.answers {
		return nil
	}
	return s.f.fill.Entry()
}

// write gives an entry, which the caller holds for it, to the tier.
func (s *second) write(e *store.Entry) {
	r := &s.written
	r.Entry, r.Mark, r.Lock = e, s.found.Mark, s.found.Lock
	r.More = s.f.p.o.Rules.StaleUnderPressure
	s.writable, s.found.Lock = false, nil
	s.tier.Write(*r)
}

// end is called when the fetch is over: e is what it has stored, whole where it is so.
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
		s.drop(&s.brings) // which is empty where it was taken
	}
	s.unlock()
}
