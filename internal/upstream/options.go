package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"reflect"
	"time"

	"plimsoll/internal/breaker"
	"plimsoll/internal/concurrency"
)

// Policy names a balancer.
type Policy string

// The balancers. The empty policy is P2C.
const (
	// the better of two random targets, by outstanding requests and latency
	P2C           Policy = "p2c"
	RoundRobin    Policy = "round_robin"    // smooth and weighted, as nginx does it
	LeastRequests Policy = "least_requests" // the fewest outstanding requests for its weight
	Random        Policy = "random"         // drawn by weight
	Hash          Policy = "hash"           // the same key, the same target
)

// Bounds and fixed durations. The first three keep a config, or a name server's answer, from using
// memory without bound.
const (
	maxTargets        = 4096
	maxWeight         = 1000
	maxNameAddresses  = 256
	fairnessGap       = int64(20 * time.Millisecond)
	surplusAge        = int64(time.Second)
	defaultSpareBound = 64
)

// TargetOption is one configured address.
type TargetOption struct {
	// Address is "host:port", "[v6]:port" or "unix:/path".
	Address string
	// Weight is the target's share relative to the others', 0 to 1000. 0 takes it out of use. Each
	// address of a name has the name's weight.
	Weight int
}

// ActiveOptions are the options of the health checks. A duration or count of zero means the default
// given.
type ActiveOptions struct {
	Path           string        // of the light check; required without GRPC
	GRPC           *GRPCHealth   // nil for checks by HTTP
	Host           string        // Host header, or :authority; empty for the target's address
	Interval       time.Duration // of the light check; 3s
	Timeout        time.Duration // of the light check; 1s
	DeepPath       string        // of the deep check; empty for none
	DeepInterval   time.Duration // 5m
	DeepTimeout    time.Duration // 5s
	UnhealthyAfter int           // failures in a row that take a target out; 3
	HealthyAfter   int           // successes in a row that bring it back; 2
}

// GRPCHealth makes the checks calls of grpc.health.v1.Health/Check.
type GRPCHealth struct {
	Service     string // that the light check asks for; empty for the server as a whole
	DeepService string // that the deep check asks for; empty for none
}

// PassiveOptions say when answers to real traffic eject a target.
type PassiveOptions struct {
	Disabled              bool
	ConsecutiveFailures   int           // that eject; 0 turns the rule off
	SuccessRateDeviations float64       // under the peers' mean that eject; 0 turns the rule off
	EjectFor              time.Duration // the first ejection's length; 0 means 10s
	MaxEjected            float64       // the largest share ejected at once, 0 to 1
}

// Options are what a config says about an upstream. Where a zero would make no sense it means the
// default given; elsewhere zero means zero, so start from DefaultOptions. They must not change
// after New.
type Options struct {
	Targets   []TargetOption
	Policy    Policy
	SlowStart time.Duration // until a target that is new or back has its full share; 0 for none

	Active  *ActiveOptions // nil for none
	Passive PassiveOptions
	// Panic is the share of targets that must be usable, 0 to 1. Below it all are used, unless the
	// active checks have found every one of them down. 0 turns this off.
	Panic float64

	MaxConnections int           // to one target, over all loops; 0 means 1024
	MaxPending     int           // requests that may wait for a connection on one loop; 0 means 1024
	PendingTimeout time.Duration // 0 means 5s
	MaxIdle        int           // connections kept for one target, over all loops; 0 keeps none
	IdleTimeout    time.Duration // 0 means 55s

	RetryBudget float64 // the share of requests that may be retries, 0 to 1

	// Breaker stops sending to targets whose tries fail; nil for none.
	Breaker *BreakerOptions

	// Concurrency limits how many requests may be at a target at once; nil for as many as there may
	// be connections.
	Concurrency *concurrency.Options
	// MaxConcurrency is how many requests may be at all targets together, over all loops; 0 for no
	// bound.
	MaxConcurrency int

	// Protocol is what connections to the targets speak, those of health checks included.
	Protocol Protocol

	// TLS is the TLS config of health checks, nil for checks in plain text. It is cloned. A
	// ServerName in it takes precedence over the target's host.
	TLS *tls.Config
	// TLSIdentity is a text that is equal if the TLS settings are equal: a tls.Config cannot be
	// compared.
	TLSIdentity string
}

// Protocol is what connections to targets speak.
type Protocol uint8

// The protocols.
const (
	HTTP1      Protocol = iota // HTTP/1.1
	Negotiated                 // HTTP/2 or HTTP/1.1 as ALPN finds; only with TLS
	HTTP2                      // HTTP/2; without TLS by prior knowledge
)

// DefaultOptions returns the default of every option, for these targets, each of weight 1.
func DefaultOptions(targets ...string) Options {
	o := Options{
		Policy: P2C,
		Passive: PassiveOptions{ConsecutiveFailures: 5, SuccessRateDeviations: 1.9,
			EjectFor: 10 * time.Second, MaxEjected: 0.5},
		Panic:          0.3,
		MaxConnections: 1024,
		MaxPending:     1024,
		PendingTimeout: 5 * time.Second,
		MaxIdle:        1024,
		IdleTimeout:    55 * time.Second,
		RetryBudget:    0.2,
	}
	for _, t := range targets {
		o.Targets = append(o.Targets, TargetOption{Address: t, Weight: 1})
	}
	return o
}

