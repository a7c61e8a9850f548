package remote

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// protocolVersion is the version of the messages. Both sides are the same program, so there is no
// negotiation: another version is an error.
const protocolVersion = 1

// kind is the kind of a frame's content.
type kind byte

// The kinds. The first group goes to a generator, the second comes from it, and the third goes both
// ways.
const (
	kindWork  kind = 'w' // the target and what to send to it
	kindLoad  kind = 'l' // a load to prepare: its options
	kindStart kind = 's' // when the load's clock starts
	kindStop  kind = 'x' // end it now
	kindCount kind = 'n' // how many connections to the target are there?

	kindPrepared kind = 'p' // the work was understood
	kindReady    kind = 'r' // connections are open
	kindWindow   kind = 'd' // one window of the load
	kindOutcome  kind = 'o' // what the load measured
	kindFailed   kind = 'f' // why it measured nothing, or what is wrong with the work
	kindCounted  kind = 'c'

	kindHello kind = 'h' // the first frame of either side
	kindClock kind = 't' // one round trip to compare clocks
	kindBeat  kind = 'b' // the sender is alive
)

// limit is the largest content of a frame in bytes; 0 for an unknown kind. The work includes the
// files of a scenario and a body, in base64; the outcome includes histograms of each kind of
// request.
func (k kind) limit() int {
	switch k {
	case kindWork:
		return 256 << 20
	case kindOutcome:
		return 64 << 20
	case kindWindow, kindLoad:
		return 4 << 20
	case kindHello, kindClock, kindBeat, kindStart, kindStop, kindCount, kindPrepared, kindReady,
		kindFailed, kindCounted:
		return 64 << 10
	}
	return 0
}

// header is the size of a frame's header: four bytes of content length, big-endian, and the kind.
const header = 5

// wire sends and receives frames. One goroutine receives; any goroutine may send.
type wire struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out io.Writer
}

func newWire(in io.Reader, out io.Writer) *wire {
	buffered, ok := in.(*bufio.Reader)
	if !ok {
		buffered = bufio.NewReader(in)
	}
	return &wire{in: buffered, out: out}
}

// send sends one frame. Its content is the message as JSON, or empty if message is nil.
func (w *wire) send(k kind, message any) error {
	frame := make([]byte, header)
	if message != nil {
		content, err := json.Marshal(message)
		if err != nil {
			return err
		}
		frame = append(frame, content...)
	}
	if len(frame)-header > k.limit() {
		return fmt.Errorf("a message of %d bytes is too large: %d are the most",
			len(frame)-header, k.limit())
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-header))
	frame[header-1] = byte(k)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.out.Write(frame)
	return err
}

// receive returns the next frame. io.EOF means that the other side closed the connection between
// two frames. It allocates no more memory than bytes have arrived.
func (w *wire) receive() (kind, []byte, error) {
	var head [header]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return 0, nil, err
	}
	k, length := kind(head[header-1]), int64(binary.BigEndian.Uint32(head[:]))
	if limit := k.limit(); limit == 0 || length > int64(limit) {
		return 0, nil, fmt.Errorf("what comes is not the generator's protocol: %q", head)
	}
	var content bytes.Buffer
	if n, err := io.CopyN(&content, w.in, length); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, nil, fmt.Errorf("the connection ended after %d of %d bytes of a message", n, length)
		}
		return 0, nil, err
	}
	return k, content.Bytes(), nil
}

// decode parses a frame's content. Unknown fields are an error.
func decode[T any](content []byte) (*T, error) {
	message := new(T)
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(message); err != nil {
		return nil, fmt.Errorf("a message that cannot be read: %w", err)
	}
	if d.More() {
		return nil, errors.New("a message with something after its end")
	}
	return message, nil
}
