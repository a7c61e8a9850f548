package proxy

import (
	"crypto/rand"
	"encoding/base64"

	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
)

// A WebSocket over HTTP/2 is a stream that begins with an extended CONNECT (RFC 8441) and whose data
// are the bytes of the connection. The upstream speaks HTTP/1.1: it gets a GET that asks for an
// upgrade, and its 101 becomes a 200.

var (
	methodGet  = []byte("GET")
	keyName    = []byte("Sec-WebSocket-Key")
	acceptName = []byte("Sec-WebSocket-Accept")
)

const (
	keyBytes     = 16 // of a Sec-WebSocket-Key (RFC 6455, section 4.1)
	statusTunnel = 200
)

// askUpgrade turns an extended CONNECT into the request that HTTP/1.1 uses for a WebSocket. The key
// is for a client to check that the service has understood the request. Here the client is the
// gateway, which relies on the 101.
func askUpgrade(f *flow) {
	var nonce [keyBytes]byte
	rand.Read(nonce[:])
	r := &f.req
	r.Method, r.Upgrade, r.Length = methodGet, protocolWebSocket, 0
	r.Fields.Remove(keyName)
	r.Fields.Add(keyName, base64.StdEncoding.AppendEncode(nil, nonce[:]))
}

// startTunnel implements stream. The bytes of the tunnel are DATA, as those of a body are.
func (st *http2Stream) startTunnel() { st.tunnel = true }

// sendTunnelHead sends a 200 in place of the upstream's 101, and returns the length of its head.
func (st *http2Stream) sendTunnelHead(f *flow) int {
	h := st.h
	f.res.Fields.Remove(acceptName)
	out := append(h.c.w.out[:0], frameRoom[:]...)
	out = h.encoder.AppendStatus(h.encoder.Begin(out), statusTunnel)
	out = h.appendFields(out, &f.res.Fields, statusTunnel, 1<<head.ContentLength)
	if !f.res.Fields.Has(head.Date) {
		out = h.encoder.AppendStatic(out, indexDate, f.w.httpDate(), hpack.Once)
	}
	return h.sendBlock(st.id, out, false)
}
