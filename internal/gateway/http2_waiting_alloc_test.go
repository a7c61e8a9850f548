//go:build !race

package gateway

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	codec "plimsoll/internal/http2"
)

// heapInUse is what lives on the heap.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Of a stream that waits for its answer the gateway keeps little: 1.5 KB, with its part of its
// connections and of what the loops keep for other exchanges.
func TestAStreamOfHTTP2ThatWaitsKeepsLittle(t *testing.T) {
	t.Run("for its answer", func(t *testing.T) { streamsThatWait(t, "") })
	t.Run("for more of it", func(t *testing.T) { streamsThatWait(t, "data: a long wait begins\n\n") })
}

func streamsThatWait(t *testing.T, event string) {
	const connections, streams, bound = 100, 100, 1536
	service := newSilentService(t)
	service.event = event
	g := serve(t, `
loops: 2
listeners: [{address: "127.0.0.1:0", http2: true}]
upstreams: {s: {targets: ["`+service.ln.Addr().String()+`"], protocol: h2c, pool: {max_connections: 1000}}}
routes: [{match: /, upstream: s, timeout: 1h, stream_timeout: 1h, request_id: true}]
`)
	var peers []*peer
	for range connections {
		p := g.dial()
		p.send(codec.Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		peers = append(peers, p)
	}
	answered := answersOf(peers, streams)
	frames := manyRequests(streams)
	g.snapshot() // what the gateway collects of itself is not the streams'
	before := heapInUse()
	for _, p := range peers {
		p.send(frames)
	}
	const all = connections * streams
	eventually(t, "all requests at the service", func() bool { return service.asked.Load() == all })
	// A second later the loops begin to pack them, and to give back what they have left over.
	var each int64
	eventually(t, "the streams keep little", func() bool {
		pause(t.Context(), 200*time.Millisecond) // collecting garbage all the time would stop the loops
		each = (heapInUse() - before) / all
		return each <= bound
	})
	t.Logf("%d bytes for each of %d streams that wait", each, all)
	close(service.let)
	for range peers {
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
}

// manyRequests are the frames of n requests on the streams 1, 3, and so on.
func manyRequests(n int) string {
	var block, frames bytes.Buffer
	encoder, framer := hpack.NewEncoder(&block), http2.NewFramer(&frames, nil)
	for i := range n {
		block.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"},
			{":path", "/wait/for/news?since=8d2f0c5e"}, {"user-agent", "h2load nghttp2/1.59.0"},
			{"accept", "application/json"}} {
			encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(1 + 2*i), BlockFragment: block.Bytes(),
			EndStream: true, EndHeaders: true})
	}
	return frames.String()
}
