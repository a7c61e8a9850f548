package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/profile"
)

// waitingPlace is a well-known place in which goroutines wait for their turn.
type waitingPlace struct {
	// functions of which one is in the stacks of waiting goroutines; see fits.
	functions []string
	// what they wait for, to follow "wait for".
	what string
	// widens is the setting to change, as advice.
	widens Action
	// polls says that waiting goroutines sleep between checks whether it is their turn. Goroutines
	// whose work takes time sleep too, so the number of those that do not sleep must agree with
	// Little's law.
	polls bool
	// vague says that goroutines wait for many different things in this way, so what is behind it
	// must be checked too.
	vague bool
}

// aLock is what is waited for in the places of locks.
const aLock = "a lock"

// aConnection begins what is waited for in the places of pools of connections.
const aConnection = "a connection of "

// aHalt is what is waited for in the places of functions that stop the world.
const aHalt = "the runtime to stop the world"

// waitingPlaces in the order in which a stack is compared with them: libraries before the channels
// and locks that they are built on.
var waitingPlaces = []waitingPlace{
	{
		functions: []string{"net/http.(*Transport).getConn"},
		what:      "a connection of the HTTP client's pool",
		widens: Action{
			Text: "let the pool have more connections, as far as what it asks can serve them, " +
				"and keep as many idle",
			Command: "http.Transport{MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64}   " +
				"# MaxConnsPerHost: 0 is not a limit",
		},
	},
	{
		functions: []string{
			"net/http.(*http2ClientConn).awaitOpenSlotForStreamLocked",
			"golang.org/x/net/http2.(*ClientConn).awaitOpenSlotForStreamLocked",
		},
		what: "a stream of the HTTP/2 connection to the service behind",
		widens: Action{
			Text: "raise the streams that the service behind allows on a connection " +
				"(SETTINGS_MAX_CONCURRENT_STREAMS), or open more connections to it",
			Command: "http2.Transport{StrictMaxConcurrentStreams: false}",
		},
	},
	{
		functions: []string{"google.golang.org/grpc/internal/transport.(*http2Client).NewStream"},
		what:      "a stream of the gRPC connection to the service behind",
		widens: Action{
			Text:    "raise the server's limit of streams, or spread calls over more connections",
			Command: "grpc.MaxConcurrentStreams(1024)",
		},
	},
	{
		functions: []string{"database/sql.(*DB).conn"},
		what:      "a connection of database/sql's pool",
		widens: Action{
			Text:    "let the pool have more connections, as far as the database allows",
			Command: "db.SetMaxOpenConns(32); db.SetMaxIdleConns(32)",
		},
	},
	{
		functions: []string{
			"github.com/jackc/pgx/v5/pgxpool.(*Pool).Acquire",
			"github.com/jackc/pgx/v4/pgxpool.(*Pool).Acquire", "github.com/jackc/puddle/",
		},
		what: "a connection of pgx's pool",
		widens: Action{
			Text:    "let the pool have more connections, as far as the database allows",
			Command: "pgxpool.Config{MaxConns: 32}   # or pool_max_conns=32 in the URL",
		},
	},
	{
		functions: []string{
			"github.com/redis/go-redis/v9/internal/pool.(*ConnPool).waitTurn",
			"github.com/redis/go-redis/v9/internal/pool.(*ConnPool).Get",
			"github.com/go-redis/redis/",
		},
		what: "a connection of the Redis client's pool",
		widens: Action{
			Text:    "let the pool have more connections, or send several commands at once",
			Command: "redis.Options{PoolSize: 64}   # or a Pipeline for what goes together",
		},
	},
	{
		functions: []string{
			"github.com/gomodule/redigo/redis.(*Pool).waitVacantConn",
			"github.com/redis/rueidis.(*pool).Acquire",
		},
		what: "a connection of the Redis client's pool",
		widens: Action{
			Text: "let the pool have more connections",
			Command: "redis.Pool{MaxActive: 64, MaxIdle: 64}   # redigo; " +
				"rueidis: ClientOption{BlockingPoolSize: 64}",
		},
	},
	{
		functions: []string{
			"go.mongodb.org/mongo-driver/x/mongo/driver/topology.(*pool).checkOut",
			"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology.(*pool).checkOut",
		},
		what: "a connection of the MongoDB client's pool",
		widens: Action{
			Text:    "let the pool have more connections",
			Command: "options.Client().SetMaxPoolSize(200)   # or maxPoolSize=200 in the URI",
		},
	},
	{
		functions: []string{
			"github.com/valyala/fasthttp.(*HostClient).acquireConn",
		},
		what: "a connection of fasthttp's pool",
		widens: Action{
			Text:    "let the pool have more connections",
			Command: "fasthttp.HostClient{MaxConns: 512}",
		},
	},
	{
		functions: []string{
			"github.com/segmentio/kafka-go.(*Writer).WriteMessages",
			"github.com/IBM/sarama.(*syncProducer).SendMessage",
			"github.com/Shopify/sarama.(*syncProducer).SendMessage",
		},
		what: "a batch of messages that is sent when it is full or its time is over",
		widens: Action{
			Text: "make the batch's time shorter than what a request may take, or hand messages " +
				"on without waiting",
			Command: "kafka.Writer{BatchTimeout: 5 * time.Millisecond}   # it is 1 s unless it " +
				"is set",
		},
	},
	{
		functions: []string{
			"golang.org/x/sync/semaphore.(*Weighted).Acquire",
			"github.com/marusama/semaphore.", "github.com/marusama/semaphore/",
			"github.com/remeh/sizedwaitgroup.(*SizedWaitGroup).Add",
			"github.com/eapache/go-resiliency/semaphore.",
		},
		what: "a semaphore",
		widens: Action{
			Text:    "make the semaphore as large as what it protects can bear",
			Command: "semaphore.NewWeighted(64)",
		},
	},
	{
		functions: []string{"golang.org/x/sync/errgroup.(*Group).Go"},
		what:      "a place in an errgroup with a limit",
		widens: Action{
			Text:    "raise the group's limit, or have a group for each request",
			Command: "group.SetLimit(64)",
		},
	},
	{
		functions: []string{
			"github.com/go-redsync/redsync/", "github.com/bsm/redislock.",
			"go.etcd.io/etcd/client/v3/concurrency.", "github.com/hashicorp/consul/api.(*Lock).Lock",
		},
		what: "a lock that other processes share (in Redis, etcd or Consul), for which they try " +
			"again and again",
		widens: Action{
			Text: "hold the lock for less and only for what all have to agree on, have one for " +
				"each thing that it guards, and look again sooner",
			Command: "redsync.WithRetryDelay(5 * time.Millisecond)",
		},
	},
	{
		functions: []string{
			"github.com/cenkalti/backoff/", "github.com/avast/retry-go.", "github.com/avast/retry-go/",
			"github.com/sethvargo/go-retry.", "github.com/hashicorp/go-retryablehttp.",
		},
		what:  "a time to pass before they try again what has failed (a back-off)",
		vague: true,
		widens: Action{
			Text: "see what fails and is tried again, and fail early where it goes on: fewer " +
				"tries, shorter pauses, a breaker",
		},
	},
	{
		functions: []string{
			"github.com/jolestar/go-commons-pool/", "github.com/silenceper/pool.",
			"github.com/fatih/pool.", "vitess.io/vitess/go/pools.",
		},
		what:   "something from a pool of its own",
		widens: Action{Text: "let the pool have more, as far as what they stand for can bear"},
	},
	{
		functions: []string{
			"github.com/failsafe-go/failsafe-go/bulkhead.",
			"github.com/slok/goresilience/bulkhead.",
		},
		what:   "a place in a bulkhead",
		widens: Action{Text: "let the bulkhead have more places, as many as what is behind it can bear"},
	},
	{
		functions: []string{
			"golang.org/x/time/rate.(*Limiter).Wait", "golang.org/x/time/rate.(*Limiter).WaitN",
			"go.uber.org/ratelimit.", "github.com/juju/ratelimit.",
		},
		what: "a rate limiter of its own",
		widens: Action{
			Text: "raise the limiter's rate, or answer 429 at once to what is over it",
		},
	},
	{
		functions: []string{
			"github.com/panjf2000/ants/", "github.com/alitto/pond.", "github.com/alitto/pond/",
			"github.com/gammazero/workerpool.", "github.com/Jeffail/tunny.",
			"github.com/sourcegraph/conc/", "github.com/devchat-ai/gopool.",
			"github.com/bytedance/gopkg/util/gopool.",
		},
		what:   "a worker of a pool of goroutines",
		widens: Action{Text: "give the pool more workers"},
	},
	{
		functions: []string{"runtime.ReadMemStats", "runtime/pprof.", "runtime.GOMAXPROCS"},
		what:      aHalt,
		widens: Action{
			Text: "take the runtime's figures every few seconds in the background, not for each " +
				"request; runtime/metrics stops nothing",
		},
	},
	{
		functions: []string{
			"syscall.Flock", "golang.org/x/sys/unix.Flock", "syscall.FcntlFlock",
			"github.com/gofrs/flock.", "golang.org/x/sys/unix.FcntlFlock",
		},
		what: "a lock on a file",
		widens: Action{
			Text: "hold the lock on the file for less, have one for each thing that it guards, " +
				"or keep what it guards in a database",
			Command: "lslocks",
		},
	},
	{
		functions: []string{
			"os.(*File).Sync", "syscall.Fsync", "syscall.Fdatasync", "golang.org/x/sys/unix.Fsync",
			"golang.org/x/sys/unix.Fdatasync",
		},
		what: "what they have written to reach the disk (fsync)",
		widens: Action{
			Text: "have one fsync do for what several requests have written: one goroutine that " +
				"writes what has gathered, and then answers all of them",
		},
	},
	{
		functions: []string{"os.(*Process).Wait", "os/exec.(*Cmd).Wait"},
		what:      "a program that they have started to end",
		widens: Action{
			Text: "do its work in the process, or keep a few of these programs running and talk " +
				"to them",
		},
	},
	{
		functions: []string{"github.com/mattn/go-sqlite3.", "modernc.org/sqlite."},
		what:      "SQLite, which has one writer at a time",
		vague:     true,
		widens: Action{
			Text: "keep transactions short, write from one connection, and let readers go on " +
				"meanwhile",
			Command: "PRAGMA journal_mode=WAL; PRAGMA busy_timeout=5000",
		},
	},
	{
		functions: []string{"sync.(*Cond).Wait"},
		what:      "a condition (sync.Cond) that others signal",
		widens: Action{
			Text: "allow more of what the condition counts, or split it into several",
		},
	},
	{
		functions: []string{
			"sync.(*Mutex).Lock", "sync.(*RWMutex).Lock", "sync.(*RWMutex).RLock",
			"internal/sync.(*Mutex).Lock",
		},
		what: aLock,
		widens: Action{
			Text: "hold the lock for less: no I/O, no sleep, no encoding under it; or share what " +
				"it protects out over several locks",
		},
	},
	{
		functions: []string{"golang.org/x/sync/singleflight.(*Group).Do"},
		what:      "the same call that another request makes already (singleflight)",
		widens: Action{
			Text: "give the call a key for each thing that it fetches, and keep what came of it",
		},
	},
	{
		functions: []string{"time.Sleep"},
		what:      "a time to pass (time.Sleep), as one does that tries again until it is its turn",
		vague:     true,
		polls:     true,
		widens: Action{
			Text: "look for a sleep in a loop that tries again (for a lock, a place, an answer): " +
				"have it woken when its turn comes, by a channel or a condition; and hold what " +
				"it tries for less",
		},
	},
	{
		functions: []string{"io.(*PipeWriter).Write", "io.(*PipeReader).Read"},
		what:      "the other end of a pipe",
		vague:     true,
		widens:    Action{Text: "have the other end take and give more at once"},
	},
	{
		functions: []string{"golang.org/x/sync/errgroup.(*Group).Wait", "sync.(*WaitGroup).Wait"},
		what:      "goroutines that it has started",
		vague:     true,
		widens: Action{
			Text: "look at what those goroutines wait for: the slowest of them is the request's " +
				"time",
		},
	},
	{
		functions: []string{"runtime.chansend1", "runtime.chansend"},
		what:      "a place in a channel",
		widens: Action{
			Text: "where the channel is a semaphore give it more room; where it leads to workers " +
				"start more of them: as many as what they use can bear",
			Command: "make(chan struct{}, 64)",
		},
	},
	{
		functions: []string{"runtime.selectgo"},
		what:      "one of several channels (select)",
		vague:     true,
		widens: Action{
			Text: "where the channel is a semaphore give it more room; where workers serve it " +
				"start more of them",
		},
	},
	{
		functions: []string{"runtime.chanrecv1", "runtime.chanrecv2", "runtime.chanrecv"},
		what:      "something from a channel: an answer of a worker, or what a pool gives out",
		vague:     true,
		widens: Action{
			Text: "start more of the workers that answer, or put more into the pool: as many as " +
				"what stands behind them can bear",
		},
	},
}

