package tier

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"plimsoll/internal/hash"
)

// The history of purges is in Redis, and all of it that counts is asked for with every look-up, so that
// nothing is served from there that was purged, whatever this instance has heard. Three keys have it:
//
//	state     a hash: the epoch's name (id), the count of purges (n); and the counts at which were purged
//	          last: everything (allh, alls), a prefix (p), a URI or tag (h or s and its slot)
//	prefixes  a list of the last prefixes: count, h or s, prefix
//	log       a list of the last purges of any kind, for instances that were away: see sync.go
//
// A record has the epoch and the count of when its fetch began; a purge with a higher count
// outdates it. URIs and tags share a table of slots, as in the memory: a purge takes with it what
// shares its slot. When more prefixes are purged than the list has, the oldest purges everything
// that is older. A Redis that has lost the state begins a new epoch, in which nothing counts that
// was written before.
const (
	slots       = 1 << 16
	maxPrefixes = 64
	logLength   = 10_000
)

// Kind says what a purge means.
type Kind byte

// The kinds of purges.
const (
	URI    Kind = 'u' // a URI, as rules.Key.AppendURI makes it
	Tag    Kind = 't'
	Prefix Kind = 'p' // keys that begin so
	All    Kind = 'a'
)

// Purge is what instances tell each other.
type Purge struct {
	Kind Kind
	Soft bool // makes stale instead of forgetting
	Name []byte
}

func (p *Purge) way() byte {
	if p.Soft {
		return 's'
	}
	return 'h'
}

func slotOf(name []byte) string {
	return strconv.FormatUint(hash.Below(hash.Bytes(2, name), slots), 10)
}

// historyKey names the three keys, which are on one server of a cluster.
func (t *Tier) historyKey(what string) string { return t.o.Redis.Prefix + "cache:{purges}:" + what }

// words are what Redis says about purges that may concern any record of a URI.
type words struct {
	Mark
	all, allSoft, uri, uriSoft, prefix int64
}

// wordsCommand is the command that reads them.
func (t *Tier) wordsCommand(client rueidis.Client, uri []byte) rueidis.Completed {
	slot := slotOf(uri)
	return client.B().Hmget().Key(t.historyKey("state")).
		Field("id", "n", "allh", "alls", "h"+slot, "s"+slot, "p").Build()
}

var errHistory = errors.New("the history of purges in Redis is not in the form that this version writes")

// readWords reads the answer. The epoch is empty if Redis has no history.
func readWords(r rueidis.RedisResult) (w words, err error) {
	list, err := r.ToArray()
	if err != nil {
		return w, err
	}
	if len(list) != 7 {
		return w, errHistory
	}
	if w.Epoch, err = list[0].ToString(); err != nil {
		if rueidis.IsRedisNil(err) {
			return words{}, nil
		}
		return w, err
	}
	for i, to := range [...]*int64{&w.Count, &w.all, &w.allSoft, &w.uri, &w.uriSoft, &w.prefix} {
		if *to, err = number(list[i+1]); err != nil {
			return w, err
		}
	}
	return w, nil
}

// number is a field's value; 0 if it is absent.
func number(m rueidis.RedisMessage) (int64, error) {
	text, err := m.ToString()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errHistory
	}
	return n, nil
}

// verdict says whether and how a record was purged.
type verdict uint8

const (
	good verdict = iota
	soft         // softly purged
	gone
)

// judge says whether a record was purged, according to the history. before are the purges of this
// instance that Redis did not have yet when the look-up began.
func (t *Tier) judge(
	ctx context.Context, client rueidis.Client, r *Record, uri []byte, w *words, before []wanted,
) (verdict, error) {
	if r.Epoch != w.Epoch || r.Count > w.Count || w.all > r.Count || w.uri > r.Count {
		return gone, nil
	}
	v := good
	if w.allSoft > r.Count || w.uriSoft > r.Count {
		v = soft
	}
	for i := range before {
		v = max(v, before[i].judge(r, uri))
	}
	if v == gone || len(r.Tags) == 0 && w.prefix <= r.Count {
		return v, nil
	}
	more, err := t.judgeMore(ctx, client, r)
	return max(v, more), err
}

