package tlsio

import "plimsoll/internal/invariant"

const (
	recordHeader = 5 // type, version, length (RFC 8446, section 5.1)
	// maxRecord is the longest record that any version allows: TLS 1.2 lets ciphertext grow by 2048
	// bytes.
	maxRecord = recordHeader + maxPlain + 2048
	maxPlain  = 16384 // plaintext bytes of one record

	// inBytes is the size of the receive buffers. A buffer holds the longest record and most of a
	// second one, so that a bulk transfer does not take a system call per record.
	inBytes = 32 << 10
	// maxFree is how many receive buffers a loop keeps for reuse. One is enough unless connections
	// hold partial records.
	maxFree = 32
	// corkPlain is how much plaintext goes out in one Socket.Write: four full records.
	corkPlain = 4 * maxPlain
)

// Loop is what the TLS connections of one event loop share: receive buffers, and the buffer that
// gathers the records of one Write. Only that loop's goroutine may use it. Make one with NewLoop.
type Loop struct {
	free [][]byte
	cork []byte
	out  int
}

// NewLoop makes the shared part for one event loop.
func NewLoop() *Loop { return &Loop{} }

// BuffersOut is the number of receive buffers (32 KB each) that connections hold because they
// contain a part of a record or unread plaintext. Connections that wait for their next message hold
// none.
func (l *Loop) BuffersOut() int { return l.out }

func (l *Loop) take() []byte {
	l.out++
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return make([]byte, inBytes)
}

func (l *Loop) give(b []byte) {
	l.out--
	if invariant.On {
		l.checkGiven(b)
	}
	if len(l.free) < maxFree {
		l.free = append(l.free, b)
	}
}

func (l *Loop) checkGiven(b []byte) {
	if l.out < 0 {
		panic("tlsio: more receive buffers given back than taken")
	}
	for _, f := range l.free {
		if &f[0] == &b[0] {
			panic("tlsio: a receive buffer was given back twice")
		}
	}
}

// gather appends a record to the cork.
func (l *Loop) gather(record []byte) {
	if l.cork == nil {
		l.cork = make([]byte, 0, corkPlain+corkPlain/maxPlain*(maxRecord-maxPlain))
	}
	l.cork = append(l.cork, record...)
}
