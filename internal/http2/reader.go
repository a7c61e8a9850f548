package http2

import "encoding/binary"

// Reader splits the bytes that a peer sends on one connection into frames. It refuses violations of
// the rules for single frames and for the order of frames: sizes, stream identifiers, padding,
// interrupted field blocks, and the beginning of the connection. The caller must check what depends
// on the states of streams. Call Reset before use. A Reader takes less than 100 bytes and holds no
// buffer.
type Reader struct {
	left   int // bytes of data still to come of the frame that is returned in parts
	pad    int // bytes of padding after them
	frame  Frame
	block  uint32 // the stream whose field block is incomplete, or 0
	max    uint32 // SETTINGS_MAX_FRAME_SIZE that we announced
	failed Error  // the error of the connection, which is final

	server bool
	began  bool // the first frame has arrived
	within bool // a frame is being returned in parts
}

// Buffer is how many bytes, beyond the largest frame's payload, Next may need in one call.
const Buffer = len(Preface) + HeaderSize

// Reset prepares r for a connection. server says that we are the server, so that the peer sends
// Preface first. maxFrame is the SETTINGS_MAX_FRAME_SIZE that we announce, 16384 to 2^24-1 bytes.
// If it is above the initial 16384, larger frames are allowed from the start.
func (r *Reader) Reset(server bool, maxFrame uint32) {
	*r = Reader{server: server, max: maxFrame}
}

// Next takes the next frame from in, or the next part of a Data frame or of a frame of unknown
// type. n is how many bytes it has used. If n is 0 and there is no error, Next needs more bytes:
// the caller must pass all of in again, followed by more. A buffer of Buffer bytes more than the
// maximum frame size is always enough.
//
// An error with a Stream comes together with the frame and its n. The connection goes on after the
// frame, and the field block of Headers must still be decoded, because later blocks depend on it.
// An error of the connection is final: n is 0, and all further calls return the same error.
func (r *Reader) Next(in []byte) (f Frame, n int, err Error) {
	if r.failed.Failed() {
		return Frame{}, 0, r.failed
	}
	if r.within {
		f, n = r.part(in)
		return f, n, Error{}
	}
	at := 0
	if r.server && !r.began {
		switch at = min(len(in), len(Preface)); {
		case string(in[:at]) != Preface[:at]:
			return r.fail(BadPreface)
		case at < len(Preface):
			return Frame{}, 0, Error{}
		}
	}
	if len(in)-at < HeaderSize {
		return Frame{}, 0, Error{}
	}
	f = header(in[at:])
	if reason := r.judge(&f); reason != OK {
		return r.fail(reason)
	}
	at += HeaderSize
	if f.Type == Data || !f.Type.known() {
		return r.begin(f, in, at)
	}
	if len(in)-at < f.Length {
		return Frame{}, 0, Error{}
	}
	end := at + f.Length
	f.Payload = in[at:end:end]
	if err = r.open(&f); err.Failed() && err.Stream == 0 {
		return r.fail(err.Reason)
	}
	r.began = true
	if f.Type == Headers || f.Type == Continuation {
		r.block = f.Stream
		if f.Has(EndHeaders) {
			r.block = 0
		}
	}
	return f, end, err
}

func (r *Reader) fail(reason Reason) (Frame, int, Error) {
	r.failed = Error{Reason: reason}
	return Frame{}, 0, r.failed
}

// header reads a frame's header. The reserved bit is ignored (RFC 9113, section 4.1).
func header(b []byte) Frame {
	_ = b[HeaderSize-1]
	return Frame{
		Length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		Type:   Type(b[3]),
		Flags:  Flags(b[4]),
		Stream: binary.BigEndian.Uint32(b[5:]) & streamBits,
		First:  true,
		Last:   true,
	}
}

// shapes are the rules for the header of each known type.
var shapes = [...]struct {
	min, max     int  // of the length; max 0 means no limit but the frame size
	stream, zero bool // whether the frame must, or must not, belong to a stream
}{
	Data:           {stream: true},
	Headers:        {stream: true},
	PriorityFrame:  {stream: true}, // its length is an error of the stream: see open
	RSTStream:      {min: 4, max: 4, stream: true},
	SettingsFrame:  {zero: true},
	PushPromise:    {},
	Ping:           {min: 8, max: 8, zero: true},
	GoAway:         {min: 8, zero: true},
	WindowUpdate:   {min: 4, max: 4},
	Continuation:   {stream: true},
	PriorityUpdate: {min: 4, zero: true},
}

