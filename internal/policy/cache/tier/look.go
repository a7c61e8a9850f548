package tier

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/redis"
)

// Outcome says what a look-up has found, and if nothing, why.
type Outcome uint8

// The outcomes. All but Hit are misses.
const (
	Hit           Outcome = iota
	Absent                // nothing is there
	AbsentVariant         // only for other values of what it varies by
	Purged                // it was there, and was purged
	Garbage               // what is there cannot be read: damaged, cut off, or of something else
	OtherVersion          // another version of the gateway has written it
	OtherKey              // it is of another key with the same name
	TooLong               // it is longer than this instance takes
	TimedOut              // Redis did not answer in time
	Failed                // Redis answered with an error, or the connection broke
	LeftAlone             // Redis was not asked, because it has failed a moment ago
	Busy                  // it was not asked, because too many look-ups were under way
	Outcomes
)

var outcomeLabels = [Outcomes]string{
	Hit: "hit", Absent: "absent", AbsentVariant: "absent_variant", Purged: "purged", Garbage: "garbage",
	OtherVersion: "other_version", OtherKey: "other_key", TooLong: "too_long", TimedOut: "timeout",
	Failed: "error", LeftAlone: "open", Busy: "busy",
}

// Label is the outcome in a word, for counters.
func (o Outcome) Label() string { return outcomeLabels[o] }

// Query is what is looked up. Its bytes are the caller's, and stay what they are until the look-up
// is over.
type Query struct {
	Key []byte // the primary one
	URI []byte // its part that is the URI's
	// Fetch is the key under which others fetch the same, for the lock.
	Fetch []byte
	// Variant makes the key of what varies by names. Any goroutine.
	Variant func(names []byte) []byte
	// Now is the time. Any goroutine.
	Now func() rules.Instant
	// Locks: who finds nothing takes the lock, or waits for who has it.
	Locks bool
}

// Found is what came of a look-up.
type Found struct {
	Outcome Outcome
	Record  Record // where Outcome is Hit
	Soft    bool   // it was purged softly
	Names   []byte // by which responses vary, nil where that is not known
	Mark    Mark   // what is fetched now is to be written with it
	Lock    *Lock  // held; nil for none
}

// Admit says whether a look-up may be made now, and if not, why. Loops may ask.
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

// Look looks up, on the caller's goroutine, and counts what has come of it. It takes as long as
// Timeout and, where it locks, Lock allow.
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

// Ask looks up for nobody: it finds out whether Redis answers again.
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

// lookAt looks at one key. What is wrong with its value is not an error: Redis answers.
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
		f.Outcome = Garbage // another type of value, as it seems: the server answers others
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

// longest is more than the longest value that is written takes.
func (t *Tier) longest() int64 { return t.o.MaxObject + rules.MaxBlock + 256<<10 }
