package proxy

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"testing"
	"unsafe"

	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
)

// anExchange fills every word of f that pack packs: with zero, with a number, with a pointer or a slice
// into f itself, into memory or elsewhere.
func anExchange(f *flow, r *rand.Rand, memory, elsewhere []byte) {
	into := func() []byte {
		from := memory
		if r.IntN(2) == 0 {
			from = elsewhere
		}
		at := r.IntN(len(from))
		return from[at : at+r.IntN(len(from)-at)]
	}
	for i := 0; i < len(flowWords); i++ {
		at := unsafe.Add(unsafe.Pointer(f), uintptr(i)*wordSize)
		zero := r.IntN(3) == 0
		switch flowWords[i] {
		case scalar:
			*(*uintptr)(at) = uintptr(r.Uint64() >> r.IntN(64))
			if zero {
				*(*uintptr)(at) = 0
			}
		case pointer:
			*(*unsafe.Pointer)(at) = unsafe.Pointer(unsafe.SliceData(into()))
			if r.IntN(3) == 0 {
				*(*unsafe.Pointer)(at) = unsafe.Add(unsafe.Pointer(f), r.IntN(int(unsafe.Sizeof(*f))))
			}
			if zero {
				*(*unsafe.Pointer)(at) = nil
			}
		case slice:
			*(*[]byte)(at) = into()
			if zero {
				*(*[]byte)(at) = nil
			}
			i += 2
		}
	}
}

// wordsOf says of each word of f what it is, so that two flows can be compared: pointers into the flow
// and into memory by where they lead, slices by what is in them.
func wordsOf(f *flow, memory []byte) (all []any) {
	for i := 0; i < len(flowWords); i++ {
		at := unsafe.Add(unsafe.Pointer(f), uintptr(i)*wordSize)
		switch flowWords[i] {
		case scalar:
			all = append(all, *(*uintptr)(at))
		case pointer:
			p := *(*unsafe.Pointer)(at)
			inFlow := uintptr(p) - uintptr(unsafe.Pointer(f))
			inMemory := uintptr(p) - uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
			switch {
			case inFlow < unsafe.Sizeof(*f):
				all = append(all, [2]any{"flow", inFlow})
			case inMemory < uintptr(len(memory)):
				all = append(all, [2]any{"memory", inMemory})
			default:
				all = append(all, p)
			}
		case slice:
			s := *(*[]byte)(at)
			all = append(all, [2]any{s == nil, string(s)})
			i += 2
		}
	}
	return all
}

func TestAPackedExchangeIsWhatItWas(t *testing.T) {
	loops, err := reactor.NewGroup(1, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := NewWorker(loops[0], &Shared{}, &telemetry.Shard{}, nil)
		f := w.takeFlow()
		f.Exchange.Begin(w)
		memory := make([]byte, 1+r.IntN(900), 1024)
		for i := range memory {
			memory[i] = byte(i)
		}
		anExchange(f, r, memory, []byte("what is elsewhere stays there"))
		allocated := f.Alloc(20)
		copy(allocated, "what a policy writes")
		f.req.Fields.Add([]byte("X-Policy"), allocated)
		f.req.Fields.Add(memory[:min(3, len(memory))], nil)
		before, life := wordsOf(f, memory), f.Life()
		packed := w.pack(f, memory)
		if w.flows != f || f.Life() == life {
			t.Fatalf("seed %d: the flow was not kept for its next use", seed)
		}
		clear(memory) // somebody else's by now
		clear(allocated)
		fields := &reactor.Buffer{Bytes: make([]byte, packed.borrowed)}
		f = w.unpack(packed, fields)
		after := wordsOf(f, fields.Bytes)
		for i := range before {
			if before[i] != after[i] {
				t.Fatalf("seed %d: word %d is %v, was %v", seed, i, after[i], before[i])
			}
		}
		if f.req.Fields.Len() != 2 || !bytes.Equal(f.req.Fields.At(0).Value, []byte("what a policy writes")) {
			t.Fatalf("seed %d: the fields are %v", seed, f.req.Fields)
		}
	}
}

// Packed is how many exchanges of the loop are packed.
func (w *Worker) Packed() (n int) {
	for c := w.clients.next; c != &w.clients; c = c.next {
		if c.state != clientHTTP2 {
			continue
		}
		for d := c.http2.first; d != nil; d = d.after {
			if d.owner.(*http2Stream).packed != nil {
				n++
			}
		}
	}
	return n
}
