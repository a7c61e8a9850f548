package kernel

// script is a case that is played over the model and over the machine's kernel. Its steps are those
// of run.do.
type script struct {
	name  string
	steps string
}

// pairScripts begin with a connection that is watched. Each is played for one that the script's
// side has dialled, and for one that it has accepted.
var pairScripts = []script{
	{"a fresh connection", `
		recv 10
		peek
		error
		unacknowledged
		peer reads 10`},
	{"messages both ways", `
		peer writes 5
		peek
		recv 3
		peek
		poll
		recv 10
		recv 10
		send 4
		peer reads 10
		peer writes 2
		recv 10`},
	{"an edge is told once", `
		peer writes 5
		poll
		poll
		peer writes 5
		poll
		recv 10
		recv 10`},
	{"the peer ends its direction", `
		peer ends
		recv 10
		recv 10
		peek
		send 5
		peer reads 10
		error
		poll`},
	{"the peer ends its direction after a message", `
		peer writes 5
		peer ends
		peek
		recv 2
		recv 10
		recv 10
		send 5
		peer reads 10`},
	{"half-close, first the peer, then we", `
		peer ends
		recv 10
		shutdown write
		send 5
		send 5
		recv 10
		peer reads 10
		error
		poll`},
	{"half-close, first we, then the peer", `
		shutdown write
		send 5
		peer reads 10
		peer writes 5
		recv 10
		peer ends
		recv 10
		send 5
		poll`},
	{"half-close with data both ways", `
		send 7
		shutdown write
		peer writes 9
		peer ends
		peer reads 20
		peer reads 20
		recv 20
		recv 20
		close connection`},
	{"the peer closes", `
		peer closes
		peek
		recv 10
		recv 10
		error
		close connection`},
	{"the peer closes after a message", `
		peer writes 5
		peer closes
		recv 10
		recv 10
		recv 10`},
	{"sends after the peer has closed", `
		peer closes
		send 5
		send 5
		send 5
		recv 10
		error`},
	{"recv after a send to a closed peer", `
		peer closes
		send 5
		recv 10
		recv 10
		send 5
		send 5`},
	{"the end was read before a send to a closed peer", `
		peer closes
		recv 10
		send 5
		recv 10
		error
		error
		send 5`},
	{"a message from before the reset stays readable", `
		peer writes 5
		peer closes
		send 5
		peek
		recv 10
		recv 10
		send 5`},
	{"SO_ERROR after a send to a closed peer", `
		peer closes
		send 5
		error
		error
		recv 10
		send 5`},
	{"the peer closes with something unread", `
		send 5
		peer closes
		recv 10
		recv 10
		send 5
		error`},
	{"the peer closes with something unread, and we send", `
		send 5
		peer closes
		send 5
		send 5
		recv 10
		error`},
	{"the peer closes with something unread after a message", `
		send 5
		peer writes 3
		peer closes
		peek
		recv 10
		recv 10
		recv 10`},
	{"the peer ends, then closes with something unread", `
		send 5
		peer ends
		recv 10
		peer closes
		recv 10
		send 5
		error`},
	{"the peer resets", `
		peer resets
		recv 10
		recv 10
		send 5
		error`},
	{"the peer resets and we send", `
		peer resets
		send 5
		send 5
		recv 10`},
	{"the peer resets and we peek", `
		peer resets
		peek
		peek
		recv 10
		send 5`},
	{"the peer resets and we ask for the error", `
		peer resets
		error
		error
		recv 10
		send 5
		poll`},
	{"the peer resets after a message", `
		peer writes 5
		peer resets
		peek
		recv 3
		recv 10
		recv 10
		recv 10`},
	{"the peer resets after a message, and we send", `
		peer writes 5
		peer resets
		send 5
		send 5
		recv 10
		recv 10`},
	{"the peer ends, then resets", `
		peer ends
		recv 10
		peer resets
		recv 10
		error
		send 5`},
	{"the peer resets after we ended", `
		shutdown write
		peer resets
		recv 10
		recv 10
		send 5
		error`},
	{"the peer resets after both ended", `
		shutdown write
		peer ends
		peer resets
		recv 10
		error
		send 5`},
	{"we close with something unread", `
		peer writes 5
		close connection
		peer reads 10
		peer writes 5
		peer reads 10`},
	{"we close in order", `
		close connection
		peer reads 10
		peer writes 5
		peer writes 5
		peer reads 10`},
	{"we close after a message", `
		send 5
		close connection
		peer reads 10
		peer reads 10`},
	{"we close with linger 0", `
		linger
		close connection
		peer reads 10
		peer writes 5`},
	{"we close with linger 0 after a message", `
		send 5
		linger
		close connection
		peer reads 10
		peer reads 10`},
	{"we close with linger 0 after the peer ended", `
		peer ends
		linger
		close connection
		peer reads 10`},
	{"shutdown of both directions", `
		shutdown both
		poll
		recv 10
		send 5
		error
		peer reads 10
		peer writes 5
		poll
		recv 10
		recv 10
		peer writes 5`},
	{"shutdown of both directions with something unread", `
		peer writes 5
		shutdown both
		peek
		recv 10
		recv 10
		close connection
		peer reads 10`},
	{"shutdown twice", `
		shutdown write
		shutdown write
		shutdown both
		peer reads 10
		recv 10`},
	{"shutdown after a reset", `
		peer resets
		shutdown both
		recv 10
		send 5`},
	{"shutdown after the peer closed", `
		peer closes
		shutdown both
		recv 10
		send 5`},
	{"what is unacknowledged", `
		unacknowledged
		send 1000
		peer reads 2000
		unacknowledged
		peer ends
		unacknowledged
		shutdown write
		unacknowledged`},
	{"what is unacknowledged until the peer reads", `
		send 1000
		unacknowledged
		peer reads 2000
		unacknowledged`},
	{"a full socket drains", `
		fill
		poll
		unacknowledged
		peer drains
		unacknowledged
		send 5
		peer reads 10`},
	{"a full socket that nobody asked again drains", `
		fill
		peer drains
		poll
		fill
		peer drains`},
	{"a full socket and the peer's message", `
		fill
		peer writes 5
		recv 10
		peer ends
		recv 10
		peer drains`},
	{"a full socket and shutdown", `
		fill
		shutdown write
		send 5
		peer drains
		peer reads 10
		poll`},
	{"a full socket and close", `
		fill
		close connection
		peer drains
		peer reads 10`},
	{"a full socket and a reset", `
		fill
		peer resets
		recv 10
		send 5
		poll`},
	{"a full socket and a close", `
		fill
		peer closes
		recv 10
		recv 10
		send 5`},
	{"a full peer", `
		peer fills
		recv 100
		close connection
		peer reads 10`},
	{"what is unacknowledged after a reset", `
		send 5
		peer resets
		unacknowledged
		error
		unacknowledged`},
	{"what is unacknowledged after a send to a closed peer", `
		peer closes
		send 5
		unacknowledged`},
	{"the peer reads a part of a message", `
		send 5
		peer reads 3
		peer reads 3
		peer reads 3`},
	{"the peer reads a little of what fills the socket", `
		fill
		peer reads 1000
		poll
		peer drains`},
	{"we end, and the peer closes", `
		shutdown write
		peer closes
		recv 10
		error
		send 5`},
	{"we end, and the peer closes with something unread", `
		send 5
		shutdown write
		peer closes
		recv 10
		recv 10
		send 5`},
	{"both end, and the peer closes with something unread", `
		send 5
		shutdown write
		peer ends
		peer closes
		recv 10
		error`},
	{"both end, and we close with something unread", `
		peer writes 5
		peer ends
		shutdown write
		close connection
		peer reads 10`},
	{"the peer ends, and we close with something unread", `
		peer writes 5
		peer ends
		close connection
		peer reads 10`},
	{"shutdown of both directions and close with something unread", `
		peer writes 5
		shutdown both
		close connection
		peer reads 10
		peer reads 10`},
	{"shutdown of both directions, and the peer ends", `
		shutdown both
		peer ends
		recv 10
		peer closes
		error`},
	{"shutdown of both directions, and the peer resets", `
		shutdown both
		peer resets
		recv 10
		recv 10
		error`},
	{"shutdown of reading", `
		shutdown read
		recv 10
		peer writes 5
		recv 10
		recv 10
		send 5
		peer reads 10
		shutdown write
		peer reads 10`},
	{"linger 0 with something unread", `
		peer writes 5
		linger
		close connection
		peer reads 10`},
	{"a reset of a connection that is over", `
		peer ends
		shutdown write
		linger
		close connection
		peer reads 10`},
	{"the peer resets a full connection that was told to end", `
		fill
		shutdown write
		peer resets
		recv 10
		error`},
	{"full both ways", `
		fill
		peer fills
		poll
		peer drains
		peer closes
		error`},
	{"watched by another poller", `
		unwatch 0
		watch 1
		poll
		peer writes 5
		recv 10`},
	{"watched by another poller while ready", `
		peer writes 5
		unwatch 0
		watch 1
		poll
		recv 10
		unwatch 1
		watch 0`},
	{"watched again after the end", `
		peer writes 5
		peer ends
		unwatch 0
		watch 0
		recv 10
		unwatch 0
		watch 0`},
	{"watched again after the peer closed", `
		unwatch 0
		peer closes
		watch 0
		send 5
		unwatch 0
		watch 0`},
	{"watched again after a reset", `
		unwatch 0
		peer resets
		watch 0
		recv 10
		unwatch 0
		watch 0`},
	{"watched again while full", `
		fill
		unwatch 0
		watch 1
		peer drains
		unwatch 1
		watch 0`},
	{"watched by two pollers", `
		watch 1
		peer writes 5
		recv 10
		peer closes
		recv 10`},
	{"watched twice by one poller", `
		watch 0
		peer writes 5`},
}
