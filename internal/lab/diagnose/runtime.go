package diagnose

import (
	"cmp"
	"fmt"

	"plimsoll/internal/lab/measure"
)

// language is what is advised for services of one runtime, in its own words.
type language struct {
	name string // for a person, behind "a" or "in"
	// widens are the knobs that bound how many requests are served at once, cores those that have
	// it use more processors, holds how to see what stays in memory, and collects what has it
	// collect garbage less often, and how to see what makes it.
	widens, cores, holds, collects []Action
}

// languages are the runtimes by the names that measure.Runtime has.
var languages = map[string]language{
	measure.RuntimeGo: {
		name: "Go",
		widens: []Action{{
			Text: "see where goroutines stand: survey with --pprof (net/http/pprof on an address " +
				"of its own); Go itself bounds nothing, so it is a channel, a pool " +
				"(MaxConnsPerHost, SetMaxOpenConns) or a lock of the service",
			Command: "curl 'INSIDE/debug/pprof/goroutine?debug=1' | head -40",
		}},
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
		}},
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
		}},
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
		}},
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
		}},
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
		}},
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
		}},
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

// nativeLanguage is what is advised where a program was compiled and its libraries are its own
// choice, or nothing is known of it.
var nativeLanguage = language{
	widens: []Action{{
		Text: "look for the size of its pool of threads, workers or connections in its " +
			"settings, and see where its threads stand",
		Command: "gdb -p PID -batch -ex 'thread apply all bt 8'",
	}},
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

// runtime is what is advised for the target's runtime.
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

// whose names the runtime, behind a claim; empty where it is not known.
func (e *Evidence) whose() string {
	if l := e.runtime(); l.name != "" {
		return fmt.Sprintf(" (%s)", l.name)
	}
	return ""
}

// keepUpstream is how to keep connections to services behind, in the words of what serves.
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

// server is what serves: the program, where it is one that is known.
func (e *Evidence) server() string {
	return cmp.Or(e.Run.Manifest.Machine.TargetServer, "The service")
}

// keepClients is how the service would keep its clients' connections.
func (e *Evidence) keepClients() []Action {
	if s := programs[e.Run.Manifest.Machine.TargetServer]; s.stays.Text != "" {
		return []Action{s.stays}
	}
	text := "keep connections open: no Connection: close in responses, an idle timeout above the " +
		"clients' think time"
	if e.Run.Manifest.Machine.TargetRuntime == measure.RuntimeGo {
		text = "keep connections open: no SetKeepAlivesEnabled(false), no Connection: close, an " +
			"http.Server.IdleTimeout above the clients' think time; answer before the body is " +
			"read only when it is small"
	}
	return []Action{{Text: text}}
}

// runtimesKeep are the knobs of connections that are kept, by runtime.
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
}
