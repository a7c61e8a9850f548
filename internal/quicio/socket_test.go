package quicio

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
)

const patience = time.Minute

func bind(t *testing.T) *Socket {
	t.Helper()
	s, err := Bind(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// succeed hands a socket over.
func succeed(t *testing.T, s *Socket) (*Socket, *Pipe) {
	t.Helper()
	fd, end, p, err := s.Successor()
	if err != nil {
		t.Fatal(err)
	}
	next, err := Inherit(fd, end)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { next.Close() })
	return next, p
}

// packets are what a socket reads, each as its first bytes up to "|".
func packets(s *Socket) <-chan string {
	out := make(chan string, 100)
	go func() {
		defer close(out)
		messages := make([]ipv4.Message, 8)
		for i := range messages {
			messages[i].Buffers = [][]byte{make([]byte, 1452)}
			messages[i].OOB = make([]byte, 128)
		}
		for {
			n, err := s.ReadBatch(messages, 0)
			if err != nil {
				return
			}
			for _, m := range messages[:n] {
				text := string(m.Buffers[0][:m.N])
				out <- text[strings.LastIndexByte(text, '|')+1:]
			}
		}
	}()
	return out
}

// short makes a packet with a short header of a socket's connection; long one with a long header.
func short(s *Socket, text string) []byte {
	id, _ := s.GenerateConnectionID()
	return append(append([]byte{0x40}, id.Bytes()...), "|"+text...)
}

func long(s *Socket, text string) []byte {
	id, _ := s.GenerateConnectionID()
	b := append([]byte{0xe0, 0, 0, 0, 1, byte(id.Len())}, id.Bytes()...)
	return append(b, "|"+text...)
}

func expect(t *testing.T, from <-chan string, want string) {
	t.Helper()
	select {
	case got, ok := <-from:
		if !ok || got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %q", want)
	}
}

func TestASocketThatChangesHandsTwice(t *testing.T) {
	first := bind(t)
	client, err := net.Dial("udp", first.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	atFirst := packets(first)
	client.Write(short(first, "a"))
	expect(t, atFirst, "a")

	second, pipe := succeed(t, first)
	if second.keys != first.keys || second.tag == first.tag {
		t.Error("the keys are not the same, or the tags are")
	}
	atSecond := packets(second)
	client.Write(short(second, "before it is taken over")) // is the first one's to read
	expect(t, atFirst, "before it is taken over")
	first.TakenOver(pipe)
	client.Write(short(first, "b"))
	expect(t, atFirst, "b")
	client.Write(short(second, "c"))
	expect(t, atSecond, "c")
	client.Write(long(first, "d"))
	expect(t, atFirst, "d")
	client.Write([]byte("\xc0\x00\x00\x00\x01\x08whatever|a new client"))
	expect(t, atSecond, "a new client")

	third, pipe := succeed(t, second)
	atThird := packets(third)
	second.TakenOver(pipe)
	for i, s := range []*Socket{first, second, third} {
		at := []<-chan string{atFirst, atSecond, atThird}[i]
		client.Write(short(s, "e"))
		expect(t, at, "e")
	}
	// The first one ends: what is for it comes to who has the socket, whose quic-go says so.
	first.Close()
	for range atFirst {
	}
	client.Write(short(first, "for nobody"))
	expect(t, atSecond, "for nobody")
	client.Write(short(second, "f"))
	expect(t, atSecond, "f")
}

func TestASocketComesBackFromAHolderThatIsGone(t *testing.T) {
	first := bind(t)
	at := packets(first)
	second, pipe := succeed(t, first)
	first.TakenOver(pipe)
	second.Close()
	client, err := net.Dial("udp", first.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.Write(short(first, "x"))
	expect(t, at, "x")
}

func TestAHandoverThatIsCalledOff(t *testing.T) {
	first := bind(t)
	at := packets(first)
	fd, end, pipe, err := first.Successor()
	if err != nil {
		t.Fatal(err)
	}
	next, err := Inherit(fd, end)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	pipe.Close()
	client, _ := net.Dial("udp", first.LocalAddr().String())
	defer client.Close()
	client.Write(short(first, "x"))
	expect(t, at, "x")
}

func TestTagsOfPackets(t *testing.T) {
	s := &Socket{tag: tag{1, 2, 3, 4}}
	for text, c := range map[string]struct {
		packet []byte
		ok     bool
	}{
		"short":             {short(s, ""), true},
		"long":              {long(s, ""), true},
		"nothing":           {nil, false},
		"one byte":          {[]byte{0x40}, false},
		"half a tag":        {[]byte{0x40, 1, 2}, false},
		"a long one cut":    {long(s, "")[:10], false},
		"of another length": {append([]byte{0xe0, 0, 0, 0, 1, 8}, "12345678901234567"...), false},
	} {
		got, ok := tagOf(c.packet)
		if ok != c.ok || ok && got != s.tag {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
}

func FuzzPackets(f *testing.F) {
	f.Add([]byte{0xe0, 0, 0, 0, 1, 12, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, packet []byte) {
		if _, ok := tagOf(packet); ok && len(packet) < 1+idLength {
			t.Error("a packet that is too short has a tag")
		}
	})
}