// Env is what an upstream needs of the gateway around it.
type Env struct {
	// Loops is how many event loops there are, at least 1.
	Loops int
	// Post runs f on a loop soon, and may be called from any goroutine. It must not run f before it
	// returns. It may drop f if the loop has ended.
	Post func(loop int, f func())
	// Now reads the monotonic clock, in nanoseconds. The loops pass values of the same clock as
	// now.
	Now func() int64
	// Log receives changes of state. Nil for none.
	Log *slog.Logger
	// Resolver is the "host:port" of the name server to ask. Empty for those of the system.
	Resolver string
	// Seed makes the random numbers of the loops, and the times at which health checks begin,
	// repeatable. 0 for a random seed.
	Seed uint64
	// Probe makes one health check of a target in place of the upstream's own. path is the path,
	// or, with gRPC, the service. Nil for the upstream's own checks.
	Probe func(ctx context.Context, target Address, path string) error
	// Lookup returns the addresses of an upstream's host, and for how long they hold, in place of
	// DNS. Nil for DNS.
	Lookup func(ctx context.Context, upstream, host string) ([]netip.Addr, time.Duration, error)
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// checked returns the options with the defaults filled in. It returns an error for values that the
// check of a config should not have let through.
func (o Options) checked() (Options, error) {
	orDefault(&o.MaxConnections, 1024)
	orDefault(&o.MaxPending, 1024)
	orDefault(&o.PendingTimeout, 5*time.Second)
	orDefault(&o.IdleTimeout, 55*time.Second)
	orDefault(&o.Passive.EjectFor, 10*time.Second)
	if o.Policy == "" {
		o.Policy = P2C
	}
	if o.Breaker != nil {
		if _, err := breaker.New(o.Breaker.Options, 0); err != nil {
			return o, err
		}
	}
	if o.Concurrency != nil {
		if _, err := concurrency.New(*o.Concurrency); err != nil {
			return o, err
		}
	}
	if o.Active != nil {
		a := *o.Active
		orDefault(&a.Interval, 3*time.Second)
		orDefault(&a.Timeout, time.Second)
		orDefault(&a.DeepInterval, 5*time.Minute)
		orDefault(&a.DeepTimeout, 5*time.Second)
		orDefault(&a.UnhealthyAfter, 3)
		orDefault(&a.HealthyAfter, 2)
		o.Active = &a
	}
	return o, o.check()
}

func (o Options) check() error {
	switch o.Policy {
	case P2C, RoundRobin, LeastRequests, Random, Hash:
	default:
		return fmt.Errorf("balance policy %q is not known: use p2c, round_robin, least_requests, "+
			"random or hash", o.Policy)
	}
	if len(o.Targets) == 0 {
		return fmt.Errorf("it has no targets: name at least one address")
	}
	if len(o.Targets) > maxTargets {
		return fmt.Errorf("%d targets are more than the %d that one upstream may have: split it",
			len(o.Targets), maxTargets)
	}
	for _, t := range o.Targets {
		if t.Weight < 0 || t.Weight > maxWeight {
			return fmt.Errorf("target %q has weight %d: give one from 0 to %d", t.Address,
				t.Weight, maxWeight)
		}
	}
	for _, s := range []struct {
		name  string
		value float64
	}{{"panic", o.Panic}, {"max_ejected", o.Passive.MaxEjected}, {"retry budget", o.RetryBudget}} {
		if !(s.value >= 0 && s.value <= 1) {
			return fmt.Errorf("%s is %v: give a share from 0 to 1", s.name, s.value)
		}
	}
	if d := o.Passive.SuccessRateDeviations; !(d >= 0) || math.IsInf(d, 0) ||
		o.Passive.ConsecutiveFailures < 0 {
		return fmt.Errorf("the limits of passive health are %d failures and %v deviations: "+
			"neither may be negative",
			o.Passive.ConsecutiveFailures, d)
	}
	if o.MaxConcurrency < 0 || o.MaxConnections < 0 || o.MaxPending < 0 || o.MaxIdle < 0 ||
		o.PendingTimeout < 0 || o.IdleTimeout < 0 ||
		o.SlowStart < 0 || o.Passive.EjectFor < 0 {
		return fmt.Errorf("a bound or a duration is negative: give zero for the default, or more")
	}
	return o.Active.check()
}

func (a *ActiveOptions) check() error {
	if a == nil {
		return nil
	}
	if a.GRPC != nil && (a.Path != "" || a.DeepPath != "") {
		return fmt.Errorf("the health checks are both by HTTP and by gRPC: give either paths or services")
	}
	if a.GRPC == nil && (len(a.Path) == 0 || a.Path[0] != '/') {
		return fmt.Errorf("the health check's path is %q: give one that begins with a slash", a.Path)
	}
	if a.DeepPath != "" && a.DeepPath[0] != '/' {
		return fmt.Errorf("the deep health check's path is %q: give one that begins with a slash", a.DeepPath)
	}
	if a.Interval < 0 || a.Timeout < 0 || a.DeepInterval < 0 || a.DeepTimeout < 0 ||
		a.UnhealthyAfter < 0 || a.HealthyAfter < 0 {
		return fmt.Errorf("a bound or a duration of the health checks is negative: give zero for " +
			"the default, or more")
	}
	return nil
}

// SameAs reports whether the upstream was made with options that mean the same as o, so that a
// reload can keep it with all its state. The TLS settings are compared by TLSIdentity.
func (u *Upstream) SameAs(o Options) bool {
	o, err := o.checked()
	if err != nil {
		return false
	}
	mine := u.options
	mine.TLS, o.TLS = nil, nil
	return reflect.DeepEqual(mine, o)
}
