package shared

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// The scripts do for a key in Redis what a limit of one instance does for a word. They use the
// clock of the server that holds the key, so instances whose clocks differ or are set still agree.
//
// A key's value is three or four whole numbers in text:
//
//	bucket           when it was written (µs), what is owed then, what a token is worth
//	fixed window     index, count, period (µs)
//	sliding window   index, count, period (µs), count of the window before
//
// The debt is counted in eighths of a nanosecond, as in a limit of one instance. The third number
// is the rate under which the value was written. So the tokens that were taken remain taken under a
// new rate, and for two instances with different rates while a new configuration is rolled out. All
// numbers of Lua are doubles: times fit exactly; debts of more than 13 days are rounded to a few
// nanoseconds.
//
// Every key expires when it has nothing left to count. If the time goes back, the state is moved to
// the present instead of waiting for it.
//
// ARGV: kind, cost, token or count, depth or period (µs), requests; then, for giving back, the
// stamp and the debt of the answer that granted them. A script answers with the number granted, the
// wait until one would pass (µs), the tokens left, the time until all are available (µs), stamp and
// debt.
const (
	clockPart = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
`
	readPart = `
local kind, cost = ARGV[1], tonumber(ARGV[2])
local a, b, n = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local x, y, z, w
local state = redis.call('GET', KEYS[1])
if state then
  x, y, z, w = string.match(state, '^(%d+) (%d+) (%d+) ?(%d*)$')
  x, y, z, w = tonumber(x), tonumber(y), tonumber(z), tonumber(w) or 0
end
local function put(ms, ...)
  local text = {}
  for i, v in ipairs({...}) do text[i] = string.format('%.0f', v) end
  redis.call('SET', KEYS[1], table.concat(text, ' '), 'PX', string.format('%.0f', math.ceil(ms) + 1))
end
local function debt()
  if not x then return 0 end
  local owed = y
  if z ~= a then owed = math.ceil(owed * a / z) end
  return math.max(0, math.min(owed, b) - math.max(0, now - x) * 8000)
end
local function window()
  local index, before, count = math.floor(now / b), 0, 0
  if not x then return index, 0, 0 end
  if z == b then
    if x >= index then count, before = y, w elseif x == index - 1 then before = y end
  else
    local ends = (x + 1) * z
    if now < ends then count = y + math.ceil(w * math.min(z, ends - now) / z)
    elseif kind == 's' and now < ends + z then count = math.ceil(y * (ends + z - now) / z) end
  end
  if kind == 'f' then before = 0 end
  return index, before, count
end
`
	takePart = `
if kind == 'b' then
  local owed, take = debt(), cost * a
  local granted = math.max(0, math.min(n, math.floor((b - owed) / take)))
  if granted > 0 or x and x > now then
    owed = owed + granted * take
    put(owed / 8000000, now, owed, a)
  end
  local wait = 0
  if granted == 0 then wait = math.ceil((owed + take - b) / 8000) end
  return {granted, wait, math.floor(math.max(0, b - owed) / a), math.ceil(owed / 8000), now, owed}
end
local index, before, count = window()
local left = (index + 1) * b - now
local function weight() return count + math.ceil(before * left / b) end
local granted = math.max(0, math.min(n, math.floor((a - weight()) / cost)))
if granted > 0 or x and z == b and x > index then
  count = count + granted * cost
  if kind == 's' then put((left + b) / 1000, index, count, b, before)
  else put(left / 1000, index, count, b) end
end
local wait, reset = 0, left
if kind == 's' then reset = b end
if granted == 0 then
  wait = left
  if kind == 's' then
    local start, shrink, rest = index * b, before, a - cost - count
    if rest < 0 then start, shrink, rest = start + b, count, a - cost end
    wait = start + math.ceil(b * (shrink - rest) / shrink) - now
  end
end
return {granted, wait, math.max(0, a - weight()), reset, index, 0}
`
	backPart = `
local stamp, owed = tonumber(ARGV[6]), tonumber(ARGV[7])
if not x or z ~= (kind == 'b' and a or b) then return 0 end
if kind == 'b' then
  local back = math.min(n * cost * a, math.max(0, owed - math.max(0, now - stamp) * 8000))
  local rest = math.max(0, debt() - back)
  if rest > 0 then put(rest / 8000000, now, rest, a) else redis.call('DEL', KEYS[1]) end
  return 1
end
local index, before, count = window()
if stamp == index then count = math.max(0, count - n * cost)
elseif stamp == index - 1 then before = math.max(0, before - n * cost) end
local left = (index + 1) * b - now
if kind == 's' then put((left + b) / 1000, index, count, b, before) else put(left / 1000, index, count, b) end
return 1
`
)

var (
	takeScript = rueidis.NewLuaScript(clockPart + readPart + takePart)
	backScript = rueidis.NewLuaScript(clockPart + readPart + backPart)
)

// Rule is a limit in the form that the scripts take.
type Rule struct{ args [4]string }

// Bucket is a token bucket or GCRA. token is the worth of a token in eighths of a nanosecond, burst
// the size of the bucket in tokens, and cost the tokens of a request.
func Bucket(token, burst, cost int64) Rule {
	return Rule{[4]string{"b", number(cost), number(token), number(burst * token)}}
}

// FixedWindow allows count tokens in each window.
func FixedWindow(count int64, period time.Duration, cost int64) Rule {
	return Rule{[4]string{"f", number(cost), number(count), micros(period)}}
}

// SlidingWindow also counts a part of the window before.
func SlidingWindow(count int64, period time.Duration, cost int64) Rule {
	return Rule{[4]string{"s", number(cost), number(count), micros(period)}}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func micros(d time.Duration) string {
	return number(int64((d + time.Microsecond - 1) / time.Microsecond))
}

// Key is the Redis key of a value. Its length does not depend on the value's bytes. It has its own
// hash tag, so that a cluster spreads the values over its servers. scope separates the keys of two
// limits.
func (s *Store) Key(scope string, value []byte) string {
	h := sha256.New()
	h.Write([]byte(scope))
	h.Write([]byte{0})
	h.Write(value)
	var sum [sha256.Size]byte
	return s.Prefix() + "limit:{" + hex.EncodeToString(h.Sum(sum[:0])[:16]) + "}"
}

// Answer is Redis's answer to a request for tokens.
type Answer struct {
	Granted     int64         // of the requests asked for
	Wait        time.Duration // until one would pass, if none did
	Left        int64         // tokens
	Reset       time.Duration // until all tokens are available
	stamp, owed int64
}

var errAnswer = errors.New("an answer of another shape than the script's")

func answer(r rueidis.RedisResult) (Answer, error) {
	n, err := r.AsIntSlice()
	if err != nil {
		return Answer{}, err
	}
	if len(n) != 6 {
		return Answer{}, errAnswer
	}
	return Answer{
		Granted: n[0], Wait: time.Duration(n[1]) * time.Microsecond,
		Left: n[2], Reset: time.Duration(n[3]) * time.Microsecond, stamp: n[4], owed: n[5],
	}, nil
}
