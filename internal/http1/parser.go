package http1

import (
	"bytes"

	"plimsoll/internal/head"
)

// parser is what requests and responses have in common: it finds lines, reads field lines, and
// keeps what those say about framing and about the connection.
//
// A line is judged when it is complete, and never looked at again. The limits, which also judge
// incomplete lines, are asked before anything else of a line, and about the same count of bytes
// either way: so neither the result nor the error depends on how the bytes were split. Offsets are
// into the buffer that the caller shows.
type parser struct {
	line    int   // where the current line begins
	scanned int   // up to here there is no end of the current line
	fields  int   // where the first field line begins; 0 while the start line is not complete
	length  int64 // of Content-Length
	said    uint16
	failed  Error
}

// What fields said.
const (
	saidLength = 1 << iota
	saidChunked
	saidClose
	saidKeepAlive
	saidUpgrade // Connection names it
	said100
	saidHost
	saidHosts // more than one
	saidHTTPS // the target's scheme
	saidEmptyLine
)

// startLine is the next line without its CRLF, or nil when it is not complete. It may be empty.
func (p *parser) startLine(b []byte, lim *Limits) ([]byte, Error) {
	start := p.line
	i := bytes.IndexByte(b[p.scanned:], '\n')
	if i < 0 {
		p.scanned = len(b)
		if lim.Line > 0 && len(b)-start > lim.Line+1 {
			return nil, LineTooLong
		}
		return nil, OK
	}
	end := p.scanned + i
	if lim.Line > 0 && end-start > lim.Line+1 {
		return nil, LineTooLong
	}
	if end == start || b[end-1] != '\r' {
		return nil, BareLF
	}
	p.line, p.scanned = end+1, end+1
	return b[start : end-1], OK
}

// readFields reads field lines up to the empty one. n is the length of the head, or 0 when more is
// needed.
func (p *parser) readFields(b []byte, lim *Limits, l *head.List) (n int, err Error) {
	for {
		start := p.line
		i := bytes.IndexByte(b[p.scanned:], '\n')
		if i < 0 {
			p.scanned = len(b)
			// A lone CR may be the first half of the empty line, which is not counted.
			if lim.Head > 0 && len(b)-p.fields > lim.Head && string(b[start:]) != "\r" {
				return 0, HeadTooLarge
			}
			return 0, OK
		}
		end := p.scanned + i
		if end-start == 1 && b[start] == '\r' {
			return end + 1, OK
		}
		if lim.Head > 0 && end+1-p.fields > lim.Head {
			return 0, HeadTooLarge
		}
		if end == start || b[end-1] != '\r' {
			return 0, BareLF
		}
		if lim.Fields > 0 && l.Len() >= lim.Fields {
			return 0, TooManyFields
		}
		if err := p.readField(b[start:end+1], l); err != OK {
			return 0, blame(b[start:end-1], err)
		}
		p.line, p.scanned = end+1, end+1
	}
}

// blame is the error of a refused line, without its CRLF: whatever else is wrong, a bare CR in it
// is what to tell.
func blame(line []byte, err Error) Error {
	if bytes.IndexByte(line, '\r') >= 0 {
		return BareCR
	}
	return err
}

// readField appends the field of a line, which ends in CRLF, and notes what it says.
func (p *parser) readField(line []byte, l *head.List) Error {
	at, id, err := checkField(line)
	if err != OK {
		return err
	}
	f := l.Extend(id)
	fillField(f, line, at)
	if speaks>>id&1 != 0 {
		return p.hear(f)
	}
	return OK
}

// checkField judges a field line, which ends in CRLF, and says where its colon is and what it is
// called.
//
// A known name needs no check, nor does an alias, because both are tokens; values are checked eight
// bytes at a time. So only the bytes of unknown names are looked at one by one.
func checkField(line []byte) (at int, id head.ID, err Error) {
	if isSpace(line[0]) {
		return 0, 0, ObsFold
	}
	at = colon(line)
	if at <= 0 {
		return 0, 0, BadFieldName
	}
	name := line[:at]
	id = head.Lookup(name)
	if id == head.Other && !head.IsToken(name) {
		return 0, 0, BadFieldName
	}
	if !head.IsText(line[at+1 : len(line)-2]) {
		return 0, 0, BadFieldValue
	}
	return at, id, OK
}

