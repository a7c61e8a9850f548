// Package shared keeps the state of limits in Redis, for several instances of the gateway. One call
// of a script is one decision, exact over all that ask: Redis runs scripts one after the other.
//
// It must not know exchanges, nor decide what happens to a request that got no answer.
package shared

import (
	"context"

	"github.com/redis/rueidis"

	"plimsoll/internal/redis"
)

// Store is the counts of limits in a Redis. Its methods are safe for all goroutines and block none.
type Store struct{ *redis.Client }

// New makes a store that has one user, and does not connect yet.
func New(o redis.Options) (*Store, error) {
	o.User = "limits"
	c, err := redis.New(o)
	if err != nil {
		return nil, err
	}
	return &Store{c}, nil
}

// Take asks for so many requests of a key. done is called once, on another goroutine, unless Take
// itself fails.
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

// GiveBack returns requests that an answer has granted, beside everything else: one that fails is
// lost, which costs somebody a request and makes none.
func (s *Store) GiveBack(r *Rule, key string, n int64, of Answer) {
	s.Aside(func(ctx context.Context, client rueidis.Client) error {
		args := append(r.args[:len(r.args):len(r.args)], number(n), number(of.stamp), number(of.owed))
		return backScript.Exec(ctx, client, []string{key}, args).Error()
	})
}
