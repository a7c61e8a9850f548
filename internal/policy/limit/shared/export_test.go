package shared

import (
	"context"

	"github.com/redis/rueidis"
)

// testPart is the clock of a test. It also keeps keys from expiring by the server's.
const testPart = `
local now = tonumber(ARGV[8])
local server = redis
local redis = {call = function(command, key, value)
  if command == 'SET' then return server.call(command, key, value) end
  return server.call(command, key)
end}
`

var (
	takeAt = rueidis.NewLuaScript(testPart + readPart + takePart)
	backAt = rueidis.NewLuaScript(testPart + readPart + backPart)
)

// TakeAt asks at a time in microseconds.
func (s *Store) TakeAt(r Rule, key string, n, now int64) (Answer, error) {
	client, err := s.Connect(context.Background())
	if err != nil {
		return Answer{}, err
	}
	args := append(r.args[:], number(n), "0", "0", number(now))
	return answer(takeAt.Exec(context.Background(), client, []string{key}, args))
}

// GiveBackAt gives back at a time in microseconds.
func (s *Store) GiveBackAt(r Rule, key string, n int64, of Answer, now int64) error {
	client, err := s.Connect(context.Background())
	if err != nil {
		return err
	}
	args := append(r.args[:], number(n), number(of.stamp), number(of.owed), number(now))
	return backAt.Exec(context.Background(), client, []string{key}, args).Error()
}
