package tier

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/redis"
)

// Outcome says what a look-up has found, or why it has found nothing.
type Outcome uint8

// The outcomes. All but Hit are misses.
const (
	Hit           Outcome = iota
	Absent                // nothing is there
	AbsentVariant         // only for other values of the fields it varies by
	Purged                // it was purged
	Garbage               // the value is invalid: damaged, truncated, or something else
	OtherVersion          // written by another version of the gateway
	OtherKey              // of another key with the same name
	TooLong               // longer than this instance accepts
	TimedOut              // Redis did not answer in time
	Failed                // Redis answered with an error, or the connection broke
	LeftAlone             // Redis was not asked, because it has recently failed
	Busy                  // Redis was not asked, because too many look-ups were under way
	Outcomes
)

var outcomeLabels = [Outcomes]string{
	Hit: "hit", Absent: "absent", AbsentVariant: "absent_variant", Purged: "purged", Garbage: "garbage",
	OtherVersion: "other_version", OtherKey: "other_key", TooLong: "too_long", TimedOut: "timeout",
	Failed: "error", LeftAlone: "open", Busy: "busy",
}

// Label is the outcome in a word, for counters.
func (o Outcome) Label() string { return outcomeLabels[o] }

// Query is what to look up. Its bytes belong to the caller and must not change until the look-up is
// over.
type Query struct {
	Key []byte // the primary key
	URI []byte // the URI's part of it
	// Fetch is the key of the fetch, common to all instances, for the lock.
	Fetch []byte
	// Variant makes the key of the variant for names. Any goroutine may call it.
	Variant func(names []byte) []byte
	// Now is the time. Any goroutine may call it.
	Now func() rules.Instant
	// Locks: if nothing is found, take the lock, or wait for the instance that has it.
	Locks bool
}

// Found is the result of a look-up.
type Found struct {
	Outcome Outcome
	Record  Record // if Outcome is Hit
	Soft    bool   // it was softly purged
	Names   []byte // by which responses vary; nil if not known
	Mark    Mark   // to be written with what is fetched now
	Lock    *Lock  // held; nil for none
}

// Admit says whether a look-up may be made now, and if not, why. Loops may call it.
func (t *Tier) Admit() (*redis.Call, Outcome) {
	call, err := t.reader.Admit()
	switch {
	case err == nil:
		return call, Hit
	case errors.Is(err, redis.ErrBusy):
		t.stats.lookups[Busy].Add(1)
		return nil, Busy
	}
	t.stats.lookups[LeftAlone].Add(1)
	return nil, LeftAlone
}

// Look does a look-up on the caller's goroutine, and counts the outcome. It takes at most Timeout
// and, if it locks, Lock.
func (t *Tier) Look(call *redis.Call, q *Query) Found {
	began := q.Now().Mono
	f := t.look(call, q)
	t.stats.time(q.Now().Mono - began)
	if q.Locks && t.o.Lock > 0 && (f.Outcome == Absent || f.Outcome == AbsentVariant || f.Outcome == Purged) {
		f = t.lock(q, f)
	}
	t.stats.lookups[f.Outcome].Add(1)
	t.observe(f.Mark)
	return f
}

// Ask does a look-up without using the result, to find out whether Redis responds again.
func (t *Tier) Ask(call *redis.Call, q *Query) {
	t.look(call, q)
	t.stats.lookups[LeftAlone].Add(1)
}

func (t *Tier) look(call *redis.Call, q *Query) (f Found) {
	f.Mark = t.Mark()
	err := call.Run(func(ctx context.Context, client rueidis.Client) (err error) {
		f, err = t.lookAt(ctx, client, q, q.Key)
		if f.Outcome == Hit && f.Record.Vary != nil {
			names := f.Record.Vary
			f, err = t.lookAt(ctx, client, q, q.Variant(names))
			f.Names = names
			switch {
			case f.Outcome == Absent:
				f.Outcome = AbsentVariant
			case f.Outcome == Hit && f.Record.Vary != nil:
				f.Outcome = Garbage
			}
		}
		return err
	})
	switch {
	case err == nil:
		return f
	case redis.IsTimeout(err):
		f.Outcome = TimedOut
	default:
		f.Outcome = Failed
	}
	return Found{Outcome: f.Outcome, Mark: t.Mark()}
}

// lookAt looks at one key. An invalid value is not an error, because Redis has responded.
func (t *Tier) lookAt(ctx context.Context, client rueidis.Client, q *Query, key []byte) (f Found, err error) {
	before, _ := t.purges.before()
	longest := t.longest()
	answers := client.DoMulti(ctx,
		client.B().Getrange().Key(t.name("", key)).Start(0).End(longest).Build(),
		t.wordsCommand(client, q.URI))
	w, err := readWords(answers[1])
	if err != nil {
		return f, err
	}
	f.Mark = w.Mark
	value, err := answers[0].AsBytes()
	if _, says := rueidis.IsRedisErr(err); says && answers[1].Error() == nil {
		f.Outcome = Garbage // probably another type of value: the server answers other commands
		return f, nil
	}
	switch {
	case err != nil:
		return f, err
	case len(value) == 0:
		f.Outcome = Absent
		return f, nil
	case int64(len(value)) > longest:
		f.Outcome = TooLong
		return f, nil
	}
	if f.Record, f.Outcome = t.codec.read(value, key, q.Now()); f.Outcome != Hit {
		return f, nil
	}
	v, err := t.judge(ctx, client, &f.Record, q.URI, &w, before)
	if v == gone {
		f.Outcome = Purged
	}
	f.Soft = v == soft
	return f, err
}

// longest is more than the length of the longest value that is written.
func (t *Tier) longest() int64 { return t.o.MaxObject + rules.MaxBlock + 256<<10 }
