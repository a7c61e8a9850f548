package diagnose

import (
	"cmp"
	"fmt"

	"plimsoll/internal/lab/measure"
)

// language is the advice for services of one runtime, in the runtime's own terms.
type language struct {
	name string // for a person, after "a" or "in"
	// widens are the settings that limit how many requests are served at once. cores are those that
	// make the service use more processors. holds is how to see what stays in memory. collects is
	// how to have less garbage collection, and how to see what makes the garbage.
	widens, cores, holds, collects []Action
}

// languages are the runtimes, by the names that package measure has for them.
var languages = map[string]language{
	measure.RuntimeGo: {
		name: "Go",
		widens: []Action{{
			Text: "see where goroutines stand: survey with --pprof (net/http/pprof on an address " +
				"of its own); Go itself bounds nothing, so it is a channel, a pool " +
				"(MaxConnsPerHost, SetMaxOpenConns) or a lock of the service",
			Command: "curl 'INSIDE/debug/pprof/goroutine?debug=1' | head -40",
		}, bounds("x/sync's semaphore and errgroup.SetLimit, a rate.Limiter, a worker pool " +
			"(ants, pond), a mutex or singleflight around a call, PoolSize of go-redis, MaxConns " +
			"of pgxpool")},
		cores: []Action{{
			Text: "take GOMAXPROCS out of the environment and the code: the default is what the " +
				"machine and the quota allow; where it is not set, one goroutine or one lock has " +
				"all the work",
			Command: "unset GOMAXPROCS   # and: grep -rn GOMAXPROCS .",
		}},
		holds: []Action{{
			Text:    "see what holds it: the difference between two heap profiles",
			Command: "go tool pprof -base before.pb.gz 'INSIDE/debug/pprof/heap'",
		}},
	},
	measure.RuntimeNode: {
		name: "Node.js",
		widens: []Action{{
			Text: "file access, DNS lookups and crypto's asynchronous calls share four threads: " +
				"give libuv more of them; and look at the maxSockets of http.Agent and at the " +
				"size of the database client's pool",
			Command: "UV_THREADPOOL_SIZE=64 node SERVICE",
		}, bounds("p-limit, p-queue, async.queue and Bottleneck, a mutex or a chain of promises " +
			"that lets one in after the other, piscina's maxThreads, generic-pool's max, " +
			"connections of undici's Agent, max of pg.Pool, connectionLimit of mysql2, " +
			"maxPoolSize of MongoDB")},
		cores: []Action{
			{
				Text: "an event loop is one thread: run a process for each processor " +
					"(node:cluster, or pm2 -i max) behind the same port",
				Command: "pm2 start SERVICE -i max",
			},
			{
				Text: "and take long computations off the loop: worker_threads, or a service " +
					"of their own; see which they are",
				Command: "node --cpu-prof SERVICE",
			},
		},
		holds: []Action{{
			Text:    "see what holds it: compare two heap snapshots in the inspector",
			Command: "node --inspect --heapsnapshot-signal=SIGUSR2 SERVICE",
		}},
		collects: []Action{
			{
				Text: "give what is short-lived more room, so that it is dead before it is " +
					"looked at; and the old space, where that is nearly full",
				Command: "node --max-semi-space-size=64 --max-old-space-size=4096 SERVICE   # MB",
			},
			{
				Text:    "make less garbage: see what allocates",
				Command: "node --heap-prof SERVICE   # and: node --trace-gc SERVICE",
			},
		},
	},
	measure.RuntimeCPython: {
		name: "CPython",
		widens: []Action{{
			Text: "start more workers or threads; and look at the pool of the database client " +
				"(SQLAlchemy: pool_size and max_overflow) and of the HTTP client " +
				"(requests: HTTPAdapter(pool_maxsize=…, pool_block=False))",
			Command: "gunicorn --workers 4 --threads 16 APP   # uvicorn: --workers 4",
		}, {
			Text: "where an event loop serves (asyncio, aiohttp, uvicorn), a call in it that " +
				"blocks, such as requests or a database client that is not async, holds up all " +
				"requests of its process: await a client that is, or asyncio.to_thread(call)",
			Command: "PYTHONASYNCIODEBUG=1 python SERVICE   # names what holds the loop for 100 ms",
		}, bounds("a ThreadPoolExecutor's max_workers (asyncio's own has four threads more than " +
			"processors), threading's and asyncio's Lock and Semaphore, limit of aiohttp's " +
			"TCPConnector, httpx.Limits, max_size of psycopg_pool and asyncpg, max_connections " +
			"of a BlockingConnectionPool of redis, CONN_MAX_AGE and pool of Django")},
		cores: []Action{
			{
				Text: "one thread of a process runs Python at a time (the GIL), however many " +
					"there are: run a worker process for each processor",
				Command: "gunicorn --workers $(nproc) APP   # uvicorn: --workers $(nproc)",
			},
			{
				Text:    "and see where the time goes",
				Command: "py-spy top --pid PID",
			},
		},
		holds: []Action{{
			Text:    "see what holds it: tracemalloc compares two moments",
			Command: "python -X tracemalloc=10 SERVICE   # tracemalloc.take_snapshot()",
		}},
		collects: []Action{{
			Text: "the collector only looks for cycles: take what is loaded at the start out of " +
				"its sight, and have it look less often",
			Command: "gc.freeze(); gc.set_threshold(50_000, 20, 20)   # after the start",
		}},
	},
	measure.RuntimeJVM: {
		name: "the JVM",
		widens: []Action{{
			Text: "look at the server's pool of threads (Tomcat: maxThreads, Spring Boot: " +
				"server.tomcat.threads.max; Jetty: QueuedThreadPool), and at the connection " +
				"pools (HikariCP: maximumPoolSize; Apache HttpClient: maxConnPerRoute, which " +
				"is 5 or less unless it is set); see where threads stand",
			Command: "jcmd PID Thread.print",
		}, bounds("an executor (newFixedThreadPool, @Async), the common pool of parallel streams " +
			"and CompletableFuture (a thread for each processor but one), synchronized and " +
			"ReentrantLock, a Semaphore or a bulkhead of Resilience4j, OkHttp's " +
			"maxRequestsPerHost (5), maxTotal of Jedis (8), Reactor Netty's and R2DBC's pools, " +
			"the threads of an event loop that is blocked")},
		cores: []Action{
			{
				Text: "see which thread has all the work: a scheduler, an event loop or a " +
					"synchronized block that all requests go through",
				Command: "top -H -p PID; jcmd PID Thread.print   # nid is the thread's number",
			},
			{
				Text: "and see how many processors the JVM believes it has: a quota rounds down " +
					"to one, and then the serial collector is chosen",
				Command: "java -XX:ActiveProcessorCount=2 -XX:+UseG1GC …",
			},
		},
		holds: []Action{{
			Text: "see what holds it: compare two histograms of the heap; a heap that only " +
				"grows to -Xmx is not a leak",
			Command: "jcmd PID GC.class_histogram | head -30",
		}},
		collects: []Action{
			{
				Text: "give the heap more room: it is a quarter of the memory unless it is set, " +
					"and collections come more often the less of it is free; see how full it is after one",
				Command: "java -XX:MaxRAMPercentage=60 …   # or -Xms4g -Xmx4g; jcmd PID GC.heap_info",
			},
			{
				Text:    "see how often it collects and why, and how long each takes",
				Command: "jstat -gcutil PID 1000   # or start it with -Xlog:gc*:file=gc.log",
			},
			{
				Text: "where it is full although it is large, see what is alive: a heap dump " +
					"(the service stands still meanwhile); where little is alive, what allocates",
				Command: "jcmd PID GC.heap_dump /tmp/heap.hprof; jcmd PID JFR.start " +
					"settings=profile duration=30s filename=/tmp/alloc.jfr",
			},
		},
	},
	measure.RuntimeRuby: {
		name: "Ruby",
		widens: []Action{{
			Text:    "start more workers or threads, and let the database's pool have as many",
			Command: "puma -w 4 -t 16:16   # database.yml: pool: 16",
		}, bounds("a Mutex or Monitor, connection_pool's size (5), concurrent-ruby's pools of " +
			"threads, a Queue with few workers, Faraday's and net-http-persistent's pool_size, " +
			"WEB_CONCURRENCY and RAILS_MAX_THREADS")},
		cores: []Action{{
			Text: "one thread of a process runs Ruby at a time (the GVL): run a worker process " +
				"for each processor",
			Command: "puma -w $(nproc)",
		}},
		holds: []Action{{
			Text:    "see what holds it: ObjectSpace's dumps at two moments",
			Command: "require 'objspace'; ObjectSpace.dump_all(output: File.open('heap.json', 'w'))",
		}},
		collects: []Action{{
			Text: "have the heap grow by more before each collection; and see what allocates, " +
				"with the gems stackprof (mode: :object) or memory_profiler",
			Command: "RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO=0.60 RUBY_GC_MALLOC_LIMIT_MAX=134217728 puma",
		}},
	},
	measure.RuntimePHPFPM: {
		name: "PHP-FPM",
		widens: []Action{{
			Text: "let the pool have more processes: each serves one request at a time; as many " +
				"as there is memory for",
			Command: "pm.max_children = 64   # pm.status_path shows how many are active",
		}, bounds("session_start, which locks the session's file until the request ends " +
			"(session_write_close earlier), flock, GET_LOCK, a semaphore (sem_acquire)")},
		cores: []Action{{
			Text:    "let the pool have more processes",
			Command: "pm = static, pm.max_children = 16",
		}},
		holds: []Action{{
			Text:    "restart each process after a number of requests",
			Command: "pm.max_requests = 1000",
		}},
		collects: []Action{{
			Text: "the collector only looks for cycles: see how often it runs, and what makes " +
				"them",
			Command: "var_dump(gc_status());",
		}},
	},
	measure.RuntimeDotNet: {
		name: ".NET",
		widens: []Action{{
			Text: "calls that block (.Result, .Wait()) hold threads of the pool, which grows by " +
				"one or two a second: make them async, and until then start with more threads; " +
				"look at MaxConnectionsPerServer and the connection string's Max Pool Size",
			Command: "DOTNET_ThreadPool_MinThreads=64   # hexadecimal; dotnet-counters monitor -p PID",
		}, bounds("lock and Monitor, a SemaphoreSlim, a bounded Channel with few readers, a " +
			"ConcurrencyLimiter, MaxDegreeOfParallelism, Kestrel's MaxConcurrentConnections")},
		cores: []Action{{
			Text:    "see which thread or lock all requests go through",
			Command: "dotnet-trace collect -p PID   # and DOTNET_PROCESSOR_COUNT is not 1",
		}},
		holds: []Action{{
			Text:    "see what holds it",
			Command: "dotnet-gcdump collect -p PID",
		}},
		collects: []Action{
			{
				Text: "let the heap be larger: a limit is set by DOTNET_GCHeapHardLimit or is " +
					"three quarters of the container's memory; and leave more room to what is short-lived",
				Command: "DOTNET_GCHeapHardLimit=0x100000000 DOTNET_GCgen0size=0x10000000   # hexadecimal",
			},
			{
				Text: "choose the server collector, which collects less often with a heap for " +
					"each processor, where a service has several of them to itself; or the " +
					"workstation's (0), where it shares them with others",
				Command: "DOTNET_gcServer=1   # <ServerGarbageCollection> in the project",
			},
			{
				Text: "see how full each generation is and how often it is collected, and what is " +
					"alive",
				Command: "dotnet-counters monitor -p PID System.Runtime; dotnet-gcdump collect -p PID",
			},
		},
	},
}

