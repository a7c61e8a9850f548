package tier

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A purge goes to Redis by a script, which counts it, notes what it means, and tells the others by
// a message that says no more than that there is something new. Every instance then reads from the
// log what it has not seen, in order. So a message that is lost, or a connection, is made good by
// the next one, by a look-up that finds a higher count, by being connected again, and within
// followEvery in any case. An instance for which the log does not go back far enough, or which
// finds another epoch, forgets all that it has.
const (
	followEvery = 10 * time.Second
	retryEvery  = 250 * time.Millisecond
	maxBatch    = 64 // purges per call
)

// KEYS: state, prefixes, log. ARGV of both begin with a name for a new epoch.
const epochPart = `
local id = redis.call('HGET', KEYS[1], 'id')
if not id then
  id = ARGV[1]
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
  redis.call('HSET', KEYS[1], 'id', id)
end
`

var (
	// ARGV: epoch, channel, instance, length of the log, of the prefixes; then kind and way, slot
	// and name of each purge.
	purgeScript = rueidis.NewLuaScript(epochPart + `
local n = 0
for i = 6, #ARGV, 3 do
  n = redis.call('HINCRBY', KEYS[1], 'n', 1)
  local kind, way, name = string.sub(ARGV[i], 1, 1), string.sub(ARGV[i], 2, 2), ARGV[i + 2]
  if kind == 'a' then redis.call('HSET', KEYS[1], 'all' .. way, n)
  elseif kind == 'p' then
    redis.call('RPUSH', KEYS[2], n .. ' ' .. way .. ' ' .. name)
    redis.call('HSET', KEYS[1], 'p', n)
    if redis.call('LLEN', KEYS[2]) > tonumber(ARGV[5]) then
      local first = tonumber(string.match(redis.call('LPOP', KEYS[2]), '^%d+'))
      local all = tonumber(redis.call('HGET', KEYS[1], 'allh') or 0)
      redis.call('HSET', KEYS[1], 'allh', math.max(first, all))
    end
  else redis.call('HSET', KEYS[1], way .. ARGV[i + 1], n) end
  redis.call('RPUSH', KEYS[3], n .. ' ' .. ARGV[i] .. ' ' .. ARGV[3] .. ' ' .. name)
end
redis.call('LTRIM', KEYS[3], -tonumber(ARGV[4]), -1)
redis.call('PUBLISH', ARGV[2], n)
return {id, tostring(n)}
`)
	// ARGV: epoch, the count that was seen last, and its epoch.
	followScript = rueidis.NewLuaScript(epochPart + `
local n = tonumber(redis.call('HGET', KEYS[1], 'n') or 0)
local answer = {id, tostring(n)}
if id ~= ARGV[3] or n <= tonumber(ARGV[2]) then return answer end
for _, line in ipairs(redis.call('LRANGE', KEYS[3], tonumber(ARGV[2]) - n, -1)) do
  answer[#answer + 1] = line
end
return answer
`)
)

func (t *Tier) historyKeys() []string {
	return []string{t.historyKey("state"), t.historyKey("prefixes"), t.historyKey("log")}
}

// ErrHere says that a purge has so far taken effect only in this instance.
var ErrHere = errors.New("it holds in this instance alone so far: Redis does not answer, and is " +
	"told as soon as " +
	"it does")

// Outdate purges in Redis and in the other instances what was purged here. It does not wait. For
// this instance's own look-ups it takes effect at once. The name is copied.
func (t *Tier) Outdate(kind Kind, name []byte, soft bool) {
	t.purges.add(Purge{kind, soft, bytes.Clone(name)}, nil)
}

// Purge is Outdate for several purges, and waits until Redis has them. It returns ErrHere if ctx
// ends before that.
func (t *Tier) Purge(ctx context.Context, all []Purge) error {
	done := make(chan struct{}, len(all))
	for _, one := range all {
		own := make(chan struct{}, 1)
		t.purges.add(one, own)
		go func() {
			select {
			case <-own:
				done <- struct{}{}
			case <-ctx.Done():
			case <-t.ctx.Done():
			}
		}()
	}
	for range all {
		select {
		case <-done:
		case <-ctx.Done():
			return ErrHere
		case <-t.ctx.Done():
			return ErrHere
		}
	}
	return nil
}

// send sends purges to Redis until the tier ends.
func (t *Tier) send() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.purges.more:
		}
		list, number := t.purges.before()
		batch := list[:min(len(list), maxBatch)]
		if len(batch) == 0 {
			continue
		}
		if err := t.sendBatch(batch); err != nil {
			t.stats.purgeFailed.Add(1)
			poke(t.purges.more)
			if !t.pause(retryEvery) {
				return
			}
			continue
		}
		t.stats.purgesSent.Add(int64(len(batch)))
		t.purges.took(batch, number)
	}
}

