// Package shared keeps the state of limits in Redis, for several instances of the gateway. One call
// of a script is one decision, exact over all that ask: Redis runs scripts one after the other.
//
// Nothing here blocks a loop. A call runs on a goroutine of its own and rueidis sends those that come
// together as one pipeline. Calls in flight are bounded, and a circuit breaker guards the server:
// one that is gone, or slow, costs a time-out for the first requests and nothing for the others.
//
// It must not know exchanges, nor decide what happens to a request that got no answer.
package shared

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"plimsoll/internal/breaker"
)

// Options say where Redis is.
type Options struct {
	Name               string
	Addresses          []string // of one server, or of some of a cluster
	Username, Password string
	TLS                *tls.Config // nil for plain text
	Timeout            time.Duration
	MaxInFlight        int    // calls; 0 for 1024
	Prefix             string // of every key
	Now                func() int64
	Log                *slog.Logger
}

const (
	defaultInFlight = 1024
	// reopen is how long a server that fails is left alone before one call tries it again.
	reopen = time.Second
	// dialTime bounds the making of a connection. It is longer than calls may take, because it is
	// needed once and TLS takes several round trips.
	dialTime = time.Second
	// pingEvery is how often a connection on which nothing is heard is asked for a sign of life; it is
	// given up when that does not come in the same time.
	pingEvery  = time.Second
	bufferSize = 64 << 10
)

// Errors of Take, which come at once and cost no call.
var (
	ErrBusy   = errors.New("as many calls to Redis as max_in_flight allows are under way; raise it, or lease")
	ErrOpen   = errors.New("this Redis has failed too often and is left alone for a moment")
	errClosed = errors.New("the connections to Redis were closed")
)

// Store is a Redis server or cluster. Its methods are safe for all goroutines.
type Store struct {
	o       Options
	breaker *breaker.Breaker
	client  atomic.Pointer[rueidis.Client]
	users   atomic.Int32

	inFlight                       atomic.Int64
	answered, errors, timeouts     atomic.Int64
	refusedByBreaker, refusedByMax atomic.Int64
	lastError                      atomic.Pointer[string]

	mu      sync.Mutex // of what is below; no loop takes it
	dialing *dial
	closed  bool
}

// dial is a first connection that is being made.
type dial struct {
	done chan struct{}
	err  error
}

// New makes a store that has one user, and does not connect yet.
func New(o Options) (*Store, error) {
	if len(o.Addresses) == 0 || o.Timeout <= 0 {
		return nil, errors.New("give at least one address, and a timeout")
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = defaultInFlight
	}
	s := &Store{o: o}
	rules := breaker.Options{
		ConsecutiveFailures: 5, FailureRatio: 0.5, OpenFor: reopen, Trials: 1,
		TrialFor: max(2*dialTime, 2*o.Timeout), OnTransition: s.note,
	}
	var err error
	s.breaker, err = breaker.New(rules, o.Now())
	s.users.Store(1)
	return s, err
}

// note logs that the breaker has opened or closed; the trials between, one a second, are no news.
func (s *Store) note(t breaker.Transition) {
	switch {
	case s.o.Log == nil:
	case t.From == breaker.Closed:
		s.o.Log.Warn("Redis does not answer; limits do without it", "redis", s.o.Name, "why", t.Why.String(),
			"error", s.last())
	case t.To == breaker.Closed:
		s.o.Log.Info("Redis answers again", "redis", s.o.Name)
	}
}

// Name is the store's in the configuration.
func (s *Store) Name() string { return s.o.Name }

// Timeout is how long a call may take.
func (s *Store) Timeout() time.Duration { return s.o.Timeout }

// Retain adds a user, and Release takes one away: with the last the store closes.
func (s *Store) Retain() { s.users.Add(1) }

// Release may wait for the connections' goroutines; no loop calls it.
func (s *Store) Release() {
	if s.users.Add(-1) > 0 {
		return
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if c := s.client.Load(); c != nil {
		(*c).Close()
	}
}

// Start connects, so that the first request need not.
func (s *Store) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startDial()
}

// startDial makes the client, unless that is under way. s.mu is held.
func (s *Store) startDial() *dial {
	if s.dialing == nil && !s.closed && s.client.Load() == nil {
		s.dialing = &dial{done: make(chan struct{})}
		go s.dial(s.dialing)
	}
	return s.dialing
}

func (s *Store) dial(d *dial) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: s.o.Addresses, Username: s.o.Username, Password: s.o.Password, TLSConfig: s.o.TLS,
		ClientName: "plimsoll", Dialer: net.Dialer{Timeout: dialTime, KeepAlive: pingEvery},
		ConnWriteTimeout: max(pingEvery, s.o.Timeout), ReadBufferEachConn: bufferSize,
		WriteBufferEachConn: bufferSize,
		DisableCache:        true, DisableRetry: true,
		// Otherwise a call that comes alone and is late would take its connection with it.
		AlwaysPipelining: true,
		ClusterOption:    rueidis.ClusterOption{MaxMovedRedirections: 3},
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		d.err = fmt.Errorf("connect: %w", err)
	case s.closed:
		client.Close()
		d.err = errClosed
	default:
		s.client.Store(&client)
	}
	s.dialing = nil
	close(d.done)
}