// bounds names what limits how many requests are inside, in a language's libraries.
func bounds(what string) Action { return Action{Text: looksFor + what} }

// looksFor begins advice that is the same for all services of a language. It names no place.
const looksFor = "look through the code for what lets few in at a time: "

// nativeLanguage is the advice for compiled programs, which choose their own libraries, and for
// unknown runtimes.
var nativeLanguage = language{
	widens: []Action{{
		Text: "look for the size of its pool of threads, workers or connections in its " +
			"settings, and see where its threads stand",
		Command: "gdb -p PID -batch -ex 'thread apply all bt 8'",
	}, bounds("a mutex that is held while something is waited for, a semaphore, a queue with few " +
		"workers, libuv's four threads (UV_THREADPOOL_SIZE), tokio's Semaphore and blocking " +
		"threads (max_blocking_threads), max_size of r2d2, deadpool and bb8, a curl_multi's max " +
		"connections")},
	cores: []Action{{
		Text: "run more worker threads or processes: one for each processor; and see which of " +
			"its threads has all the work",
		Command: "top -H -p PID",
	}},
	holds: []Action{{
		Text:    "see what holds it: a heap profiler, or where its mappings grow",
		Command: "cat /proc/PID/smaps_rollup; heaptrack -p PID",
	}},
	collects: []Action{{
		Text:    "see what allocates and what is alive: the heap may need more room, or less garbage",
		Command: "heaptrack -p PID",
	}},
}