// judge checks a frame's header, before its payload has arrived.
func (r *Reader) judge(f *Frame) Reason {
	switch {
	case uint32(f.Length) > r.max:
		return FrameTooLarge
	case !r.began && (f.Type != SettingsFrame || f.Has(Ack)):
		return NoSettings
	case r.block != 0 && (f.Type != Continuation || f.Stream != r.block):
		return MissingContinuation
	case r.block == 0 && f.Type == Continuation:
		return UnexpectedContinuation
	case f.Type == PushPromise:
		return Pushed
	case f.Type == PriorityUpdate && !r.server:
		return ClientOnly
	case !f.Type.known():
		return OK
	}
	shape := &shapes[f.Type]
	least := shape.min
	if f.Type <= Headers {
		if f.Has(Padded) {
			least++
		}
		if f.Type == Headers && f.Has(HasPriority) {
			least += 5
		}
	}
	switch {
	case shape.stream && f.Stream == 0:
		return StreamZero
	case shape.zero && f.Stream != 0:
		return NotStreamZero
	case f.Stream != 0 && f.Stream&1 == 0 && f.Type != PriorityFrame:
		return EvenStream
	case f.Length < least || shape.max != 0 && f.Length > shape.max:
		return BadFrameSize
	case f.Type == SettingsFrame && (f.Length%settingSize != 0 || f.Has(Ack) && f.Length != 0):
		return BadFrameSize
	}
	return OK
}

// open checks the payload of a complete frame, and strips what is not content.
func (r *Reader) open(f *Frame) Error {
	switch f.Type {
	case Headers:
		return openHeaders(f)
	case PriorityFrame:
		switch {
		case f.Length != 5:
			return BadFrameSize.Of(f.Stream)
		case binary.BigEndian.Uint32(f.Payload)&streamBits == f.Stream:
			return SelfDependency.Of(f.Stream)
		}
	case WindowUpdate:
		if f.Increment() == 0 {
			return ZeroIncrement.Of(f.Stream)
		}
	case PriorityUpdate:
		if binary.BigEndian.Uint32(f.Payload)&streamBits == 0 {
			return Error{Reason: StreamZero}
		}
	}
	return Error{}
}

// openHeaders strips padding and priority (RFC 9113, section 6.2). judge has checked that the
// length allows for both.
func openHeaders(f *Frame) (err Error) {
	p := f.Payload
	pad := 0
	if f.Has(Padded) {
		pad, p = int(p[0]), p[1:]
	}
	if f.Has(HasPriority) {
		if binary.BigEndian.Uint32(p)&streamBits == f.Stream {
			err = SelfDependency.Of(f.Stream)
		}
		p = p[5:]
	}
	if pad > len(p) {
		return Error{Reason: BadPadding}
	}
	end := len(p) - pad
	f.Payload = p[:end:end]
	return err
}

// begin returns the first part of a frame that is returned in parts. at is where its payload
// begins.
func (r *Reader) begin(f Frame, in []byte, at int) (Frame, int, Error) {
	r.left, r.pad = f.Length, 0
	if f.Type == Data && f.Has(Padded) {
		if len(in) == at {
			return Frame{}, 0, Error{}
		}
		r.pad = int(in[at])
		if r.pad >= f.Length {
			return r.fail(BadPadding)
		}
		at++
		f.Overhead = 1 + r.pad
		r.left -= f.Overhead
	}
	if len(in) == at && r.left+r.pad > 0 {
		return Frame{}, 0, Error{} // an empty part would be of no use
	}
	r.frame = f
	f, n := r.part(in[at:])
	return f, at + n, Error{}
}

// part returns the next part of r.frame. Padding in in is consumed together with the data before
// it.
func (r *Reader) part(in []byte) (Frame, int) {
	if len(in) == 0 && r.left+r.pad > 0 {
		return Frame{}, 0
	}
	f := r.frame
	data := min(r.left, len(in))
	pad := min(r.pad, len(in)-data)
	f.Payload = in[:data:data]
	r.left -= data
	r.pad -= pad
	f.Last = r.left+r.pad == 0
	r.within = !f.Last
	r.frame.First, r.frame.Overhead = false, 0
	return f, data + pad
}