// fillField sets the parts of f from a line that ends in CRLF and has its colon at at. Name and
// Value have no capacity to spare, so that nobody who appends to them writes over the line.
func fillField(f *head.Field, line []byte, at int) {
	f.Name = line[:at:at]
	from, to := at+1, len(line)-2
	if from < to && line[from] == ' ' {
		from++
		if from == to || !isSpace(line[from]) && !isSpace(line[to-1]) {
			f.Value = line[from:to:to]
			f.Line = line
			return
		}
	}
	value := trim(line[from:to])
	f.Value = value[:len(value):len(value)]
}

// speaks is the fields that hear listens to.
const speaks = 1<<head.ContentLength | 1<<head.TransferEncoding | 1<<head.Connection |
	1<<head.Expect | 1<<head.Host

// hear notes what a field says about framing and connection, and refuses what could be read in two
// ways.
func (p *parser) hear(f *head.Field) Error {
	switch f.ID {
	case head.ContentLength:
		n, ok := head.ParseLength(f.Value)
		switch {
		case p.said&saidChunked != 0:
			return LengthAndCoding
		case !ok || p.said&saidLength != 0:
			// RFC 9112, section 6.3 would let equal ones pass. Who repeats them has merged two
			// messages or is probing.
			return BadContentLength
		}
		p.length = n
		p.said |= saidLength
	case head.TransferEncoding:
		switch {
		case p.said&saidLength != 0:
			return LengthAndCoding
		case p.said&saidChunked != 0 || !head.FoldsTo(f.Value, "chunked"):
			return UnknownCoding
		}
		p.said |= saidChunked
	case head.Connection:
		p.hearConnection(f.Value)
	case head.Expect:
		if head.FoldsTo(f.Value, "100-continue") {
			p.said |= said100
		}
	case head.Host:
		if p.said&saidHost != 0 {
			p.said |= saidHosts
		}
		p.said |= saidHost
	}
	return OK
}

// hearConnection notes the options of a Connection field that concern this connection (RFC 9110,
// section 7.6.1).
func (p *parser) hearConnection(value []byte) {
	for len(value) > 0 {
		var option []byte
		option, value = nextToken(value)
		switch {
		case head.FoldsTo(option, "keep-alive"):
			p.said |= saidKeepAlive
		case head.FoldsTo(option, "close"):
			p.said |= saidClose
		case head.FoldsTo(option, "upgrade"):
			p.said |= saidUpgrade
		}
	}
}

// keepAlive says whether the sender lets the connection live on (RFC 9112, section 9.3).
func (p *parser) keepAlive(minor uint8) bool {
	return p.said&saidClose == 0 && (minor == 1 || p.said&saidKeepAlive != 0)
}

// upgrade is the value of the one Upgrade field where it counts, else nil. It does not count where
// it names nothing but h2c: see NextProtocol.
func (p *parser) upgrade(minor uint8, l *head.List) []byte {
	if p.said&saidUpgrade == 0 || minor == 0 {
		return nil
	}
	var value []byte
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.Upgrade {
			if value != nil {
				return nil
			}
			value = f.Value
		}
	}
	if first, _ := NextProtocol(value); first == nil {
		return nil
	}
	return value
}

// version reads the last eight bytes of a request line, or the first of a status line.
func version(b []byte) (minor uint8, err Error) {
	if string(b) == "HTTP/1.1" {
		return 1, OK
	}
	if string(b) == "HTTP/1.0" {
		return 0, OK
	}
	if string(b[:5]) == "HTTP/" && b[6] == '.' && isDigit(b[5]) && isDigit(b[7]) {
		return 0, BadVersion
	}
	return 0, BadLine
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
