package proxy_test

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http2"
)

// sized is a policy that answers with as many bytes as the request's Size asks for, and with the
// response's Priority that its Answer-Priority names.
type sized struct{}

var sizedBody = make([]byte, 4<<20)

func (sized) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	n, _ := strconv.Atoi(string(x.Request.Fields.Find([]byte("size")).Value))
	x.Answer(200, exchange.RouteAnswer, sizedBody[:n])
	if field := x.Request.Fields.Find([]byte("answer-priority")); field != nil {
		x.Response.Fields.Add([]byte("Priority"), field.Value)
	}
	return exchange.Answered
}

// sharer is a client of HTTP/2 whose connection's window is used up, so that its streams wait.
type sharer struct {
	*bed
	client *sock
	reader http2.Reader
	next   uint32
	frames []http2.Frame // all that came since they were last forgotten
}

// record is how much content one turn of an incremental stream has at most.
const record = 16<<10 - http2.HeaderSize

func newSharer(t *testing.T) *sharer {
	t.Helper()
	s := &sharer{bed: framed(newBed(t, sized{})), next: 1}
	s.reader.Reset(false, 1<<14)
	s.client = s.bed.client(silence)
	s.turn()
	s.say(http2.Preface + string(http2.AppendSettings(nil,
		http2.Setting{ID: http2.InitialWindowSize, Value: 1 << 30})))
	s.ask(http2.ConnectionWindow)
	if n := s.content(1); n != http2.ConnectionWindow {
		t.Fatalf("%d bytes came for the connection's first window", n)
	}
	s.frames = nil
	return s
}

// asks is a request for as many bytes, with further fields.
func (s *sharer) asks(size int, fields ...string) (id uint32, frame string) {
	id = s.next
	s.next += 2
	return id, framedAsk(id, append([]string{"size", strconv.Itoa(size)}, fields...)...)
}

// ask sends one.
func (s *sharer) ask(size int, fields ...string) uint32 {
	id, frame := s.asks(size, fields...)
	s.say(frame)
	return id
}

// opens is a WINDOW_UPDATE.
func opens(stream uint32, n int) string {
	return string(http2.AppendWindowUpdate(nil, stream, uint32(n)))
}

// reprioritises is a PRIORITY_UPDATE.
func reprioritises(stream uint32, value string) string {
	b := make([]byte, http2.HeaderSize)
	http2.PutFrameHeader(b, 4+len(value), http2.PriorityUpdate, 0, 0)
	return string(append(binary.BigEndian.AppendUint32(b, stream), value...))
}

// say has the client send frames, and takes down what comes.
func (s *sharer) say(text string) {
	s.t.Helper()
	if text != "" {
		s.client.in = saying(silence, text)
		s.tell(s.client)
	}
	for range 8 { // as many as a megabyte in each needs
		s.turn()
	}
	for len(s.client.out) > 0 {
		f, n, err := s.reader.Next(s.client.out)
		if err.Failed() || n == 0 {
			s.t.Fatalf("the client got what is not a frame: %v", err)
		}
		s.client.out = s.client.out[n:]
		s.frames = append(s.frames, f)
	}
}

// content is how much content came on a stream.
func (s *sharer) content(id uint32) (n int) {
	for _, f := range s.frames {
		if f.Type == http2.Data && f.Stream == id {
			n += len(f.Payload)
		}
	}
	return n
}

// order is the streams of which content came, each as often as another one came in between.
func (s *sharer) order() (ids []uint32) {
	for _, f := range s.frames {
		if f.Type == http2.Data && len(f.Payload) > 0 && (len(ids) == 0 || ids[len(ids)-1] != f.Stream) {
			ids = append(ids, f.Stream)
		}
	}
	return ids
}

func (s *sharer) expectOrder(want ...uint32) {
	s.t.Helper()
	if got := s.order(); !slices.Equal(got, want) {
		s.t.Errorf("content came of %v, want %v", got, want)
	}
	s.frames = nil
}
