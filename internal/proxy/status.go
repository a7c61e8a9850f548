package proxy

import (
	"net/netip"
)

// ClientStatus describes a client's connection. It is a copy. Times are nanoseconds of the loop's
// clock.
type ClientStatus struct {
	Peer     netip.AddrPort
	Listener string
	TLS      string // version; empty for plain text
	Name     string // the name that the client asked for by SNI
	Since    int64  // when it was accepted
	// "handshake", "idle", "reading" (a head), "tunnel", "http2", "http3", "closing", or the stage
	// of its exchange.
	State    string
	Requests uint32 // requests that the client has sent, including the present one
	Streams  int    // open streams of HTTP/2
	Queued   int    // bytes that the client has not taken yet

	// The exchange under way; empty if there is none.
	Method, Host, Path string
	Route, Target      string
	Began              int64 // 0 for no exchange
	BytesIn, BytesOut  int64
}

// maxText bounds each text of a ClientStatus that a client has chosen, in bytes.
const maxText = 256

// OldestClients describes at most most client connections: the oldest of HTTP/1.1 and HTTP/2 first,
// then the oldest of HTTP/3. The worker's lists are in the order of arrival, so it looks only at
// the connections that it describes.
func (w *Worker) OldestClients(most int) (list []ClientStatus) {
	for c := w.clients.prev; c != &w.clients && len(list) < most; c = c.prev {
		list = append(list, c.status())
	}
	for h := w.http3.prev; h != &w.http3 && len(list) < most; h = h.prev {
		list = append(list, h.status())
	}
	return list
}

// InFlight returns how many exchanges are under way on this loop, including mirrors' copies and
// requests whose heads have come only partly.
func (w *Worker) InFlight() (n int) {
	if w.view != nil {
		n = w.view.flows
	}
	for _, v := range w.old {
		n += v.flows
	}
	return n
}

func (c *clientConn) status() ClientStatus {
	s := ClientStatus{Peer: c.peer, Listener: c.listener.Name, Since: c.since, State: c.stateText(),
		Requests: c.requests, Queued: c.conn.Queued()}
	if c.tlsInfo != nil {
		s.TLS, s.Name = c.tlsInfo.Version, short(c.tlsInfo.ServerName)
	}
	if c.http2 != nil {
		s.Streams = c.http2.open
	}
	f := c.flow
	if f == nil || f.stage == stageReading {
		return s
	}
	s.Method, s.Host, s.Path = short(f.req.Method), short(f.req.Host), short(f.req.Path)
	s.Route, s.Target, s.Began = f.Route, f.Target, f.Start
	s.BytesIn, s.BytesOut = f.headBytes+f.bodyIn, f.bodyOut
	return s
}

func (c *clientConn) stateText() string {
	switch c.state {
	case clientHandshake:
		return "handshake"
	case clientHead:
		if c.flow != nil {
			return "reading"
		}
		return "idle"
	case clientTunnel:
		return "tunnel"
	case clientHTTP2:
		return "http2"
	case clientBusy:
		return stageText[c.flow.stage]
	}
	return "closing"
}

// stageText names the stages of an exchange for people.
var stageText = [stages]string{
	stageReading: "reading", stagePolicies: "policies", stageHolding: "receiving the body",
	stageWaiting: "waiting for a connection", stageConnecting: "connecting",
	stageSent: "waiting for the upstream", stageStreaming: "streaming", stageTunnel: "tunnel",
	stageSending: "sending", stageOver: "over",
}

// short copies a text, cut at maxText.
func short[T string | []byte](v T) string { return string(v[:min(len(v), maxText)]) }
