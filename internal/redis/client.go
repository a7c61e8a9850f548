// Package redis is the connection to a Redis server or cluster that policies use.
//
// Nothing here blocks a loop. Each call runs on a goroutine of its own, and rueidis sends calls
// that come together as one pipeline. Calls in flight are limited, and a circuit breaker guards the
// server: if it is gone or slow, only the first requests wait for a timeout.
//
// It must not know what is kept in Redis, nor decide what happens to a request that got no answer.
package redis

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
	MaxReply           int64  // bytes; 0 for 16 MB. A server that sends more is disconnected.
	Prefix             string // of every key
	// Failures in a row after which the server is left alone; 0 for 5.
	Failures int
	// Reopen is how long a server that fails is left alone before one call tries it again; 0 for a
	// second.
	Reopen time.Duration
	// User is who does without a server that does not answer, in the plural, for the log.
	User string
	Now  func() int64
	Log  *slog.Logger
}

const (
	defaultInFlight = 1024
	defaultFailures = 5
	defaultReopen   = time.Second
	// dialTime bounds the making of a connection. It is longer than calls may take, because it is
	// needed once and TLS takes several round trips.
	dialTime = time.Second
	// pingEvery is how often a connection on which nothing is heard is asked for a sign of life; it
	// is given up when that does not come in the same time.
	pingEvery  = time.Second
	bufferSize = 64 << 10
)

// Errors of Admit, which come at once and cost no call.
var (
	ErrBusy   = errors.New("as many calls to Redis as max_in_flight allows are under way; raise it, or lease")
	ErrOpen   = errors.New("this Redis has failed too often and is left alone for a moment")
	errClosed = errors.New("the connections to Redis were closed")
)

// Client is a Redis server or cluster. Its methods are safe for all goroutines.
type Client struct {
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

// New makes a client that has one user, and does not connect yet.
func New(o Options) (*Client, error) {
	if len(o.Addresses) == 0 || o.Timeout <= 0 {
		return nil, errors.New("give at least one address, and a timeout")
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = defaultInFlight
	}
	if o.MaxReply == 0 {
		o.MaxReply = defaultReply
	}
	if o.Failures == 0 {
		o.Failures = defaultFailures
	}
	if o.Reopen == 0 {
		o.Reopen = defaultReopen
	}
	c := &Client{o: o}
	rules := breaker.Options{
		ConsecutiveFailures: o.Failures, FailureRatio: 0.5, OpenFor: o.Reopen, Trials: 1,
		TrialFor: max(2*dialTime, 2*o.Timeout), OnTransition: c.note,
	}
	var err error
	c.breaker, err = breaker.New(rules, o.Now())
	c.users.Store(1)
	return c, err
}

// note logs that the breaker has opened or closed; the trials between, one a second, are not
// logged.
func (c *Client) note(t breaker.Transition) {
	switch {
	case c.o.Log == nil:
	case t.From == breaker.Closed:
		c.o.Log.Warn("Redis does not answer; "+c.o.User+" do without it", "redis", c.o.Name,
			"why", t.Why.String(), "error", c.last())
	case t.To == breaker.Closed:
		c.o.Log.Info("Redis answers again", "redis", c.o.Name)
	}
}

// Prefix is that of every key.
func (c *Client) Prefix() string { return c.o.Prefix }

// Name is the server's in the configuration.
func (c *Client) Name() string { return c.o.Name }

// Timeout is how long a call may take.
func (c *Client) Timeout() time.Duration { return c.o.Timeout }

// Retain adds a user, and Release takes one away: with the last the client closes.
func (c *Client) Retain() { c.users.Add(1) }

// Release may wait for the connections' goroutines; no loop calls it.
func (c *Client) Release() {
	if c.users.Add(-1) > 0 {
		return
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if r := c.client.Load(); r != nil {
		(*r).Close()
	}
}

// Start connects, so that the first request need not.
func (c *Client) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startDial()
}

// startDial makes the client, unless that is under way. c.mu is held.
func (c *Client) startDial() *dial {
	if c.dialing == nil && !c.closed && c.client.Load() == nil {
		c.dialing = &dial{done: make(chan struct{})}
		go c.dial(c.dialing)
	}
	return c.dialing
}

func (c *Client) dial(d *dial) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: c.o.Addresses, Username: c.o.Username, Password: c.o.Password, TLSConfig: c.o.TLS,
		ClientName: "plimsoll", Dialer: net.Dialer{Timeout: dialTime, KeepAlive: pingEvery},
		DialCtxFn:        dialer(c.o.MaxReply),
		ConnWriteTimeout: max(pingEvery, c.o.Timeout), ReadBufferEachConn: bufferSize,
		WriteBufferEachConn: bufferSize,
		DisableCache:        true, DisableRetry: true,
		// Otherwise a call that comes alone and is late would take its connection with it.
		AlwaysPipelining: true,
		ClusterOption:    rueidis.ClusterOption{MaxMovedRedirections: 3},
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		d.err = fmt.Errorf("connect: %w", err)
	case c.closed:
		client.Close()
		d.err = errClosed
	default:
		c.client.Store(&client)
	}
	c.dialing = nil
	close(d.done)
}