// runtime returns the advice for the target's runtime.
func (e *Evidence) runtime() language {
	m := &e.Run.Manifest.Machine
	l, known := languages[m.TargetRuntime]
	if !known {
		l = nativeLanguage
	}
	fill := func(actions []Action) (all []Action) {
		for _, a := range actions {
			a.Command = e.filled(a.Command)
			all = append(all, a)
		}
		return all
	}
	l.widens, l.cores, l.holds = fill(l.widens), fill(l.cores), fill(l.holds)
	l.collects = fill(l.collects)
	if s := programs[m.TargetServer]; s.widens.Text != "" {
		l.widens = append([]Action{s.widens}, l.widens...)
	}
	if s := programs[m.TargetServer]; s.cores.Text != "" {
		l.cores = append([]Action{s.cores}, l.cores...)
	}
	return l
}

// whose names the runtime, to follow a claim; empty if it is not known.
func (e *Evidence) whose() string {
	if l := e.runtime(); l.name != "" {
		return fmt.Sprintf(" (%s)", l.name)
	}
	return ""
}

// keepUpstream is how to keep connections to the services behind, in the terms of the server
// program or the runtime.
func (e *Evidence) keepUpstream() []Action {
	m := &e.Run.Manifest.Machine
	if s := programs[m.TargetServer]; s.keeps.Text != "" {
		return []Action{s.keeps}
	}
	if keep, known := runtimesKeep[m.TargetRuntime]; known {
		return []Action{keep}
	}
	return []Action{{
		Text: "keep connections to the services behind and use them again: one client or pool " +
			"for all requests, with room for as many idle ones as requests are under way; read " +
			"answers to their end",
	}}
}

