package diagnose

// program is the advice for a known server program, whatever it serves. An Action without text
// means that there is no advice.
type program struct {
	// widens is about the limit on requests that are let in, cores about the number of processors
	// used, keeps about reusing connections to the services behind, stays about keeping clients'
	// connections, opens about the limit on descriptors, compresses about how it compresses,
	// matches about the regular expressions by which it picks an answer, and logs about its logs.
	widens, cores, keeps, stays, opens, compresses, matches, logs Action
}

// developing is the advice for a server that a framework has for development.
var developing = Action{
	Text: "this server is for development: it answers with HTTP/1.0, and closes, unless it is " +
		"told otherwise, and its framework says not to serve others with it",
	Command: "gunicorn --worker-class gthread --workers 4 --threads 16 APP",
}

// programs are the known server programs, by the names that probe.Runtime uses.
var programs = map[string]program{
	"nginx": {
		widens: Action{
			Text: "nginx has worker_processes × worker_connections connections, a client and a " +
				"connection to the service behind each being one, and limit_conn may allow " +
				"fewer; see also what max_conns its upstream servers have",
			Command: "worker_processes auto; events { worker_connections 4096; }",
		},
		cores: Action{
			Text: "an nginx worker is one thread, and there is one of them unless " +
				"worker_processes says otherwise; of several, the one that wakes first may accept " +
				"most of the connections that clients keep, unless each has a queue (reuseport)",
			Command: "worker_processes auto;   # and listen 443 ssl reuseport;",
		},
		keeps: Action{
			Text: "nginx speaks HTTP/1.0 to the services behind, and closes, unless it is told " +
				"otherwise: keep as many idle connections for each worker as requests are under way",
			Command: "upstream NAME { server ADDRESS; keepalive 128; }   # and in the location: " +
				`proxy_http_version 1.1; proxy_set_header Connection "";`,
		},
		stays: Action{
			Text:    "let nginx keep clients' connections, and for more than a few requests",
			Command: "keepalive_timeout 75s; keepalive_requests 1000;",
		},
		opens: Action{
			Text: "nginx gives its workers a limit of their own: twice as many as they may have " +
				"connections, and some for files",
			Command: "worker_rlimit_nofile 16384;",
		},
		logs: Action{
			Text: "nginx writes a line of its access_log for each request unless it has a buffer, and " +
				"hundreds of its error_log at the levels debug and info; either may go to a syslog",
			Command: "error_log FILE warn; access_log FILE combined buffer=64k flush=5s;",
		},
		compresses: Action{
			Text: "nginx compresses each answer anew unless there is a compressed file beside " +
				"it, and at the level that it is told",
			Command: "gzip_comp_level 4; gzip_static on;   # and in the build: gzip -9 -k FILE",
		},
		matches: Action{
			Text: "nginx tries the regular expressions of a map and of locations one after the " +
				"other until one matches, and those of rewrites until one is the last: names " +
				"without them are found in a table, so write out what can be, and put what most " +
				"requests ask for first",
			Command: "map $uri $to { /old /new; }   # in the place of ~^/old$; location = /ping, " +
				"location ^~ /static/",
		},
	},
	"haproxy": {
		widens: Action{
			Text: "HAProxy sends a server at most its maxconn requests at a time, and the others " +
				"stand in the backend's queue (qcur, qtime in its statistics); maxconn of the " +
				"frontend and of global bound the clients' connections",
			Command: "backend NAME; server S ADDRESS maxconn 512   # see it: " +
				"echo 'show stat' | socat stdio /run/haproxy/admin.sock",
		},
		cores: Action{
			Text: "HAProxy has a thread for each processor unless nbthread or cpu-map says " +
				"otherwise",
			Command: "global; nbthread 8",
		},
		matches: Action{
			Text: "HAProxy tries the expressions of path_reg and map_reg one after the other: " +
				"path, path_beg and map_str find names in a tree",
			Command: "use_backend %[path,map_beg(FILE)]   # in the place of map_reg",
		},
		keeps: Action{
			Text:    "let HAProxy share idle connections to servers, and keep them alive",
			Command: "option http-keep-alive; http-reuse always   # and pool-max-conn on the server",
		},
		stays: Action{
			Text: "let HAProxy keep clients' connections: no option httpclose or forceclose, in " +
				"the defaults either",
			Command: "option http-keep-alive; timeout http-keep-alive 60s",
		},
	},
	"envoy": {
		widens: Action{
			Text: "a cluster's circuit breaker lets 1,024 connections and requests in, unless " +
				"its thresholds say otherwise; what is beyond them is answered 503 " +
				"(upstream_rq_pending_overflow)",
			Command: "circuit_breakers: {thresholds: [{max_connections: 4096, max_requests: 4096}]}",
		},
		cores: Action{
			Text:    "Envoy has a worker thread for each processor unless it is told otherwise",
			Command: "envoy --concurrency 8",
		},
	},
	"traefik": {widens: Action{
		Text: "a middleware (inFlightReq, rateLimit) may let few in; see also the transport to " +
			"servers",
		Command: "serversTransport: {maxIdleConnsPerHost: 512}",
	}},
	"varnish": {
		widens: Action{
			Text: "Varnish has a thread for each request, thread_pools × thread_pool_max of " +
				"them, and a backend's max_connections bounds what is fetched at a time",
			Command: "varnishd -p thread_pool_max=5000   # varnishstat -f MAIN.thread_queue_len",
		},
	},
	"apache": {
		widens: Action{
			Text: "Apache serves MaxRequestWorkers connections at a time; with the prefork and " +
				"worker modules one that is idle and kept alive holds its worker for " +
				"KeepAliveTimeout: use the event module",
			Command: "a2dismod mpm_prefork; a2enmod mpm_event   # MaxRequestWorkers 400",
		},
		cores: Action{
			Text:    "let it have more processes and threads",
			Command: "StartServers 4, MaxRequestWorkers 400, ThreadsPerChild 64",
		},
		keeps: Action{
			Text:    "let mod_proxy keep its connections",
			Command: "ProxyPass / http://ADDRESS/ enablereuse=on max=128",
		},
		stays: Action{
			Text:    "let Apache keep clients' connections",
			Command: "KeepAlive On; MaxKeepAliveRequests 1000; KeepAliveTimeout 15",
		},
		compresses: Action{
			Text:    "mod_deflate compresses each answer anew, at the level that it is told",
			Command: "DeflateCompressionLevel 4",
		},
		matches: Action{
			Text: "Apache tries RewriteRule, RewriteCond, LocationMatch and RedirectMatch one " +
				"after the other: a RewriteMap finds names in a table",
			Command: "RewriteMap moved dbm:FILE   # made by httxt2dbm",
		},
	},
	"lighttpd": {
		widens: Action{
			Text:    "lighttpd bounds its connections, and the processes behind it",
			Command: "server.max-connections = 4096   # fastcgi: max-procs",
		},
		cores: Action{
			Text:    "lighttpd is one thread unless it is told to have more processes",
			Command: "server.max-worker = 4",
		},
	},
	"h2o": {cores: Action{
		Text:    "let it have a thread for each processor",
		Command: "num-threads: 8",
	}},
	"gunicorn": {
		widens: Action{
			Text: "gunicorn's sync workers serve one request at a time each: more workers, or " +
				"threads for requests that wait",
			Command: "gunicorn --workers 4 --worker-class gthread --threads 16 APP",
		},
		stays: Action{
			Text: "gunicorn closes each connection after its answer where keepalive is 0, and " +
				"its sync workers always: have it keep them, with another class of worker",
			Command: "gunicorn --worker-class gthread --threads 16 --keep-alive 75 APP",
		},
	},
	"uvicorn": {
		widens: Action{
			Text: "a function that is not async runs in a pool of 40 threads (anyio); a bound on " +
				"all is --limit-concurrency",
			Command: "anyio.to_thread.current_default_thread_limiter().total_tokens = 200",
		},
		stays: Action{
			Text:    "uvicorn closes connections that are idle for 5 s unless it is told otherwise",
			Command: "uvicorn --timeout-keep-alive 75 APP",
		},
	},
	"werkzeug": {
		widens: developing,
		stays:  developing,
	},
	"wsgiref": {
		widens: developing,
		stays:  developing,
	},
	"uwsgi": {
		widens: Action{
			Text:    "uWSGI serves processes × threads requests at a time",
			Command: "uwsgi --processes 4 --threads 16",
		},
		cores: Action{Text: "let uWSGI have more processes", Command: "uwsgi --processes 4"},
	},
	"waitress": {
		widens: Action{
			Text:    "waitress serves 4 requests at a time unless told otherwise",
			Command: "waitress-serve --threads=32 APP",
		},
	},
	"puma": {
		widens: Action{
			Text: "Puma serves workers × threads requests at a time, and a thread that has " +
				"answered waits a fifth of a second for its connection's next request",
			Command: "puma -w 4 -t 16:16   # enable_keep_alives false where a proxy in front " +
				"keeps them",
		},
	},
	"unicorn": {
		widens: Action{
			Text:    "Unicorn serves one request for each worker",
			Command: "worker_processes 16",
		},
	},
	"tomcat": {
		widens: Action{
			Text:    "Tomcat serves maxThreads requests at a time",
			Command: `<Connector maxThreads="400" …/>`,
		},
		stays: Action{
			Text:    "Tomcat closes a connection after 100 requests unless it is told otherwise",
			Command: `<Connector maxKeepAliveRequests="10000" keepAliveTimeout="60000" …/>`,
		},
	},
	"jetty": {
		widens: Action{
			Text:    "Jetty serves as many requests as its pool has threads",
			Command: "jetty.threadPool.maxThreads=400",
		},
	},
}