func (t *Tier) sendBatch(batch []wanted) error {
	args := []string{t.newEpoch(), t.o.Channel, t.instance, strconv.Itoa(logLength),
		strconv.Itoa(maxPrefixes)}
	for i := range batch {
		p := &batch[i].Purge
		args = append(args, string([]byte{byte(p.Kind), p.way()}), slotOf(p.Name), string(p.Name))
	}
	return t.call(func(ctx context.Context, client rueidis.Client) error {
		return purgeScript.Exec(ctx, client, t.historyKeys(), args).Error()
	})
}

// newEpoch is a name for a new epoch, in case one must begin.
func (t *Tier) newEpoch() string { return strconv.FormatUint(t.o.Random(), 16) }

// call makes a call on the writer's connection, in the background.
func (t *Tier) call(do func(ctx context.Context, client rueidis.Client) error) error {
	call, err := t.writer.Admit()
	if err != nil {
		return err
	}
	return call.Run(do)
}

// listen keeps a subscription to the channel until the tier ends.
func (t *Tier) listen() {
	for {
		if err := t.subscribe(); err != nil && t.ctx.Err() == nil {
			t.stats.lost.Add(1)
		}
		t.stats.subscribed.Store(false)
		if !t.pause(retryEvery) {
			return
		}
	}
}

func (t *Tier) subscribe() error {
	ctx, cancel := context.WithTimeout(t.ctx, writeTime)
	client, err := t.writer.Connect(ctx)
	cancel()
	if err != nil {
		return err
	}
	// Purges that were missed before the subscription are found once it exists.
	listening := rueidis.WithOnSubscriptionHook(t.ctx, func(rueidis.PubSubSubscription) {
		t.stats.subscribed.Store(true)
		poke(t.purges.news)
	})
	subscribe := client.B().Subscribe().Channel(t.o.Channel).Build()
	return client.Receive(listening, subscribe, func(rueidis.PubSubMessage) { poke(t.purges.news) })
}

// observe compares the history that a look-up has seen with this instance's.
func (t *Tier) observe(seen Mark) {
	if now := t.Mark(); seen.Epoch != now.Epoch || seen.Count > now.Count {
		poke(t.purges.news)
	}
}

// follow applies the purges of other instances until the tier ends.
func (t *Tier) follow() {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if err := t.catchUp(); err != nil && !t.pause(retryEvery) {
			return
		} else if err != nil {
			continue
		}
		select {
		case <-t.ctx.Done():
			return
		case <-t.purges.news:
		case <-tick.C:
		}
	}
}

// catchUp reads the log from this instance's position on, and advances the position.
func (t *Tier) catchUp() error {
	at := t.Mark()
	var lines []string
	err := t.call(func(ctx context.Context, client rueidis.Client) (err error) {
		args := []string{t.newEpoch(), strconv.FormatInt(at.Count, 10), at.Epoch}
		lines, err = followScript.Exec(ctx, client, t.historyKeys(), args).AsStrSlice()
		return err
	})
	if err != nil {
		return err
	}
	if len(lines) < 2 {
		return errHistory
	}
	now := Mark{Epoch: lines[0]}
	if now.Count, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return errHistory
	}
	if now.Epoch == at.Epoch && now.Count == at.Count {
		return nil
	}
	lines = lines[2:]
	if now.Epoch != at.Epoch || now.Count < at.Count || int64(len(lines)) != now.Count-at.Count {
		t.o.Forget()
		if at.Epoch != "" {
			t.stats.forgotten.Add(1)
		}
	} else if err := t.apply(lines); err != nil {
		return err
	}
	t.mark.Store(&now)
	return nil
}

// apply applies the purges in lines of the log, except this instance's own.
func (t *Tier) apply(lines []string) error {
	for _, line := range lines {
		_, rest, _ := strings.Cut(line, " ")
		what, rest, _ := strings.Cut(rest, " ")
		instance, name, ok := strings.Cut(rest, " ")
		if !ok || len(what) != 2 {
			return errHistory
		}
		if instance == t.instance {
			continue
		}
		p := Purge{Kind: Kind(what[0]), Soft: what[1] == 's', Name: []byte(name)}
		if err := t.o.Purged(p); err != nil {
			return err
		}
		t.stats.purgesReceived.Add(1)
	}
	return nil
}