// Connect gives what commands are sent with; it is made first where there is none yet. It waits for
// that until ctx is over. Nothing that is done with it counts for Admit.
func (c *Client) Connect(ctx context.Context) (rueidis.Client, error) {
	if r := c.client.Load(); r != nil {
		return *r, nil
	}
	c.mu.Lock()
	d := c.startDial()
	c.mu.Unlock()
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
	if r := c.client.Load(); r != nil {
		return *r, nil
	}
	return nil, errClosed
}

// Call is a call that Admit has let pass.
type Call struct {
	c       *Client
	ticket  breaker.Ticket
	began   int64
	settled atomic.Bool
}

// Admit says whether a call may be made now, and counts it as under way until Run has ended. It
// does not block, so a loop may ask; Run is for another goroutine.
func (c *Client) Admit() (*Call, error) {
	if c.inFlight.Add(1) > int64(c.o.MaxInFlight) {
		c.inFlight.Add(-1)
		c.refusedByMax.Add(1)
		return nil, ErrBusy
	}
	now := c.o.Now()
	ticket := c.breaker.Allow(now, rand.Uint64())
	if ticket.Kind == breaker.Refused {
		c.inFlight.Add(-1)
		c.refusedByBreaker.Add(1)
		return nil, ErrOpen
	}
	return &Call{c: c, ticket: ticket, began: now}, nil
}

// Trial says that the call tries a server that has failed: it had better be one that nobody waits
// for.
func (k *Call) Trial() bool { return k.ticket.Kind == breaker.Trial }

// Late says that the caller waits no longer: the call counts as timed out unless its answer is
// there.
func (k *Call) Late() { k.settle(context.DeadlineExceeded) }

// Run makes the call, for as long as calls may take, and counts how it ended. It is called once.
func (k *Call) Run(do Command) error {
	err := k.c.run(do)
	k.c.inFlight.Add(-1)
	k.settle(err)
	return err
}

// Command is what a call does with a connected client, before ctx is over. An error counts against
// the server.
type Command func(ctx context.Context, client rueidis.Client) error

func (c *Client) run(do Command) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.o.Timeout)
	defer cancel()
	client, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	return do(ctx, client)
}

// Aside makes a call on a goroutine of its own that nobody waits for and that says nothing of the
// server's health. It is not made without a connection, or when too many calls are under way.
func (c *Client) Aside(do Command) {
	client := c.client.Load()
	if client == nil {
		return
	}
	if c.inFlight.Add(1) > int64(c.o.MaxInFlight) {
		c.inFlight.Add(-1)
		return
	}
	go func() {
		defer c.inFlight.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), c.o.Timeout)
		defer cancel()
		if err := do(ctx, *client); err != nil {
			c.remember(err)
		}
	}()
}

// settle says once how the call ended.
func (k *Call) settle(err error) {
	if !k.settled.CompareAndSwap(false, true) {
		return
	}
	c, outcome := k.c, breaker.Success
	if err == nil {
		c.answered.Add(1)
	} else {
		outcome = breaker.Failure
		c.remember(err)
		if IsTimeout(err) {
			c.timeouts.Add(1)
		} else {
			c.errors.Add(1)
		}
	}
	now := c.o.Now()
	c.breaker.Done(now, k.ticket, outcome, now-k.began, 0)
}

// IsTimeout says whether a call ended because the server did not answer in time.
func IsTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, os.ErrDeadlineExceeded) || ok && timeout.Timeout()
}

func (c *Client) remember(err error) {
	text := err.Error()
	c.lastError.Store(&text)
}

func (c *Client) last() string {
	if text := c.lastError.Load(); text != nil {
		return *text
	}
	return ""
}

// RetryAfter is how long it is until Redis may be asked again.
func (c *Client) RetryAfter() time.Duration { return time.Duration(c.breaker.RetryAfter(c.o.Now())) }

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

// Status says how the server is.
func (c *Client) Status() Status {
	return Status{
		Redis: c.o.Name, Breaker: c.breaker.State(c.o.Now()).State.String(),
		Connected: c.client.Load() != nil, InFlight: c.inFlight.Load(),
		Answered: c.answered.Load(), Errors: c.errors.Load(), Timeouts: c.timeouts.Load(),
		RefusedOpen: c.refusedByBreaker.Load(), RefusedBusy: c.refusedByMax.Load(), LastError: c.last(),
	}
}
