package diagnose

import (
	"slices"
	"strings"
)

// store is what services commonly depend on, with how to see what it does.
type store struct {
	processes []string // how the names of their processes begin
	port      string
	name      string
	busy      Action // where they compute
	waits     Action // where they wait
	// single says that one thread runs all of its commands.
	single bool
	// session is what it does for each new connection, behind its name, where that costs more than
	// most queries, and keeps how to have fewer.
	session string
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
		keeps: []Action{{
			Text: "take connections from a pool, which keeps them: of the driver or the " +
				"framework (psycopg2.pool, SQLAlchemy's engine, HikariCP, pg.Pool, sql.DB), made " +
				"once for the process; or put PgBouncer in front of PostgreSQL",
			Command: "psql -c 'SELECT sessions, session_time / sessions AS ms_each FROM " +
				"pg_stat_database WHERE datname = current_database()'",
		}},
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
		keeps: []Action{{
			Text: "take connections from a pool, which keeps them, made once for the process; or " +
				"put ProxySQL in front of MySQL",
			Command: "mysql -e \"SHOW GLOBAL STATUS LIKE 'Connections'\"",
		}},
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
	},
}

// store is which of the stores a dependency is, by the name of its process; nil where it is none.
func (d dependency) store() *store {
	for i := range stores {
		if slices.ContainsFunc(stores[i].processes, func(p string) bool {
			return strings.HasPrefix(d.process, p)
		}) {
			return &stores[i]
		}
	}
	return nil
}
