// Package shared keeps the state of limits in Redis, for several instances of the gateway. One
// script call is one decision. It is exact over all instances, because Redis runs scripts one after
// the other.
//
// It must not know exchanges, nor decide what happens to a request that got no answer.
package shared

import (
	"context"

	"github.com/redis/rueidis"

	"plimsoll/internal/redis"
)

// Store keeps the counts of limits in a Redis. Any goroutine may call its methods, and none blocks.
type Store struct{ *redis.Client }

// New makes a store with one user. It does not connect yet.
func New(o redis.Options) (*Store, error) {
	o.User = "limits"
	c, err := redis.New(o)
	if err != nil {
		return nil, err
	}
	return &Store{c}, nil
}

// Take asks for n requests of a key. Unless Take itself fails, done is called once, on another
// goroutine.
func (s *Store) Take(r *Rule, key string, n int64, done func(Answer, error)) (*redis.Call, error) {
	call, err := s.Admit()
	if err != nil {
		return nil, err
	}
	go func() {
		var a Answer
		err := call.Run(func(ctx context.Context, client rueidis.Client) (err error) {
			args := append(r.args[:len(r.args):len(r.args)], number(n))
			a, err = answer(takeScript.Exec(ctx, client, []string{key}, args))
			return err
		})
		done(a, err)
	}()
	return call, nil
}

// GiveBack returns requests that an answer granted, in the background. If that fails, they are
// lost: someone may be refused a request, but none is granted twice.
func (s *Store) GiveBack(r *Rule, key string, n int64, of Answer) {
	s.Aside(func(ctx context.Context, client rueidis.Client) error {
		args := append(r.args[:len(r.args):len(r.args)], number(n), number(of.stamp), number(of.owed))
		return backScript.Exec(ctx, client, []string{key}, args).Error()
	})
}
