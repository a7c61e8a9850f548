package files

import (
	"io"
	"sync"
	"syscall"

	"plimsoll/internal/crash"
	"plimsoll/internal/exchange"
)

// readSize is how many bytes of a file are read at a time.
const readSize = 64 << 10

// source is the body of a response with an open file, or with several parts of any file. It lives
// on its exchange's loop and is reused.
//
// If the client's stream allows it, the kernel sends the bytes that are warm (see warmth);
// otherwise the loop reads them. Other bytes may not be in memory: the loop reads what is, with a
// call that does not wait, and a goroutine reads the rest.
type source struct {
	policy *Policy
	part   *part
	x      *exchange.Exchange
	entry  *entry // held
	file   *file

	at, to  int64      // the rest of the current range
	covered int64      // all bytes from here to at were in memory when they were read
	text    []byte     // sent before the rest of the range
	multi   *multipart // nil for one range
	index   int        // the current range

	reading *reading // nil for none
	buffer  []byte   // of the last reading, whose content the engine may still use
	next    *source  // in the part's list of free sources
}

var _ exchange.FileSource = (*source)(nil)

// newSource returns a source for one range. The caller holds the entry.
func (p *Policy) newSource(x *exchange.Exchange, e *entry, f *file, of span) *source {
	part := &p.parts[x.Loop()]
	s := part.free
	if s == nil {
		s = &source{policy: p, part: part}
	} else {
		part.free = s.next
	}
	e.refs.Add(1)
	*s = source{policy: p, part: part, x: x, entry: e, file: f, at: of.from, to: of.to, covered: of.from}
	return s
}

// Close implements exchange.Source.
func (s *source) Close() {
	if s.reading != nil {
		s.reading.leave()
	}
	s.putBuffer()
	s.entry.release()
	part := s.part
	*s = source{policy: s.policy, part: part, next: part.free}
	part.free = s
}

// Next implements exchange.Source.
func (s *source) Next(most int) ([]byte, error) {
	s.putBuffer()
	if len(s.text) == 0 && s.at == s.to && !s.nextRange() {
		return nil, io.EOF
	}
	if len(s.text) > 0 {
		data := s.text[:min(len(s.text), most)]
		s.text = s.text[len(data):]
		return data, s.ended()
	}
	n := min(int64(most), s.to-s.at, readSize)
	if s.file.fd < 0 {
		data := s.file.content[s.at : s.at+n]
		s.at += n
		return data, s.ended()
	}
	if s.reading != nil {
		return s.takeReading()
	}
	data, err := s.readNow(n)
	if err == exchange.ErrWait {
		s.begin(n)
	}
	if err != nil {
		return nil, err
	}
	s.advance(int64(len(data)))
	return data, s.ended()
}

// ended is io.EOF when nothing is left.
func (s *source) ended() error {
	if len(s.text) == 0 && s.at == s.to && s.multi == nil {
		return io.EOF
	}
	return nil
}

// nextRange continues with what follows a range that was sent. It returns false at the end.
func (s *source) nextRange() bool {
	if s.multi == nil {
		return false
	}
	s.index++
	if s.index == len(s.multi.spans) {
		s.text, s.multi = s.multi.tail(), nil
		return true
	}
	of := s.multi.spans[s.index]
	s.text, s.at, s.to, s.covered = s.multi.head(s.index), of.from, of.to, of.from
	return true
}

// advance is called after reading n bytes that were in memory.
func (s *source) advance(n int64) {
	s.at += n
	w := &s.file.warmth
	s.covered = w.found(s.covered, s.at, s.x.Now())
}

// readNow reads what is in memory into the loop's buffer. It returns exchange.ErrWait if nothing
// is.
func (s *source) readNow(n int64) ([]byte, error) {
	w := &s.file.warmth
	warm := w.warm(s.file.fd, s.at, s.to, s.x.Now())
	if warm == 0 && w.blind.Load() {
		return nil, exchange.ErrWait
	}
	if s.part.scratch == nil {
		s.part.scratch = make([]byte, readSize)
	}
	read := readNow
	if w.blind.Load() {
		read, n = readWarm, min(n, warm)
	}
	for {
		m, errno := read(s.file.fd, s.part.scratch[:n], s.at)
		switch {
		case errno == 0 && m > 0:
			return s.part.scratch[:m], nil
		case errno == 0:
			return nil, io.ErrUnexpectedEOF // the file has become shorter
		case errno == syscall.EAGAIN:
			return nil, exchange.ErrWait
		case errno == syscall.EOPNOTSUPP || errno == syscall.ENOSYS:
			w.blind.Store(true)
			return nil, exchange.ErrWait
		case errno != syscall.EINTR:
			return nil, errno
		}
	}
}

// NextFile implements exchange.FileSource.
func (s *source) NextFile() (fd int, at, n int64) {
	if len(s.text) > 0 || s.reading != nil || s.file.fd < 0 || s.at == s.to {
		return 0, 0, 0
	}
	n = s.file.warmth.warm(s.file.fd, s.at, s.to, s.x.Now())
	return s.file.fd, s.at, n
}

// Took implements exchange.FileSource.
func (s *source) Took(n int64) {
	s.at += n
	s.covered = s.at
}

// reading is a part of a file that a goroutine reads. A closed source abandons it.
type reading struct {
	state errandState
	entry *entry // held
	file  *file
	at    int64
	data  []byte
	err   error
	waker exchange.Waker
}

var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// begin starts a goroutine that reads. It never refuses, because the response has begun; each
// exchange has at most one reading.
func (s *source) begin(n int64) {
	s.part.counts.cold.Add(1)
	s.entry.refs.Add(1)
	r := &reading{entry: s.entry, file: s.file, at: s.at, waker: s.x.Waker()}
	s.reading = r
	go r.run(s.policy.store, n)
}

func (r *reading) run(s *store, n int64) {
	defer crash.Guard("where a file is read")
	s.waiting.Add(1)
	s.readers <- struct{}{}
	if r.state.v.Load() == underWay {
		r.data = buffers.Get().(*[readSize]byte)[:n]
		n, err := readAt(r.file.fd, r.data, r.at)
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		r.data, r.err = r.data[:n], err
	}
	<-s.readers
	s.waiting.Add(-1)
	r.entry.release()
	if r.state.finish() {
		r.waker.Wake()
	} else {
		putBuffer(r.data)
	}
}

// leave is called by a source that no longer needs the reading.
func (r *reading) leave() {
	if !r.state.leave() {
		putBuffer(r.data)
	}
}

// takeReading returns the content that a goroutine has read.
func (s *source) takeReading() ([]byte, error) {
	r := s.reading
	if r.state.v.Load() != done {
		return nil, exchange.ErrWait
	}
	s.reading, s.buffer = nil, r.data
	if r.err != nil {
		return nil, r.err
	}
	s.advance(int64(len(r.data)))
	return r.data, s.ended()
}

func (s *source) putBuffer() {
	putBuffer(s.buffer)
	s.buffer = nil
}

func putBuffer(b []byte) {
	if b != nil {
		buffers.Put((*[readSize]byte)(b[:readSize]))
	}
}