// judgeMore checks the record's tags and the prefixes in Redis.
func (t *Tier) judgeMore(ctx context.Context, client rueidis.Client, r *Record) (v verdict, err error) {
	fields := []string{"p"} // a command needs one
	for _, tag := range r.Tags {
		slot := slotOf(tag)
		fields = append(fields, "h"+slot, "s"+slot)
	}
	answers := client.DoMulti(ctx,
		client.B().Hmget().Key(t.historyKey("state")).Field(fields...).Build(),
		client.B().Lrange().Key(t.historyKey("prefixes")).Start(0).Stop(-1).Build())
	tags, err := answers[0].ToArray()
	if err != nil || len(tags) != len(fields) {
		return gone, errors.Join(err, answers[1].Error())
	}
	for i := 1; i < len(tags); i++ {
		n, err := number(tags[i])
		switch {
		case err != nil:
			return gone, err
		case n > r.Count && i%2 == 1:
			return gone, nil
		case n > r.Count:
			v = soft
		}
	}
	list, err := answers[1].AsStrSlice()
	if err != nil {
		return gone, err
	}
	for _, line := range list {
		count, rest, _ := strings.Cut(line, " ")
		way, prefix, ok := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(count, 10, 64)
		switch {
		case err != nil || !ok:
			return gone, errHistory
		case n <= r.Count || !bytes.HasPrefix(r.Key, []byte(prefix)):
		case way == "h":
			return gone, nil
		default:
			v = soft
		}
	}
	return v, nil
}

// wanted is a purge of this instance that Redis does not have yet.
type wanted struct {
	Purge
	done chan struct{} // receives a value when Redis has it; nil if no caller waits
}

// judge says whether the purge affects a record.
func (w *wanted) judge(r *Record, uri []byte) verdict {
	meant := w.Kind == All
	switch w.Kind {
	case URI:
		meant = bytes.Equal(w.Name, uri)
	case Prefix:
		meant = bytes.HasPrefix(r.Key, w.Name)
	case Tag:
		meant = slices.ContainsFunc(r.Tags, func(tag []byte) bool { return bytes.Equal(tag, w.Name) })
	}
	switch {
	case !meant:
		return good
	case w.Soft:
		return soft
	}
	return gone
}

// maxWanted is how many purges may wait for Redis. If there are more, everything is purged instead.
const maxWanted = 1000

// purges are the purges of this instance that Redis does not have yet. They take effect at once for
// the instance's own look-ups.
type purges struct {
	mu     sync.Mutex // held for moments: loops add
	wanted []wanted
	lists  int           // how often the list was replaced
	more   chan struct{} // has an element when there is something to send
	news   chan struct{} // has an element when others may have purged something
}

func (p *purges) init() { p.more, p.news = make(chan struct{}, 1), make(chan struct{}, 1) }

// add queues a purge. It does not wait, so loops may call it. done, if not nil, receives a value
// when Redis has the purge.
func (p *purges) add(one Purge, done chan struct{}) {
	p.mu.Lock()
	if len(p.wanted) >= maxWanted {
		p.wanted = []wanted{{Purge: Purge{Kind: All}}}
		p.lists++
	}
	p.wanted = append(p.wanted, wanted{one, done})
	p.mu.Unlock()
	poke(p.more)
}

// before returns the purges that wait now. The returned list does not change; its number
// distinguishes it from a list that replaces it.
func (p *purges) before() (list []wanted, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted[:len(p.wanted):len(p.wanted)], p.lists
}

// took removes a batch that Redis has now from the front of the list with this number.
func (p *purges) took(batch []wanted, number int) {
	p.mu.Lock()
	if p.lists == number {
		p.wanted = p.wanted[len(batch):]
	}
	left := len(p.wanted)
	p.mu.Unlock()
	for i := range batch {
		poke(batch[i].done)
	}
	if left > 0 {
		poke(p.more)
	}
}

// poke sends to a channel if it has room.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