// servers are the functions at the root of goroutines that serve requests. Code of their modules is
// not the service's own.
var servers = []string{
	"net/http.(*conn).serve", "net/http.(*http2serverConn).runHandler",
	"golang.org/x/net/http2.(*serverConn).runHandler",
	"github.com/valyala/fasthttp.(*workerPool).workerFunc",
	"github.com/valyala/fasthttp.(*Server).serveConn",
	"google.golang.org/grpc.(*Server).handleStream", timeoutHandler,
	"github.com/quic-go/quic-go/http3.(*Server).", "net/rpc.(*service).call",
	"github.com/cloudwego/hertz/pkg/protocol/http1.Server.Serve",
}

// timeoutHandler serves a request in a goroutine of its own. The goroutine that it was called on
// waits for that one.
const timeoutHandler = "net/http.(*timeoutHandler).ServeHTTP"

// moduleOf returns the module that a function probably belongs to. For a path that begins with a
// domain name, that is the host and the module, with the owner between them for ownedHosts.
// Otherwise it is the first part.
func moduleOf(function string) string {
	name := packageOf(function)
	parts := strings.Split(name, "/")
	most := 2
	switch {
	case !strings.Contains(parts[0], "."):
		most = 1
	case slices.Contains(ownedHosts, parts[0]):
		most = 3
	}
	return strings.Join(parts[:min(len(parts), most)], "/")
}

