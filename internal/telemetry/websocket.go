package telemetry

// Closer is who, or what, closed a WebSocket first. The set is closed.
type Closer uint8

// The closers. ByNobody is that of a tunnel that ended without a close frame. From ByDrain on it is
// the gateway.
const (
	ByNobody Closer = iota
	ByClient
	ByUpstream
	ByDrain     // a stop or an upgrade
	ByRemoval   // its route or listener is no longer in the config
	ByIdle      // nothing moved for too long
	ByLifetime  // it was open for as long as it may be
	ByNoPong    // the client was silent, and did not answer a ping
	ByTooBig    // a message of the client's was over the route's bound
	ByMalformed // the client sent something else than frames, where messages are bounded
	closers
)

var closerText = [closers]string{"nobody", "client", "upstream", "drain", "removal", "idle", "lifetime",
	"no_pong", "too_big", "malformed"}

// String is the closer's label.
func (c Closer) String() string { return closerText[c] }

// WebSocketStats is what is counted of a route's WebSockets. All of it only grows.
type WebSocketStats struct {
	Opened   uint64          // tunnels that began
	Closed   [closers]uint64 // those that have ended, by who closed them
	In, Out  uint64          // messages that came from clients and from upstreams
	Pings    uint64          // sent by the gateway
	Unframed uint64          // tunnels whose bytes were not frames
}

// version grows whenever anything in s changes that no exchange's end counts.
func (s *WebSocketStats) version() uint64 { return s.Opened + s.In + s.Out + s.Pings + s.Unframed }

// Open is how many there are now.
func (s *WebSocketStats) Open() uint64 {
	n := s.Opened
	for _, ended := range s.Closed {
		n -= ended
	}
	return n
}

// add adds what another loop counted.
func (s *WebSocketStats) add(o *WebSocketStats) {
	s.Opened += o.Opened
	s.In += o.In
	s.Out += o.Out
	s.Pings += o.Pings
	s.Unframed += o.Unframed
	addEach(s.Closed[:], o.Closed[:])
}
