package diagnose

import (
	"slices"
	"strings"
)

// store is a kind of service that others commonly depend on, with how to see what it does.
type store struct {
	processes []string // prefixes of the names of their processes
	port      string
	name      string
	busy      Action // advice if it is saturated
	waits     Action // advice if it waits
	// single says that one thread runs all of its commands.
	single bool
	// quick says that most of its commands take microseconds, whatever is stored.
	quick bool
	// keyed says that it finds what is asked for by a key in well under a millisecond.
	keyed bool
	// session is what it does for each new connection, to follow its name, if that costs more than
	// most queries. login is how many processor seconds that takes, and keeps is how to have fewer new
	// connections.
	session string
	login   float64
	keeps   []Action
}

var stores = []store{
	{
		processes: []string{"postgres"},
		port:      ":5432",
		name:      "PostgreSQL",
		busy: Action{
			Text: "see which queries take the time, and whether they read whole tables where an " +
				"index would do (Seq Scan)",
			Command: "psql -c 'SELECT relname, seq_scan, seq_tup_read FROM pg_stat_user_tables " +
				"ORDER BY 3 DESC LIMIT 5'   # and: EXPLAIN (ANALYZE, BUFFERS) QUERY",
		},
		waits: Action{
			Text: "see what its sessions wait for under load: a lock on a row that a transaction " +
				"holds for long (wait_event_type Lock; hold it for less: no call to others " +
				"between the first change and the commit), a disk (IO), or their client",
			Command: "psql -c 'SELECT wait_event_type, wait_event, state, left(query, 60), " +
				"count(*) FROM pg_stat_activity GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC'",
		},
		session: "starts a process for each connection, and asks it for a password",
		login:   loginCost,
		keeps: []Action{{
			Text: "take connections from a pool, which keeps them: of the driver or the " +
				"framework (psycopg2.pool, SQLAlchemy's engine, HikariCP, pg.Pool, sql.DB), made " +
				"once for the process; or put PgBouncer in front of PostgreSQL",
			Command: "psql -c 'SELECT sessions, session_time / sessions AS ms_each FROM " +
				"pg_stat_database WHERE datname = current_database()'",
		}},
		keyed: true,
	},
	{
		processes: []string{"mysqld", "mariadbd"},
		port:      ":3306",
		name:      "MySQL",
		busy: Action{
			Text:    "see which queries read far more rows than they give",
			Command: "mysql -e 'SELECT * FROM sys.statements_with_full_table_scans LIMIT 5'",
		},
		waits: Action{
			Text:    "see which transactions hold locks on rows that others wait for",
			Command: "mysql -e 'SELECT * FROM sys.innodb_lock_waits'",
		},
		session: "makes a session for each connection, and asks it for a password",
		login:   .4e-3,
		keeps: []Action{{
			Text: "take connections from a pool, which keeps them, made once for the process; or " +
				"put ProxySQL in front of MySQL",
			Command: "mysql -e \"SHOW GLOBAL STATUS LIKE 'Connections'\"",
		}},
		keyed: true,
	},
	{
		processes: []string{"redis-server", "valkey-server", "keydb-server"},
		port:      ":6379",
		name:      "Redis",
		busy: Action{
			Text: "one thread runs all commands, so one that looks at many keys or elements " +
				"holds up all others (KEYS, SORT, a long LRANGE, SMEMBERS of a large set, a " +
				"script): keep an index of what is looked for, or go through it in pieces (SCAN)",
			Command: "redis-cli slowlog get 10; redis-cli info commandstats",
		},
		waits: Action{
			Text: "see whether it waits for its disk (appendfsync always) or blocks on purpose " +
				"(BLPOP)",
			Command: "redis-cli --latency; redis-cli info persistence",
		},
		single: true,
		quick:  true,
	},
	{
		processes: []string{"mongod", "mongos"},
		port:      ":27017",
		name:      "MongoDB",
		busy: Action{
			Text: "see which operations take the time, and whether they look at whole " +
				"collections where an index would do (COLLSCAN)",
			Command: `mongosh --eval 'db.currentOp({planSummary: "COLLSCAN"})'   # and: ` +
				`db.COLLECTION.find(QUERY).explain("executionStats")`,
		},
		waits: Action{
			Text: "see what waits there: a write that is acknowledged by a journal or by several " +
				"members (w, j), a document that all write to, or a lock",
			Command: `mongosh --eval 'db.currentOp({waitingForLock: true})'   # and: mongostat`,
		},
		keyed: true,
	},
	{
		processes: []string{"memcached"},
		port:      ":11211",
		name:      "memcached",
		busy: Action{
			Text: "it has few threads (-t), and large values or one key that all ask for keep " +
				"them busy: ask for several keys at once, and keep the hottest in the service " +
				"for a second",
			Command: "echo stats | nc 127.0.0.1 11211; echo 'stats items' | nc 127.0.0.1 11211",
		},
		waits: Action{
			Text:    "see whether it refuses or delays connections (listen_disabled_num, -c)",
			Command: "echo stats | nc 127.0.0.1 11211 | grep -E 'conn|disabled'",
		},
		quick: true,
	},
	{
		processes: []string{"elasticsearch", "opensearch"},
		port:      ":9200",
		name:      "Elasticsearch",
		busy: Action{
			Text: "see which searches take the time: wildcards in front, scripts, deep pages and " +
				"aggregations over many values look at every document",
			Command: `curl 'localhost:9200/_nodes/hot_threads'   # and "profile": true`,
		},
		waits: Action{
			Text:    "see whether its pools of threads have queues",
			Command: "curl 'localhost:9200/_cat/thread_pool?v&h=name,active,queue,rejected'",
		},
	},
	{
		processes: []string{"clickhouse"},
		port:      ":8123",
		name:      "ClickHouse",
		busy: Action{
			Text: "see which queries read the most, and whether they use the order of the table " +
				"(ORDER BY, PREWHERE)",
			Command: "clickhouse-client -q 'SELECT query, read_rows, query_duration_ms FROM " +
				"system.query_log ORDER BY read_rows DESC LIMIT 5'",
		},
		waits: Action{
			Text:    "see what runs, and bring many small inserts together in one",
			Command: "clickhouse-client -q 'SELECT query, elapsed FROM system.processes'",
		},
	},
	{
		processes: []string{"pgbouncer"},
		port:      ":6432",
		name:      "PgBouncer",
		busy: Action{
			Text: "it has one thread: run several on one port (so_reuseport), and keep the " +
				"connections to it, above all with TLS",
			Command: "psql -p 6432 pgbouncer -c 'SHOW STATS'",
		},
		waits: Action{
			Text: "see how many clients wait for a connection to the server (cl_waiting), and " +
				"what its pool is (default_pool_size, 20)",
			Command: "psql -p 6432 pgbouncer -c 'SHOW POOLS'",
		},
		single: true,
	},
	{
		processes: []string{"beam.smp"},
		port:      ":5672",
		name:      "RabbitMQ",
		busy: Action{
			Text:    "a queue is one process of its own: share messages out over several queues",
			Command: "rabbitmqctl list_queues name messages consumers",
		},
		waits: Action{
			Text: "see whether it holds publishers back (memory and disk alarms, flow), and " +
				"whether each message waits for a confirmation of its own",
			Command: "rabbitmqctl list_connections name state; rabbitmq-diagnostics alarms",
		},
	},
	{
		processes: []string{"php-fpm"},
		port:      ":9000",
		name:      "PHP-FPM",
		busy: Action{
			Text:    "see which scripts take the time, and whether OPcache is on",
			Command: "request_slowlog_timeout = 1s, slowlog = slow.log   # opcache.enable = 1",
		},
		waits: Action{
			Text: "its pool serves pm.max_children requests at a time: see how many wait (listen " +
				"queue), and what they do",
			Command: "pm.max_children = 64   # pm.status_path",
		},
	},
	{
		processes: []string{"etcd"},
		port:      ":2379",
		name:      "etcd",
		busy: Action{
			Text:    "see which ranges are read, and ask for fewer keys, or watch them",
			Command: "curl -s localhost:2379/metrics | grep -E 'range|slow'",
		},
		waits: Action{
			Text:    "each write waits for the disks of most members: bring writes together",
			Command: "curl -s localhost:2379/metrics | grep wal_fsync",
		},
	},
	{
		processes: []string{
			"named", "unbound", "dnsmasq", "coredns", "systemd-resolve", "pdns", "kresd",
		},
		port: ":53",
		name: "a name server",
		busy: Action{
			Text: "ask it less: keep connections to others, so that a request looks no name up, " +
				"or keep what it has answered",
			Command: "strace -f -e trace=sendto,sendmmsg,connect -p PID 2>&1 | head -40",
		},
		waits: Action{
			Text: "see what is looked up for each request, and how long that takes: a name with " +
				"few dots is tried with each domain of the list first (ndots, search); keep " +
				"connections, or what was answered",
			Command: "time getent ahosts NAME; cat /etc/resolv.conf",
		},
	},
	{
		processes: []string{"nats-server"},
		port:      ":4222",
		name:      "NATS",
		busy: Action{
			Text:    "see which subjects carry most",
			Command: "nats server report connections",
		},
		waits: Action{
			Text: "see whether each message waits for its own acknowledgement (JetStream): " +
				"publish several before waiting for all",
			Command: "nats stream report; nats consumer report STREAM",
		},
	},
	{
		processes: []string{"sqlservr"},
		port:      ":1433",
		name:      "SQL Server",
		busy: Action{
			Text:    "see which queries read whole tables",
			Command: "SELECT TOP 5 * FROM sys.dm_exec_query_stats ORDER BY total_worker_time DESC",
		},
		waits: Action{
			Text:    "see who waits for whose lock",
			Command: "SELECT session_id, blocking_session_id, wait_type FROM sys.dm_exec_requests",
		},
	},
	{
		processes: []string{"slapd"},
		port:      ":389",
		name:      "LDAP",
		busy: Action{
			Text:    "see which searches have no index (bdb_equality_candidates … not indexed)",
			Command: "ldapsearch -b cn=config olcDbIndex",
		},
		waits: Action{
			Text:    "keep connections and what was answered: a bind for each request is slow by design",
			Command: "ldapsearch -b cn=monitor '(objectClass=monitorOperation)'",
		},
	},
}

// store returns the store that a dependency is, by the name of its process, or, if the process only
// names what it runs on, by its port; nil if it is none of them.
func (d dependency) store() *store {
	for i := range stores {
		s := &stores[i]
		if slices.ContainsFunc(s.processes, func(p string) bool {
			return strings.HasPrefix(d.process, p)
		}) || d.process == "java" && strings.HasSuffix(d.address, s.port) {
			return s
		}
	}
	return nil
}

// session returns what a dependency does for each connection that the service opens; empty if that is
// little. A pooler keeps its connections to the store behind it.
func (d dependency) session() string {
	if s := d.store(); s != nil && !d.pooled {
		return s.session
	}
	return ""
}