// connected is the client, made first where there is none yet.
func (s *Store) connected(ctx context.Context) (rueidis.Client, error) {
	if c := s.client.Load(); c != nil {
		return *c, nil
	}
	s.mu.Lock()
	d := s.startDial()
	s.mu.Unlock()
	if d != nil {
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if c := s.client.Load(); c != nil {
		return *c, nil
	}
	return nil, errClosed
}

// Call is a call under way.
type Call struct {
	s       *Store
	ticket  breaker.Ticket
	began   int64
	settled atomic.Bool
}

// Late says that the caller waits no longer: the call counts as timed out unless its answer is there.
func (c *Call) Late() { c.settle(context.DeadlineExceeded) }

// Take asks for so many requests of a key. done is called once, on another goroutine, unless Take
// itself fails.
func (s *Store) Take(r *Rule, key string, n int64, done func(Answer, error)) (*Call, error) {
	if s.inFlight.Add(1) > int64(s.o.MaxInFlight) {
		s.inFlight.Add(-1)
		s.refusedByMax.Add(1)
		return nil, ErrBusy
	}
	now := s.o.Now()
	ticket := s.breaker.Allow(now, rand.Uint64())
	if ticket.Kind == breaker.Refused {
		s.inFlight.Add(-1)
		s.refusedByBreaker.Add(1)
		return nil, ErrOpen
	}
	c := &Call{s: s, ticket: ticket, began: now}
	go func() {
		a, err := s.ask(r, key, n)
		s.inFlight.Add(-1)
		c.settle(err)
		done(a, err)
	}()
	return c, nil
}

func (s *Store) ask(r *Rule, key string, n int64) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	client, err := s.connected(ctx)
	if err != nil {
		return Answer{}, err
	}
	args := append(r.args[:len(r.args):len(r.args)], number(n))
	return answer(takeScript.Exec(ctx, client, []string{key}, args))
}

// GiveBack returns requests that an answer has granted, beside everything else: one that fails is
// lost, which costs somebody a request and makes none.
func (s *Store) GiveBack(r *Rule, key string, n int64, of Answer) {
	client := s.client.Load()
	if client == nil || s.inFlight.Add(1) > int64(s.o.MaxInFlight) {
		if client != nil {
			s.inFlight.Add(-1)
		}
		return
	}
	go func() {
		defer s.inFlight.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
		defer cancel()
		args := append(r.args[:len(r.args):len(r.args)], number(n), number(of.stamp), number(of.owed))
		if err := backScript.Exec(ctx, *client, []string{key}, args).Error(); err != nil {
			s.remember(err)
		}
	}()
}

// settle says once how the call ended.
func (c *Call) settle(err error) {
	if !c.settled.CompareAndSwap(false, true) {
		return
	}
	s, outcome := c.s, breaker.Success
	if err == nil {
		s.answered.Add(1)
	} else {
		outcome = breaker.Failure
		s.remember(err)
		timeout, ok := errors.AsType[net.Error](err)
		if errors.Is(err, os.ErrDeadlineExceeded) || ok && timeout.Timeout() {
			s.timeouts.Add(1)
		} else {
			s.errors.Add(1)
		}
	}
	now := s.o.Now()
	s.breaker.Done(now, c.ticket, outcome, now-c.began, 0)
}

func (s *Store) remember(err error) {
	text := err.Error()
	s.lastError.Store(&text)
}

func (s *Store) last() string {
	if text := s.lastError.Load(); text != nil {
		return *text
	}
	return ""
}

// RetryAfter is how long it is until Redis may be asked again.
func (s *Store) RetryAfter() time.Duration { return time.Duration(s.breaker.RetryAfter(s.o.Now())) }

// Status is what the admin API shows of a Redis.
type Status struct {
	Redis     string `json:"redis"`
	Breaker   string `json:"breaker"`
	Connected bool   `json:"connected"` // at least once
	InFlight  int64  `json:"in_flight"`
	Answered  int64  `json:"answered"` // calls
	Errors    int64  `json:"errors"`
	Timeouts  int64  `json:"timeouts"`
	// Refused calls were not made: the breaker was open, or too many were in flight.
	RefusedOpen int64  `json:"refused_open"`
	RefusedBusy int64  `json:"refused_busy"`
	LastError   string `json:"last_error,omitempty"`
}

// Status says how the store is.
func (s *Store) Status() Status {
	return Status{
		Redis: s.o.Name, Breaker: s.breaker.State(s.o.Now()).State.String(),
		Connected: s.client.Load() != nil, InFlight: s.inFlight.Load(),
		Answered: s.answered.Load(), Errors: s.errors.Load(), Timeouts: s.timeouts.Load(),
		RefusedOpen: s.refusedByBreaker.Load(), RefusedBusy: s.refusedByMax.Load(), LastError: s.last(),
	}
}