// ownedHosts are hosts whose module paths name an owner before the module. Other hosts serve the
// modules of one owner, such as google.golang.org/grpc.
var ownedHosts = []string{"github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "golang.org"}

// ownAfter returns the first frame, from an index on, that is the service's code, and not part of a
// module.
func ownAfter(stack []profile.Frame, from int, not string) (profile.Frame, bool) {
	for _, f := range stack[from:] {
		if profile.User(f) && moduleOf(f.Function) != not {
			f, _ = profile.FirstUser([]profile.Frame{f})
			return f, true
		}
	}
	return profile.Frame{}, false
}

// serving returns where in the service's code a goroutine is that serves a request.
func serving(stack []profile.Frame) (profile.Frame, bool) {
	hands := func(f profile.Frame) bool { return f.Function == timeoutHandler }
	if slices.ContainsFunc(stack, hands) {
		return profile.Frame{}, false
	}
	for _, f := range slices.Backward(stack) {
		if slices.ContainsFunc(servers, func(s string) bool { return fits(f.Function, s) }) {
			return ownAfter(stack, 0, moduleOf(f.Function))
		}
	}
	return profile.Frame{}, false
}

// waitsIn returns the well-known place in which a stack waits, and from where in the service's
// code. A goroutine that waits on the network is not in one: it does the work that others wait for.
func waitsIn(stack []profile.Frame) (at profile.Frame, place *waitingPlace) {
	if len(stack) == 0 || !waits(stack[0]) {
		return at, nil // it runs, or could run
	}
	for i := range waitingPlaces {
		w := &waitingPlaces[i]
		j := outermost(stack, w.functions)
		if j < 0 || w.vague && onNetwork(stack) {
			continue
		}
		if own, ok := ownAfter(stack, j+1, moduleOf(stack[j].Function)); ok {
			return own, w
		}
	}
	return at, nil
}

// waits reports whether a goroutine is parked in the runtime, or is in a system call or a C
// function, which may take long.
func waits(leaf profile.Frame) bool {
	return leaf.Function == "runtime.gopark" || leaf.Function == "runtime.cgocall" ||
		fits(leaf.Function, "syscall.") || fits(leaf.Function, "internal/runtime/syscall.") ||
		fits(leaf.Function, "golang.org/x/sys/unix.")
}

// takesLock returns the function by which a goroutine takes the lock that it waits for. It may be a
// library's function.
func takesLock(stack []profile.Frame) (at profile.Frame, ok bool) {
	_, place := waitsIn(stack)
	if place == nil || place.what != aLock {
		return at, false
	}
	return stack[outermost(stack, place.functions)+1], true
}

// outermost returns the index of the frame nearest to the root that is one of some functions; -1 if
// there is none.
func outermost(stack []profile.Frame, functions []string) int {
	for i, f := range slices.Backward(stack) {
		if slices.ContainsFunc(functions, func(n string) bool { return fits(f.Function, n) }) {
			return i
		}
	}
	return -1
}

// onNetwork reports whether a goroutine waits for the other end of a connection.
func onNetwork(stack []profile.Frame) bool {
	return slices.ContainsFunc(stack, func(f profile.Frame) bool {
		return slices.ContainsFunc(answers, func(n string) bool { return fits(f.Function, n) })
	})
}

// answers are where goroutines wait for an answer over a connection.
var answers = []string{
	"net/http.(*persistConn).roundTrip", "net.(*conn).Read", "internal/poll.(*FD).Read",
	"net/http.(*http2ClientConn).roundTrip", "net/http.(*http2clientStream).",
	"golang.org/x/net/http2.(*ClientConn).roundTrip", "golang.org/x/net/http2.(*clientStream).",
	"google.golang.org/grpc.(*ClientConn).Invoke",
}
