package kernel

// ownScripts begin with nothing.
var ownScripts = []script{
	{"a socket that was never connected", `
		socket
		watch 0
		recv 10
		peek
		send 5
		error
		close connection`},
	{"connect to a peer that accepts", `
		connect accepting
		watch 0
		error
		send 5
		peer reads 10`},
	{"connect where nobody ever listened", `
		connect missing
		error
		close connection`},
	{"connect where nobody listens any more", `
		connect dead
		error
		close connection`},
	{"a refused connect is watched", `
		connect dead
		watch 0
		poll
		error
		error
		recv 10
		send 5`},
	{"a refused connect, and we send", `
		connect dead
		watch 0
		send 5
		send 5
		recv 10`},
	{"a refused connect, and we receive", `
		connect dead
		watch 0
		recv 10
		recv 10
		send 5`},
	{"connect to a full accept queue", `
		connect full
		error
		poll
		close connection`},
	{"calls on a connection that the peer does not accept", `
		connect full
		watch 0
		recv 10
		peek
		send 5
		unacknowledged
		error
		close connection`},
	{"a connection in the accept queue", `
		listen 8
		accept
		peer dials
		peer outcome
		poll
		poll
		accept
		watch 0
		accept
		poll`},
	{"two connections in the accept queue", `
		listen 8
		peer dials
		peer dials
		accept
		poll
		accept
		poll`},
	{"a message before accept", `
		listen 8
		peer dials
		peer writes 5
		accept
		watch 0
		recv 10
		send 3
		peer reads 10`},
	{"the peer closes in the accept queue", `
		listen 8
		peer dials
		peer closes
		accept
		watch 0
		recv 10
		send 5`},
	{"the peer closes in the accept queue after a message", `
		listen 8
		peer dials
		peer writes 5
		peer closes
		accept
		watch 0
		recv 10
		recv 10`},
	{"the peer resets in the accept queue", `
		listen 8
		peer dials
		peer resets
		poll
		accept
		watch 0
		recv 10
		recv 10
		send 5`},
	{"the peer resets in the accept queue after a message", `
		listen 8
		peer dials
		peer writes 5
		peer resets
		accept
		watch 0
		recv 10
		recv 10`},
	{"the peer ends in the accept queue", `
		listen 8
		peer dials
		peer ends
		accept
		watch 0
		recv 10
		send 5
		peer reads 10`},
	{"the listener closes with a connection in its queue", `
		listen 8
		peer dials
		close listener
		poll
		peer reads 10
		peer writes 5`},
	{"the listener closes with a message in its queue", `
		listen 8
		peer dials
		peer writes 5
		close listener
		peer reads 10`},
	{"the listener closes after accept", `
		listen 8
		peer dials
		accept
		watch 0
		close listener
		peer writes 5
		recv 10`},
	{"nobody listens any more", `
		listen 8
		close listener
		peer dials
		peer outcome`},
	{"one of two descriptors of a listener closes", `
		listen 8
		dup
		peer dials
		unlisten
		close listener
		poll
		peer outcome
		peer writes 5
		peer reads 10`},
	{"a listener that is closed and watched still", `
		listen 8
		dup
		close listener
		peer dials
		poll
		close dup
		poll
		peer reads 10`},
	{"both descriptors of a listener close", `
		listen 8
		dup
		peer dials
		close dup
		poll
		close listener
		peer reads 10`},
	{"a backlog of 0 has room for one", `
		listen 0
		peer dials
		peer outcome
		accept
		peer dials
		peer outcome`},
}

// tcpScripts begin with nothing, too, and are for TCP only: the peer that dials a full Unix socket
// would wait.
var tcpScripts = []script{
	{"the accept queue is full", `
		listen 0
		peer dials
		peer outcome
		peer dials
		peer outcome
		accept
		accept`},
	{"the peer gives up a connection to a full accept queue", `
		listen 0
		peer dials
		peer dials
		peer closes
		accept
		accept`},
}