// server names the server program, if it is known.
func (e *Evidence) server() string {
	return cmp.Or(e.Run.Manifest.Machine.TargetServer, "The service")
}

// keepClients is how the service can keep its clients' connections.
func (e *Evidence) keepClients() []Action {
	if s := programs[e.Run.Manifest.Machine.TargetServer]; s.stays.Text != "" {
		return []Action{s.stays}
	}
	text := "keep connections open: no Connection: close in responses, an idle timeout above the " +
		"clients' think time"
	if knobs := runtimesStay[e.Run.Manifest.Machine.TargetRuntime]; knobs != "" {
		text += "; " + knobs
	}
	return []Action{{Text: text}}
}

// runtimesStay are the settings for clients' connections, by runtime.
var runtimesStay = map[string]string{
	measure.RuntimeGo: "no SetKeepAlivesEnabled(false), an http.Server.IdleTimeout that is long " +
		"enough; answer before the body is read only when it is small",
	measure.RuntimeNode: "server.keepAliveTimeout is 5 s unless it is set, and " +
		"server.maxRequestsPerSocket should be 0",
	measure.RuntimeCPython: "http.server answers with HTTP/1.0, and closes, unless its handler's " +
		"protocol_version is HTTP/1.1 and each response has a Content-Length",
	measure.RuntimeJVM: "Tomcat's maxKeepAliveRequests is 100 unless it is set; the JDK's server " +
		"keeps 200 idle ones (-Djdk.httpserver.maxIdleConnections), and closes where a body is " +
		"not read",
	measure.RuntimeRuby: "Puma's persistent_timeout, and no enable_keep_alives false",
	measure.RuntimePHPFPM: "the web server in front keeps them; PHP's own server and an early " +
		"exit with a body that was not read close",
	measure.RuntimeDotNet: "Kestrel's Limits.KeepAliveTimeout is 130 s unless it is set",
}

// runtimesKeep are the settings for kept connections to other services, by runtime.
var runtimesKeep = map[string]Action{
	measure.RuntimeGo: {
		Text: "one http.Client for all requests, with an http.Transport whose " +
			"MaxIdleConnsPerHost is above the requests under way (2 is the default); " +
			"bodies read to their end and closed",
	},
	measure.RuntimeNode: {
		Text:    "one agent for all requests that keeps its connections",
		Command: "new http.Agent({keepAlive: true, maxFreeSockets: 256})",
	},
	measure.RuntimeCPython: {
		Text: "one session for all requests of a worker (requests.Session, httpx.Client, " +
			"aiohttp.ClientSession), with a pool as large as requests are under way",
		Command: "HTTPAdapter(pool_maxsize=64)",
	},
	measure.RuntimeJVM: {
		Text: "one client for all requests; HttpURLConnection keeps five connections unless " +
			"it is told otherwise",
		Command: "java -Dhttp.maxConnections=256 …",
	},
	measure.RuntimeRuby: {
		Text: "one client that keeps its connections for all requests of a process: " +
			"Net::HTTP.start once, net-http-persistent, Faraday's adapter for it, " +
			"HTTP.persistent, a Redis or database client that is made at the start",
		Command: "Faraday.new(url) { |f| f.adapter :net_http_persistent, pool_size: 16 }",
	},
	measure.RuntimePHPFPM: {
		Text: "PHP forgets its connections with each request: have them kept by the process " +
			"(PDO::ATTR_PERSISTENT, \"p:\" before mysqli's host, pconnect of Redis, " +
			"curl_share_init_persistent), or by a proxy beside it (PgBouncer, ProxySQL, Envoy)",
		Command: "new PDO($dsn, $user, $password, [PDO::ATTR_PERSISTENT => true]);",
	},
	measure.RuntimeDotNet: {
		Text: "one HttpClient for all requests, or IHttpClientFactory, and none in a using; " +
			"database connections from the driver's pool (Pooling=true in the connection string)",
		Command: "new SocketsHttpHandler { PooledConnectionLifetime = TimeSpan.FromMinutes(5) }",
	},
	measure.RuntimeC: {
		Text: "one handle for all requests of a thread: libcurl keeps connections with its easy " +
			"or multi handle (no CURLOPT_FORBID_REUSE), reqwest and hyper with their Client",
	},
}
