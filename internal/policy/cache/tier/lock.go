package tier

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// One instance fetches what no instance has, and the others look again until it is there: not
// longer than the lock lasts, and not after its owner has released it without writing anything.

// Lock is held by this instance until Unlock, or until its time is over.
type Lock struct{ name, token string }

const (
	firstLook = 5 * time.Millisecond // before a waiter looks again; doubled each time, up to
	nextLooks = 50 * time.Millisecond
)

// release deletes a lock that is still its owner's. KEYS: the lock. ARGV: the token.
var releaseScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)

// lock takes the lock for what was not found, or waits for the instance that has it. It returns
// what there is then.
func (t *Tier) lock(q *Query, f Found) Found {
	key := q.Fetch
	if f.Names != nil {
		key = q.Variant(f.Names)
	}
	l := &Lock{t.name("lock:", key), strconv.FormatUint(t.o.Random(), 16)}
	call, err := t.reader.Admit()
	if err != nil {
		return f
	}
	err = call.Run(func(ctx context.Context, client rueidis.Client) error {
		err := client.Do(ctx, client.B().Set().Key(l.name).Value(l.token).Nx().PxMilliseconds(
			t.o.Lock.Milliseconds()).Build()).Error()
		if rueidis.IsRedisNil(err) {
			l = nil // another instance has it
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		t.stats.locksFailed.Add(1)
		return f
	case l != nil:
		t.stats.locksTaken.Add(1)
		f.Lock = l
		return f
	}
	return t.await(q, f, t.name("lock:", key))
}

// await looks again until something is there or the lock is gone.
func (t *Tier) await(q *Query, f Found, lock string) Found {
	t.stats.locksAwaited.Add(1)
	deadline := q.Now().Mono + int64(t.o.Lock)
	for wait := firstLook; ; wait = min(2*wait, nextLooks) {
		left := time.Duration(deadline - q.Now().Mono)
		if left <= 0 || !t.pause(min(wait, left)) {
			return f
		}
		call, err := t.reader.Admit()
		if err != nil {
			return f
		}
		held := false
		// Check the lock before the value: the holder writes the value before it releases the lock.
		err = call.Run(func(ctx context.Context, client rueidis.Client) error {
			n, err := client.Do(ctx, client.B().Exists().Key(lock).Build()).AsInt64()
			held = n > 0
			return err
		})
		if err != nil {
			return f
		}
		if call, err = t.reader.Admit(); err != nil {
			return f
		}
		f = t.look(call, q)
		switch f.Outcome {
		case Hit:
			t.stats.locksServed.Add(1)
			return f
		case Absent, AbsentVariant, Purged:
		default:
			return f
		}
		if !held {
			return f
		}
	}
}

// Unlock releases a lock in the background. A nil lock is ignored.
func (t *Tier) Unlock(l *Lock) {
	if l == nil {
		return
	}
	t.reader.Aside(func(ctx context.Context, client rueidis.Client) error {
		return releaseScript.Exec(ctx, client, []string{l.name}, []string{l.token}).Error()
	})
}
